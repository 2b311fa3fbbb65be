"""Reads what an agent has on this host, and removes it, with real drivers. Blocking."""

import dataclasses
import logging
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from neutrino.agent.guard.decide import foreign
from neutrino.agent.guard.gate import Bridges
from neutrino.agent.l2.bridges import read_plugged
from neutrino.agent.l2.desired import HostState, L2Options, resolve
from neutrino.agent.l2.extension_api import METER_IDS
from neutrino.agent.l2.hybrid.firewall import HybridFirewall, HybridPlan
from neutrino.agent.leftovers.recognise import obstacle
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.sriov.teardown import CardTeardown
from neutrino.agent.teardown.plan import (
    KINDS,
    BridgeFlows,
    ChangeSwitch,
    ClearBridge,
    EndDaemon,
    Facts,
    Removal,
    RemoveFile,
    RemoveNamespace,
    RemoveRules,
    ResetCard,
    TeardownPlan,
    Unplug,
    kind_of,
)
from neutrino.agent.teardown.records import Records
from neutrino.dataplane.conntrack.api import ConntrackError
from neutrino.dataplane.iptables.api import IptablesError
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, LEARNED_COOKIE, OpenFlow, OpenFlowError, flow
from neutrino.dataplane.ovsdb.api import MARK, Bridge, Interface, Ovsdb, OvsdbError, Snapshot
from neutrino.dataplane.process.api import ForeignProcess, ForeignProcesses, Process, ProcessError, Processes
from neutrino.dataplane.sriov.api import SriovError

LOG = logging.getLogger(__name__)
SETTLE_SECONDS = 5.0  # for the switch to take up a change before the next one
_NORMAL = flow(0, 0, "", "NORMAL")  # what the switch gives to every new bridge
_FAILURES = (
    *(ConntrackError, IptablesError, NetlinkError, OpenFlowError, OSError, OvsdbError, ProcessError, SriovError),
)


@dataclasses.dataclass(frozen=True)
class TeardownHost:
    owner: str  # the agent's state path
    options: L2Options
    records: Records
    processes: Processes
    foreign: ForeignProcesses
    services: ServiceNamespaces
    openflow: OpenFlow
    guarded: Bridges  # knows flows of others
    hybrid: HybridFirewall | None = None  # None: this host has no iptables, so there are no rules
    cards: CardTeardown | None = None

    @property
    def ovsdb(self) -> Ovsdb:
        return self.services.ovsdb()

    # --- reading ----------------------------------------------------------------------------------------------------

    def read(self, *, switch: bool = True) -> Facts:
        """OpenFlowError if the switch cannot be asked: what it has is unknown then. Not `switch`: of daemons and files."""
        daemons, files = self._daemons(), tuple(self.records.files())
        facts = Facts(self.owner, daemons, files=files)
        if self.cards is not None:
            used, lost = self.cards.functions()
            facts = dataclasses.replace(
                facts, cards=tuple(self.cards.plan()), used_functions=tuple(used), lost_functions=tuple(lost)
            )
        if not switch:
            return facts
        snapshot = self.ovsdb.read()
        interfaces = {name: row for name, (_, _, row) in snapshot.interfaces().items()}
        names = frozenset(name for name in self.services.netlink.namespaces() if kind_of(name)[0])
        inside = self.foreign.by_namespace(names) if names else {}
        own = {each.pid for each in daemons}
        return dataclasses.replace(
            facts,
            namespaces={name: self._obstacle(name, inside.get(name, ()), interfaces) for name in names},
            recorded=self.records.namespaces() & names,
            inhabited=frozenset(name for name, each in inside.items() if own & {process.pid for process in each}),
            snapshot=snapshot,
            flows={bridge.name: self._read_flows(bridge) for bridge in snapshot.bridges.values()},
            rules=self._read_rules(),
        )

    def _daemons(self) -> tuple[Process, ...]:
        found = self.processes.running()
        for name, pid_file in self.records.adopted():
            if name not in found and (process := self.processes.find(name, pid_file)) is not None:
                found[name] = process
        return tuple(found[name] for name in sorted(found))

    def _obstacle(self, name: str, inside: Sequence[ForeignProcess], interfaces: Mapping[str, Interface]) -> str:
        kind = next(kind for kind in KINDS if kind.object_id(name))
        try:
            return obstacle(kind, self.services.netlink.read(name).devices.values(), interfaces, inside, self.owner)
        except NetlinkError as error:
            return str(error)

    def _read_flows(self, bridge: Bridge) -> BridgeFlows:
        """Meters have numbers alone: on a bridge that has nothing else of ours, they are another program's."""
        name = bridge.name
        ours = frozenset(
            each
            for cookie in (COOKIE, LEARNED_COOKIE)
            if self.openflow.count_flows(name, cookie, COOKIE_MASK)  # far cheaper than reading none
            for each in self.openflow.read_flows(name, cookie, COOKIE_MASK)
        )
        if not (ours or MARK in bridge.external_ids or name in self.guarded.present()):
            return BridgeFlows()
        meters = tuple(sorted(number for number in self.openflow.read_meters(name) if number in METER_IDS))
        is_alone = self.openflow.count_flows(name, 0, 0) == len(ours)
        staying = [] if is_alone else foreign(self.openflow.read_flows(name, 0, 0))
        return BridgeFlows(ours, meters, len(self.guarded.foreign(name)), len(staying))

    def _read_rules(self) -> HybridPlan:
        if self.hybrid is None:
            return HybridPlan()
        none = resolve(HostState(), read_plugged(self.options, (), Snapshot()), {}, self.options)
        return self.hybrid.plan(none)

    # --- removing ---------------------------------------------------------------------------------------------------

    def apply(self, plan: TeardownPlan, say: Callable[[Removal, str], None]) -> None:
        """Remove all, also what follows one that failed; `say` gets each, with the reason if it failed."""
        failed = set[str]()  # roles of which something is left
        for removal in plan.removals:
            if isinstance(removal, RemoveFile) and (removal.role in failed or (failed and not removal.role)):
                continue  # records, without which the next run would not know that what is left is ours
            try:
                self._remove(removal)
            except _FAILURES as error:
                LOG.debug("%s", removal.text(), exc_info=True)
                say(removal, str(error))
                failed.add(removal.role)
            else:
                say(removal, "")

    def _remove(self, removal: Removal) -> None:
        match removal:
            case EndDaemon(process=process):
                # radvd would withdraw the default route that another host advertises by now.
                if process.name.startswith("radvd "):
                    self.processes.send(process, signal.SIGKILL)
                self.processes.stop(process)
            case RemoveNamespace(name=name):
                self.services.remove(name)
            case Unplug(name=name):
                self.services.unplug([name])
            case RemoveRules(plan=plan) if self.hybrid is not None:
                self.hybrid.apply(plan)
            case ClearBridge():
                self._clear(removal)
            case ChangeSwitch(change=change):
                self.ovsdb.apply([change], wait=SETTLE_SECONDS)
            case ResetCard(change=change) if self.cards is not None:
                self.cards.apply(change)
            case RemoveFile(path=path):
                remove_file(path)

    def _clear(self, removal: ClearBridge) -> None:
        bridge = removal.name
        self.openflow.apply_flows(bridge, add=[_NORMAL] if removal.forwards else [], delete=removal.flows)
        self.openflow.apply_meters(bridge, add={}, change={}, delete=removal.meters)
        self.openflow.flush_megaflows()


def remove_file(path: Path) -> None:
    """A file or a directory; a link is removed, and not followed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
