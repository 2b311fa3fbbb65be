"""One reconciliation of the L2 role: from the server's objects and what is plugged to the state of the switch.

`Reconciler._steps` has its steps in order. Each plans against the actual state and applies the difference, so a
reconciliation of an unchanged host changes nothing; `find` shows the plans of the same steps.

`complete`: the server has sent everything (`synced`). Before that, flows, tunnels and settings are only added, and nothing
that decides what a port may do is changed: what is on the host is newer than the cache of the feed.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from neutrino.agent.l2 import bridges, tunnels
from neutrino.agent.l2.configuration_plan import ConfigurationPlan
from neutrino.agent.l2.connections import HeldAddress, applied_addresses, plan_address_flushes, plan_flushes
from neutrino.agent.l2.controllers import all_foreign_controllers, has_controller, plan_controllers
from neutrino.agent.l2.desired import Desired, HostState, L2Options, resolve, wanted_segments
from neutrino.agent.l2.extension_api import L2Extension, port_owner, with_tables
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.filters import FilterPlan, Filters
from neutrino.agent.l2.flow_tables import FlowPlan, FlowTables, ForeignFlows, no_foreign_flows
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.l2.local_vlans import SegmentKey, allocate, merged, restore
from neutrino.agent.l2.plan import BridgePlan, Rendered, Renderer
from neutrino.agent.l2.steps import Later, Plan, Round, Step
from neutrino.agent.l2.trunks import parents, plan_trunks
from neutrino.agent.runtime.role import Drift
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError
from neutrino.dataplane.openflow.api import Flow, FlowKey, OpenFlow, OpenFlowError
from neutrino.dataplane.openflow.controllers import is_served
from neutrino.dataplane.ovsdb.api import Bridge, Ovsdb, Port, SetBridge, SetPort, Snapshot
from neutrino.dataplane.tc.api import Tc
from neutrino.dataplane.tc.real import RealTc
from neutrino.model.agents import NEUTRON_AGENT
from neutrino.model.roles import L2

LOG = logging.getLogger(__name__)
HYBRID = "hybrid firewall"
_HARMLESS = "it gets no connection to the switch, and its flows are removed"
SETTLE_SECONDS = 5.0  # for the switch to carry out a change that deletes flows, or to create queues


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The result of a reconciliation, as the role reports it."""

    wired: Mapping[str, int]  # port, to the revision that is in force
    problems: Mapping[str, str]  # port, to the reason why it is not wired
    faults: Mapping[str, str]  # physical network, host, owner of flows or extension, to its problem
    ready: bool = True  # False: the switch has not given ofports to our bridges and patch ports yet
    refused: bool = False  # something was newly rejected, or ports have no filter: try again soon
    changed: int = 0  # the number of changes
    ancillary: frozenset[str] = frozenset()  # wired ports on bridges that are not ours
    prepared: frozenset[str] = frozenset()  # plugged ports whose binding to this host is not active: live migration


@dataclasses.dataclass(frozen=True)
class ReconcilerView:
    """The desired state as it would be applied now, for packet traces."""

    snapshot: Snapshot
    desired: Desired
    flows: Mapping[str, Mapping[FlowKey, Flow]]  # by bridge
    owners: Mapping[int, str]  # by cookie


@dataclasses.dataclass(eq=False)
class Reconciler:
    """Blocking, and for one thread at a time."""

    ovsdb: Callable[[], Ovsdb]  # connects at the first call, and raises OvsdbError if that fails
    openflow: OpenFlow
    conntrack: Conntrack
    options: L2Options
    hybrid: HybridFirewall | None = None
    extensions: Sequence[L2Extension] = BUILT_IN
    tc: Tc = dataclasses.field(default_factory=RealTc)
    foreign: ForeignFlows = no_foreign_flows  # flows of others that are removed with the first plan
    is_served: Callable[[str], bool] = is_served  # whether a Neutron agent listens at the address of a controller

    def __post_init__(self) -> None:
        self.options = with_tables(self.options, self.extensions)
        self._renderer = Renderer(self.extensions)
        self.tables = FlowTables(self.openflow, self.options, self.extensions, self._renderer, self.foreign)
        self.tags: Mapping[str, int | None] = {}  # by device: set by the last reconciliation; may be read in any thread
        self._vlans: dict[SegmentKey, int] = {}
        self._filters = Filters(self.tc)
        self._left_insecure: set[str] = set()  # bridges for which the warning was logged
        self._previous: Desired | None = None
        self._inherited: frozenset[HeldAddress] | None = None  # by the flows of the agent before
        self._is_first, self._has_completed = True, False
        self._neutron_agents: frozenset[str] = frozenset()  # addresses that Neutron agents had set, and may serve still
        # Our bridges, patch ports, tunnels and trunks. OVSDB is read again after each: tunnels need their bridge, and
        # flows the ofports of both.
        self._switch_steps: tuple[Step[Any], ...] = (
            # First: a Neutron agent that runs would go on writing flows.
            Step(self._plan_controllers, self._apply_controllers),
            Step(self._plan_bridges, self._apply_bridges),
            Step(self._plan_tunnels, self._apply_and_read),
            Step(self._plan_trunks, self._apply_and_read),
        )
        self._steps: tuple[Step[Any], ...] = (
            Step(lambda now: bridges.plan_vlan_limit(now.desired, now.snapshot), self._apply_settled),
            Step(lambda now: bridges.plan_tags(now.desired, now.snapshot), self._apply_tags),
            # Before flows: no packet of a hybrid port passes unfiltered.
            Step(self._plan_hybrid, self._apply_hybrid),
            Step(self._plan_contributions, self._apply_contributions),
            Step(self._plan_fail_modes, self._apply_fail_modes),
            Step(lambda now: Later(), self._read_inherited),
            Step(self._plan_flows, self._apply_flows),
            Step(self._plan_filters, self._apply_filters),
            # After the flows: the old ones would open them again.
            Step(lambda now: Later(), self._end_connections),
            # After the flows, which may have used them.
            Step(self._plan_stale_tunnels, self._apply_configuration),
        )

    @property
    def applied(self) -> Desired | None:
        """The desired state of the last reconciliation; may be read in any thread."""
        return self._previous

    def forget(self, bridge: str | None = None) -> None:
        """Read the actual state of a bridge again before the next plan; without a name, of everything."""
        self.tables.forget(bridge)
        # `drift` names devices, and the hybrid firewall, like bridges. The latter has forgotten its state already.
        self._filters.forget(bridge)
        if bridge is None and self.hybrid is not None:
            self.hybrid.forget()

    def reconcile(self, host_state: HostState, *, complete: bool) -> Outcome:
        now = Round(host_state, complete, self.ovsdb().read(), self._renderer)
        # Flows need ofports, and the switch gives them later or is down.
        for step, planned in self._walk(now, lambda: not bridges.unnumbered(self.options, now.snapshot)):
            step.apply(now, planned)
        if not now.is_resolved:
            return Outcome({}, {}, now.faults, ready=False, changed=now.changed)
        self._previous = now.desired  # what the next one compares with, to end connections
        outcome = self._outcome(host_state, now.snapshot, now.desired, now.rendered, now.faults)
        return dataclasses.replace(outcome, refused=now.refused, changed=now.changed)

    def find(self, host_state: HostState, *, complete: bool) -> Drift:
        """Everything that a reconciliation would change, without changing it. Consequences of a step are not seen."""
        now = Round(host_state, complete, self.ovsdb().read(), self._renderer)
        own = self._plan_bridges(now)
        plans: list[Plan] = [planned for _, planned in self._walk(now, lambda: not own.changes)]
        if own.changes and complete:
            plans += [self.tables.with_foreign(BridgePlan(name)) for name in now.snapshot.bridges]
        problems = now.faults if own.changes else {**now.faults, **now.desired.problems, **now.rendered.problems}
        return Drift(L2, "\n".join(filter(None, (planned.text() for planned in plans))), problems)

    def _walk(self, now: Round, is_ready: Callable[[], bool]) -> Iterator[tuple[Step[Any], Any]]:
        """The steps with their plans, in order; those after the bridges only if the switch is ready for them."""
        for step in self._switch_steps:
            yield step, self._planned(step, now)
        if is_ready():
            now.desired = self._resolve(now.host_state, now.snapshot, now.complete)
            for step in self._steps:
                yield step, self._planned(step, now)

    def _planned(self, step: Step[Any], now: Round) -> Plan:
        planned: Plan = step.plan(now)
        if isinstance(planned, ConfigurationPlan):
            now.faults |= planned.problems
        return planned

    def view(self, host_state: HostState, *, complete: bool) -> ReconcilerView:
        """What is desired now, and the owners of flows; nothing is changed."""
        snapshot = self.ovsdb().read()
        desired = self._resolve(host_state, snapshot, complete)
        rendered = self._renderer.render(desired)
        owners = {key: owner for bridge in rendered.flows for key, owner in self._renderer.owners(bridge).items()}
        return ReconcilerView(snapshot, desired, rendered.flows, owners)

    # --- steps: rows of OVSDB ---------------------------------------------------------------------------------------

    def _plan_controllers(self, now: Round) -> ConfigurationPlan:
        return plan_controllers(self.options, now.snapshot)

    def _apply_controllers(self, now: Round, planned: ConfigurationPlan) -> None:
        """Once the switch has ended the connection, flows of a Neutron agent are removed, also without the option that
        permits it at a start.
        """
        if planned.changes:
            self._neutron_agents |= all_foreign_controllers(self.options, now.snapshot)
            LOG.warning("%s: a Neutron agent controls, or has controlled, the bridges of this host", planned.text())
            now.changed += len(planned.changes)
            self.ovsdb().apply(planned.changes, wait=SETTLE_SECONDS)
            now.snapshot = self.ovsdb().read()
            self.forget()
            self.tables.remove_foreign()
        self._neutron_agents = frozenset(filter(self.is_served, self._neutron_agents))
        if self._neutron_agents:
            now.faults[NEUTRON_AGENT] = f"it listens at {', '.join(sorted(self._neutron_agents))}; {_HARMLESS}"

    def _plan_bridges(self, now: Round) -> ConfigurationPlan:
        return bridges.plan_bridges(self.options, now.snapshot)

    def _apply_bridges(self, now: Round, planned: ConfigurationPlan) -> None:
        self._configure(now, planned, now.snapshot)
        now.snapshot = self.ovsdb().read()

    def _plan_tunnels(self, now: Round) -> ConfigurationPlan:
        return tunnels.plan_tunnels(self.options, now.host_state.hosts.values(), now.snapshot)

    def _plan_stale_tunnels(self, now: Round) -> ConfigurationPlan:
        if not now.complete:  # the cache may lack hosts
            return ConfigurationPlan()
        return tunnels.plan_stale_tunnels(self.options, now.host_state.hosts.values(), now.snapshot)

    def _plan_trunks(self, now: Round) -> ConfigurationPlan:
        return plan_trunks(self.options, now.host_state.ports, now.snapshot, complete=now.complete)

    def _apply_and_read(self, now: Round, planned: ConfigurationPlan) -> None:
        self._configure(now, planned)
        now.snapshot = self.ovsdb().read()

    def _apply_configuration(self, now: Round, planned: ConfigurationPlan) -> None:
        self._configure(now, planned)

    def _apply_settled(self, now: Round, planned: ConfigurationPlan) -> None:
        self._configure(now, planned, wait=SETTLE_SECONDS)

    def _apply_tags(self, now: Round, planned: ConfigurationPlan) -> None:
        # Before the transaction: its event may arrive before it returns.
        self.tags = {change.name: change.tag for change in planned.changes if isinstance(change, SetPort)}
        self._configure(now, planned)

    def _plan_contributions(self, now: Round) -> ConfigurationPlan:
        return bridges.plan_contributions(now.rendered, now.snapshot, complete=now.complete)

    def _apply_contributions(self, now: Round, planned: ConfigurationPlan) -> None:
        # Filters need the queues, which the switch creates on the device.
        self._configure(now, planned, wait=SETTLE_SECONDS if now.rendered.filters else 0.0)
        now.faults |= now.rendered.problems

    def _plan_fail_modes(self, now: Round) -> ConfigurationPlan:
        return bridges.plan_fail_modes(self.options, now.snapshot, self._idle(now.snapshot))

    def _apply_fail_modes(self, now: Round, planned: ConfigurationPlan) -> None:
        self._configure(now, planned, now.snapshot)

    def _configure(
        self, now: Round, difference: ConfigurationPlan, before: Snapshot | None = None, *, wait: float = 0.0
    ) -> None:
        now.changed += len(difference.changes)
        if difference.changes:
            LOG.debug("%s", difference.text())
            # A bridge whose fail mode or datapath type changes loses its flows, some time after the commit.
            existing = before.bridges if before is not None else {}
            reset = [
                change.name
                for change in difference.changes
                if isinstance(change, SetBridge) and change.name in existing
            ]
            self.ovsdb().apply(difference.changes, wait=SETTLE_SECONDS if reset else wait)
            for name in reset:
                LOG.info("bridge %s is set up: %s", name, difference.text())
                self.forget(name)

    def _idle(self, snapshot: Snapshot) -> list[str]:
        """Bridges of physical networks whose fail mode can be set: they have no flows but the one that the switch adds
        itself, as they are new or of a new switch; or they have a controller, and so keep their flows.
        """
        idle = []
        for bridge in bridges.insecure(self.options, snapshot):
            if has_controller(snapshot.bridges[bridge]):
                idle.append(bridge)
                continue
            try:
                if self.openflow.count_flows(bridge, 0, 0) <= 1:
                    idle.append(bridge)
                elif bridge not in self._left_insecure:
                    self._left_insecure.add(bridge)
                    LOG.warning(
                        "bridge %s is not in fail mode secure and has flows, which the switch deletes when that changes: "
                        "it is set after the next restart of ovs-vswitchd, or by `ovs-vsctl set-fail-mode %s secure`",
                        bridge,
                        bridge,
                    )
            except OpenFlowError as error:  # the switch is down or has not taken it up yet: tried again
                LOG.debug("the flows of bridge %s cannot be counted: %s", bridge, error)
        return idle

    # --- steps: packets ---------------------------------------------------------------------------------------------

    def _plan_hybrid(self, now: Round) -> Later:
        if self.hybrid is None or not now.complete:
            return Later()
        hybrid, desired = self.hybrid, now.desired
        return Later(lambda: hybrid.plan(desired))

    def _apply_hybrid(self, now: Round, planned: Later) -> None:
        """Ports that have no filter are not wired: they are problems from here on."""
        unfiltered = self.hybrid.reconcile(now.desired, complete=now.complete) if self.hybrid is not None else None
        if unfiltered is not None:
            filtered = tuple(port for port in now.desired.ports if port.id not in unfiltered.ports)
            problems = {**now.desired.problems, **dict.fromkeys(unfiltered.ports, unfiltered.reason)}
            now.desired = dataclasses.replace(now.desired, ports=filtered, problems=problems)
            now.faults[HYBRID] = unfiltered.reason
            now.refused = True

    def _plan_flows(self, now: Round) -> FlowPlan:
        return self.tables.plan(now.desired, now.rendered, complete=now.complete)

    def _apply_flows(self, now: Round, planned: FlowPlan) -> None:
        rejected, faults = self.tables.apply(planned)
        now.changed += len(planned)
        now.faults |= faults
        now.refused |= rejected

    def _plan_filters(self, now: Round) -> FilterPlan:
        return self._filters.plan(bridges.own_filters(now.rendered, now.snapshot), complete=now.complete)

    def _apply_filters(self, now: Round, planned: FilterPlan) -> None:
        faults = self._filters.apply(planned)
        now.changed += len(planned.changes)
        now.faults |= faults
        now.refused |= bool(faults)

    def _read_inherited(self, now: Round, planned: Later) -> None:
        """The addresses that the agent before has applied. None where it has left no flows: on a host of Neutron, whose
        connections go on, every port would look like a new one.
        """
        if self._is_first:
            there = self.tables.read(self.options.integration_bridge)
            self._inherited, self._is_first = applied_addresses(there.values()) if there else None, False

    def _end_connections(self, now: Round, planned: Later) -> None:
        """Flush connections that are not allowed any more. A failure is only logged: the flows stop most of them."""
        if not now.complete:
            return
        before, desired = self._previous, now.desired
        flushes = set(plan_flushes(before, desired, gained=self._has_completed) if before is not None else ())
        if self._inherited is not None:
            flushes.update(plan_address_flushes(self._inherited, desired.ports))
            self._inherited = None
        self._has_completed = True
        try:
            if flushes:
                self.conntrack.flush(sorted(flushes))
        except ConntrackError as error:
            LOG.warning("connections that are not allowed any more could not be flushed: %s", error)

    # --- desired state and outcome ----------------------------------------------------------------------------------

    def _resolve(self, host_state: HostState, snapshot: Snapshot, complete: bool) -> Desired:
        plugged = bridges.read_plugged(self.options, host_state.hosts.values(), snapshot)
        if plugged.patch_int:
            plugged = dataclasses.replace(plugged, features=self.tables.features())
        self._vlans = self._allocate(wanted_segments(host_state, plugged), snapshot, complete)
        desired = resolve(host_state, plugged, self._vlans, self.options)
        # Before `synced`, a plugged port that is unknown may be one that the server has not sent yet: it is not cut off.
        return desired if complete else dataclasses.replace(desired, dead=())

    def _allocate(self, wanted: Iterable[SegmentKey], snapshot: Snapshot, complete: bool) -> dict[SegmentKey, int]:
        ports = snapshot.bridges.get(self.options.integration_bridge, Bridge("")).ports.values()
        # What is plugged counts before rows without a device: a Neutron agent gives the VLAN of these to other networks.
        live = restore((port.tag, port.other_config) for port in ports if _is_live(port))
        held = merged(live, restore((port.tag, port.other_config) for port in ports if not _is_live(port)))
        ours = merged(self._vlans, held)
        foreign = {  # tags of devices that others have plugged
            port.tag or 0
            for port in ports
            if not any("iface-id" in interface.external_ids for interface in port.interfaces)
        }
        if not complete:  # VLANs of networks that the server has not sent yet are still in use
            foreign |= {*ours.values()} - {ours[key] for key in wanted if key in ours}
        return allocate(wanted, ours, foreign)

    def _outcome(
        self,
        host_state: HostState,
        snapshot: Snapshot,
        desired: Desired,
        rendered: Rendered,
        faults: Mapping[str, str],
    ) -> Outcome:
        """Which ports are wired, and why others are not."""
        rejected = self.tables.describe_rejected()
        failed = {**rejected, **rendered.problems}
        owners = {port.id: port_owner(port) for port in desired.ports}
        problems = {**desired.problems, **{key: failed[owner] for key, owner in owners.items() if owner in failed}}
        active = (port_id for port_id in owners if port_id not in problems and host_state.ports[port_id].active)
        wired = {port_id: host_state.ports[port_id].revision for port_id in active}
        # Ports on bridges that are not ours: they need no flows here to be up. A trunk's parent is wired by its patch.
        outside = bridges.read_ancillary(self.options, snapshot) - parents(host_state.ports.values())
        ancillary = (outside & host_state.ports.keys()) - wired.keys()
        wired |= {port_id: host_state.ports[port_id].revision for port_id in ancillary}
        of_others = {name: text for name, text in rejected.items() if not name.startswith("port ")}
        return Outcome(
            wired,
            problems,
            {**faults, **of_others},
            ancillary=ancillary,
            prepared=self._prepared(host_state, snapshot),
        )

    def _prepared(self, host_state: HostState, snapshot: Snapshot) -> frozenset[str]:
        """The ports that a live migration has plugged here. Without a device too: libvirt may create it only when the
        instance arrives, for which Nova waits until the port is plugged. Nova knows nothing of subports of trunks.
        """
        ports = host_state.ports.items()
        inactive = frozenset(port_id for port_id, port in ports if not port.active and not port.trunk_vlan)
        return inactive & bridges.read_bound_interfaces(self.options, snapshot) if inactive else inactive

    # --- drift ------------------------------------------------------------------------------------------------------

    def drift(self, *, whole: bool = True) -> dict[str, tuple[int, int]]:
        """What is not as applied: how many flows and meters of a bridge, filters of a device or rules of the hybrid
        firewall are missing or changed, and how many are too many.

        Without `whole`, a quick check: they are compared only if some bridge has another number of flows than applied.
        """
        # With `whole` on all bridges: where the option permits it, flows of others are removed, whenever they come.
        if found := self.tables.drift_of_foreign(everywhere=whole or bool(self._neutron_agents)):
            return found
        if not whole and not self.tables.has_other_numbers():
            return {}
        rules = self.hybrid.drift() if self.hybrid is not None else 0
        return self.tables.drift() | self._filters.drift() | ({HYBRID: (rules, 0)} if rules else {})

    def has_neutron_agent_left(self) -> bool:
        """Whether a Neutron agent that was a problem runs no more."""
        return any(not self.is_served(target) for target in self._neutron_agents)

    def drop_flows(self) -> None:
        """Delete all our flows on all bridges."""
        self.tables.drop(self.ovsdb().read().bridges)
        self.forget()


def _is_live(port: Port) -> bool:
    return any((interface.ofport or 0) > 0 for interface in port.interfaces)
