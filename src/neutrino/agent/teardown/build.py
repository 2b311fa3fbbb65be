"""Composes the teardown of this host from the configuration, with real drivers."""

import contextlib
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from neutrino.agent.config import bridge_mappings, kept_cookies, ovsdb_files
from neutrino.agent.guard.gate import Bridges, GuardOptions
from neutrino.agent.l2.build import l2_options
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.runtime.own_state import FORMAT, LOCK, own_state
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.switch import Switch
from neutrino.agent.sriov.build import card_teardown
from neutrino.agent.takeover.neutron_agents import running_agents
from neutrino.agent.takeover.phase import Phase, read_phase
from neutrino.agent.teardown.host import TeardownHost
from neutrino.agent.teardown.records import Records
from neutrino.configuration.options import Configuration
from neutrino.dataplane.conntrack.kernel import KernelConntrack
from neutrino.dataplane.iptables.real import RealIptables
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.dataplane.process.foreign import RealForeignProcesses
from neutrino.dataplane.process.real import RealProcesses

_IPTABLES = ("iptables-save", "ip6tables-save", "ipset")


@contextlib.contextmanager
def teardown_host(conf: Configuration) -> Iterator[TeardownHost]:
    namespaces = Namespaces()
    switch = Switch(conf.ovs.ovsdb_connection, conf.ovs.ovsdb_timeout, ovsdb_files(conf))
    openflow = OvsOfctl(conf.ovs.run_directory, userspace=conf.ovs.datapath_type == "netdev")
    guarded = Bridges(
        switch.ovsdb,
        openflow,
        GuardOptions(kept=kept_cookies(conf)),
        conf.ovs.integration_bridge,
        (conf.ovs.tunnel_bridge,),
        tuple(bridge for _, bridge in bridge_mappings(conf)),
    )
    hybrid = HybridFirewall(RealIptables(), KernelConntrack()) if all(map(shutil.which, _IPTABLES)) else None
    services = ServiceNamespaces(RealNetlink(namespaces), switch.ovsdb, owner=conf.state_path)
    try:
        yield TeardownHost(
            conf.state_path,
            l2_options(conf),
            Records(conf),
            RealProcesses(conf.state_path, namespaces),
            RealForeignProcesses(namespaces),
            services,
            openflow,
            guarded,
            hybrid,
            card_teardown(conf),
        )
    finally:
        switch.close()


def obstacles(conf: Configuration, roles: Collection[str]) -> list[str]:
    """Why this host is not only this agent's now, for removing these roles: the agent's own may be fewer."""
    found = []
    if agents := running_agents(RealForeignProcesses(Namespaces()), roles):
        found.append(f"Neutron's agents run on this host: {', '.join(each.text() for each in agents)}")
    if (phase := read_phase(conf.state_path)) in (Phase.CONVERTING, Phase.RETURNING):
        found.append(f"a takeover of this host is not finished ({phase}): start the agent, and let it end")
    return found


@contextlib.contextmanager
def stopped_agent(conf: Configuration, *, whole: bool) -> Iterator[None]:
    """While the agent cannot be started; RefusedToStart if it runs. `whole`: its state directory is forgotten after it."""
    state = Path(conf.state_path)
    if not state.is_dir():  # an agent makes it before anything else
        yield
        return
    with own_state(state):
        yield
        if whole:
            for name in (FORMAT, LOCK):
                (state / name).unlink(missing_ok=True)
