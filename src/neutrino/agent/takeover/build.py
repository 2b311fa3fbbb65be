"""Composes the conversion of this host from the configuration, with real drivers."""

import shutil
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from neutrino.agent.guard.gate import Bridges, Gate
from neutrino.agent.metadata import build as metadata
from neutrino.agent.runtime.role import Drift, Role
from neutrino.agent.takeover import hybrid, instance_ports
from neutrino.agent.takeover.back import Restorer
from neutrino.agent.takeover.commands import Commands
from neutrino.agent.takeover.conversion import Conversion, Host, Say
from neutrino.agent.takeover.daemons import OurDaemons, read_daemons, restart
from neutrino.agent.takeover.hybrid import SavedFirewall
from neutrino.agent.takeover.look import Look
from neutrino.agent.takeover.neutron_agents import running_agents
from neutrino.agent.takeover.phase import read_phase, write_phase
from neutrino.agent.takeover.snapshot import HostSnapshot, Reader, read_snapshot, write_snapshot
from neutrino.agent.takeover.stopped_agents import StoppedAgents
from neutrino.agent.takeover.ways import choose
from neutrino.agent.takeover.works import Works
from neutrino.agent.teardown.own_switch import end_daemons, forget
from neutrino.configuration.options import Configuration
from neutrino.dataplane.iptables.real import RealIptables, restore_saved, save_rules
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.nft.real import RealNft
from neutrino.dataplane.probes.api import Prober
from neutrino.dataplane.probes.real import SwitchProber
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.units import SystemdUnits
from neutrino.feed.client import FeedClient

SETTLE_SECONDS: Final = 5.0


def commands(
    conf: Configuration,
    bridges: Bridges,
    gate: Gate,
    feed: FeedClient,
    roles: Sequence[Role],
    find: Callable[[], Sequence[Drift]],
    end_roles: Callable[[], None],
    works: Works,
    compare: Callable[[], Awaitable[Look]],
) -> Commands:
    state, namespaces = conf.state_path, Namespaces()
    processes = RealForeignProcesses(namespaces)

    def save() -> HostSnapshot:
        reader = Reader(
            bridges.openflow,
            RealNetlink(),
            read_daemons,
            partial(save_rules, namespaces),
            _read_hybrid,
            lambda: instance_ports.numbers(bridges.ovsdb().read(), bridges.integration),
        )
        snapshot = reader.read(bridges.present(), datetime.now(UTC).isoformat(timespec="seconds"))
        write_snapshot(state, snapshot)
        return snapshot

    def start_probes() -> Prober:
        prober = SwitchProber(f"{conf.ovs.run_directory or '/var/run/openvswitch'}/{bridges.integration}.mgmt")
        offered = feed.offered if feed.offered is not None else feed.state
        prober.start(choose(offered, bridges.ovsdb().read(), bridges.integration))
        return prober

    host = Host(
        partial(running_agents, processes, conf.roles),
        save,
        partial(read_phase, state),
        partial(write_phase, state),
        start_probes,
        find,
    )
    return Commands(
        Conversion(host, gate, feed, roles),
        works,
        StoppedAgents(state, SystemdUnits()),
        partial(read_phase, state),
        partial(write_phase, state),
        partial(read_snapshot, state),
        partial(restore, conf, bridges),
        end_roles,
        compare,
    )


def _read_hybrid() -> SavedFirewall:
    # Without the program nobody has made rules with it. Any other failure refuses the conversion.
    return hybrid.read(RealIptables()) if shutil.which("iptables-save") else SavedFirewall()


def _silence(bridges: Bridges, saved: dict[str, int]) -> int:
    ovsdb = bridges.ovsdb()
    changes = instance_ports.plan_dead(saved, ovsdb.read(), bridges.integration)
    if changes:
        ovsdb.apply(changes, wait=SETTLE_SECONDS)  # before the flows: the switch has to have the tags
    return len(changes)


def restore(conf: Configuration, bridges: Bridges, say: Say) -> list[str]:
    """Give the host back, as its snapshot has it; the problems."""
    snapshot = read_snapshot(conf.state_path)
    namespaces = Namespaces()
    restorer = Restorer(
        bridges.openflow,
        RealNetlink(),
        RealNft(),
        partial(restore_saved, namespaces),
        partial(hybrid.restore, RealIptables()),
        partial(_silence, bridges),
    )
    problems = restorer.restore(snapshot, say)
    say(f"starting {len(snapshot.daemons)} daemons of Neutron's agents in place of ours")
    problems += restart(snapshot.daemons, OurDaemons(conf.state_path, metadata.read_options(conf).socket, namespaces))
    end_daemons(conf)
    forget(conf)
    return problems
