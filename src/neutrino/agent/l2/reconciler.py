"""One reconciliation of the L2 role: from the server's objects and what is plugged to the state of the switch.

    bridges and patch ports → tunnels → trunks → ofports → local VLANs → tags → hybrid firewall → OVSDB rows and settings
    of extensions → fail modes → meters → flows, one bundle for each bridge → stale meters → filters → conntrack entries

Each step plans against the actual state and applies the difference, so a reconciliation of an unchanged host changes
nothing. Flows and meters are read once and then remembered, as only this agent writes them; `forget` is for a restarted
switch and for drift.

A flow that the switch rejects costs its port, or is missing alone; everything else is applied (see `rejected`). It is not
sent again until it changes, the switch is restarted, or `retry_rejected` is called.

`complete`: the server has sent everything (`synced`). Before that, flows, tunnels and settings are only added, and nothing
that decides what a port may do is changed: what is on the host is newer than the cache of the feed.
"""

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from neutrino.agent.l2 import bridges, pipeline
from neutrino.agent.l2.connections import HeldAddress, applied_addresses, plan_address_flushes, plan_flushes
from neutrino.agent.l2.desired import Desired, HostState, L2Options, resolve, wanted_segments
from neutrino.agent.l2.extension_api import METER_IDS, L2Extension, cookie_of, port_owner, with_tables
from neutrino.agent.l2.extensions import BUILT_IN
from neutrino.agent.l2.extensions.firewall import REMOTES
from neutrino.agent.l2.extensions.integration import DHCP_REQUESTS
from neutrino.agent.l2.filters import FilterPlan, Filters
from neutrino.agent.l2.hybrid.firewall import HybridFirewall, HybridPlan
from neutrino.agent.l2.local_vlans import SegmentKey, allocate, merged, restore
from neutrino.agent.l2.plan import BridgePlan, Rendered, Renderer, plan
from neutrino.agent.l2.rejected import Rejections, apply_others, describe, without
from neutrino.agent.l2.trunks import parents, plan_trunks
from neutrino.agent.runtime.delta import Delta
from neutrino.agent.runtime.role import Drift
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError
from neutrino.dataplane.openflow.api import (
    COOKIE,
    COOKIE_MASK,
    DatapathFeatures,
    Flow,
    FlowKey,
    FlowsRejected,
    Meter,
    MetersRejected,
    OpenFlow,
    OpenFlowError,
    PacketCount,
)
from neutrino.dataplane.ovsdb.api import Bridge, Ovsdb, SetBridge, Snapshot
from neutrino.dataplane.tc.api import Tc
from neutrino.dataplane.tc.real import RealTc
from neutrino.model.roles import L2

LOG = logging.getLogger(__name__)
HYBRID = "hybrid firewall"
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
class View:
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
    foreign: Callable[[str], Iterable[Flow]] = lambda bridge: ()  # flows of others that are removed with the first plan

    def __post_init__(self) -> None:
        self.options = with_tables(self.options, self.extensions)
        self._renderer = Renderer(self.extensions)
        self._vlans: dict[SegmentKey, int] = {}
        self._flows: dict[str, dict[FlowKey, Flow]] = {}  # actual state: our flows by bridge
        self._meters: dict[str, dict[int, Meter]] = {}  # actual state: our meters by bridge
        self._rejected: dict[str, Rejections] = {}  # desired flows by bridge
        self._cleared: set[str] = set()  # bridges without foreign flows
        self._filters = Filters(self.tc)
        self._features: DatapathFeatures | None = None
        self._left_insecure: set[str] = set()  # bridges for which the warning was logged
        self._previous: Desired | None = None
        self._inherited: frozenset[HeldAddress] | None = None  # by the flows of the agent before
        self._is_first, self._has_completed = True, False

    @property
    def applied(self) -> Desired | None:
        """The desired state of the last reconciliation; may be read in any thread."""
        return self._previous

    def forget(self, bridge: str | None = None) -> None:
        """Read the actual state of a bridge again before the next plan; without a name, of everything."""
        if bridge is None:
            self._flows.clear()
            self._meters.clear()
            self._rejected.clear()
            self._filters.forget()
            self._features = None
            if self.hybrid is not None:
                self.hybrid.forget()
        else:
            self._flows.pop(bridge, None)
            self._meters.pop(bridge, None)
            # `drift` names devices, and the hybrid firewall, like bridges. The latter has forgotten its state already.
            self._filters.forget(bridge)

    def retry_rejected(self) -> bool:
        """Send rejected flows again with the next plan, as a table may have been full; whether there are any."""
        found = any(self._rejected.values())
        self._rejected.clear()
        return found

    # --- reconciliation -------------------------------------------------------------------------------------------

    def reconcile(self, host_state: HostState, *, complete: bool) -> Outcome:
        """The steps at the head of this module, in their order."""
        changed, faults = self._configure_bridges(host_state, complete)
        snapshot = self.ovsdb().read()
        if bridges.unnumbered(self.options, snapshot):  # flows need ofports, and the switch gives them later or is down
            return Outcome({}, {}, faults, ready=False, changed=changed)
        desired = self._resolve(host_state, snapshot, complete)
        changed += self._configure(bridges.plan_vlan_limit(desired, snapshot), settle=SETTLE_SECONDS)
        changed += self._configure(bridges.plan_tags(desired, snapshot))
        # The filter of a hybrid port is there before its flows: no packet passes unfiltered.
        desired, filter_problem = self._filter_hybrid_ports(desired, complete)
        rendered = self._renderer.render(desired)
        contributed = bridges.plan_contributions(rendered, snapshot, complete=complete)
        # Filters need the queues, which the switch creates on the device.
        changed += self._configure(contributed, settle=SETTLE_SECONDS if rendered.filters else 0.0)
        changed += self._configure(bridges.plan_fail_modes(self.options, snapshot, self._idle(snapshot)), snapshot)
        self._read_inherited()
        flow_changes, newly_rejected, meter_faults = self._apply_bridges(desired, rendered, complete)
        filter_plan = self._filters.plan(bridges.own_filters(rendered, snapshot), complete=complete)
        filter_faults = self._filters.apply(filter_plan)
        self._end_connections(desired, complete)  # after the flows: the old ones would open them again
        self._previous = desired  # what the next one compares with, to end connections
        faults |= {**filter_problem, **contributed.problems, **rendered.problems, **meter_faults, **filter_faults}
        return dataclasses.replace(
            self._outcome(host_state, snapshot, desired, rendered, faults),
            refused=newly_rejected or bool(filter_problem) or bool(filter_faults),
            changed=changed + flow_changes + len(filter_plan.changes),
        )

    def _configure_bridges(self, host_state: HostState, complete: bool) -> tuple[int, dict[str, str]]:
        """Our bridges, patch ports, tunnels and trunks: the number of changes, and the problems.

        OVSDB is read again after each step: tunnels need their bridge, and flows the ofports of both.
        """
        found = self.ovsdb().read()
        own = bridges.plan_bridges(self.options, found)
        changed = self._configure(own, found)
        tunnels = bridges.plan_tunnels(self.options, host_state.hosts.values(), self.ovsdb().read(), complete=complete)
        changed += self._configure(tunnels)
        changed += self._configure(plan_trunks(self.options, host_state.ports, self.ovsdb().read(), complete=complete))
        return changed, {**own.problems, **tunnels.problems}

    def _filter_hybrid_ports(self, desired: Desired, complete: bool) -> tuple[Desired, dict[str, str]]:
        """What is desired without the hybrid ports that have no filter, which are problems then; and the reason."""
        unfiltered = self.hybrid.reconcile(desired, complete=complete) if self.hybrid is not None else None
        if unfiltered is None:
            return desired, {}
        filtered = tuple(port for port in desired.ports if port.id not in unfiltered.ports)
        problems = {**desired.problems, **dict.fromkeys(unfiltered.ports, unfiltered.reason)}
        return dataclasses.replace(desired, ports=filtered, problems=problems), {HYBRID: unfiltered.reason}

    def _outcome(
        self,
        host_state: HostState,
        snapshot: Snapshot,
        desired: Desired,
        rendered: Rendered,
        faults: Mapping[str, str],
    ) -> Outcome:
        """Which ports are wired, and why others are not."""
        rejected = self._describe_rejected()
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

    def find(self, host_state: HostState, *, complete: bool) -> Drift:
        """Everything that a reconciliation would change, without changing it. Consequences of a step are not seen."""
        snapshot = self.ovsdb().read()
        own = bridges.plan_bridges(self.options, snapshot)
        tunnels = bridges.plan_tunnels(self.options, host_state.hosts.values(), snapshot, complete=complete)
        plans: list[bridges.ConfigurationPlan | BridgePlan | HybridPlan | FilterPlan] = [own, tunnels]
        plans.append(plan_trunks(self.options, host_state.ports, snapshot, complete=complete))
        problems = {**own.problems, **tunnels.problems}
        if own.changes and complete:
            plans += [self._with_foreign(BridgePlan(name)) for name in snapshot.bridges]
        if not own.changes:  # flows need the ofports of our bridges and patch ports
            desired = self._resolve(host_state, snapshot, complete)
            rendered = self._renderer.render(desired)
            contributed = bridges.plan_contributions(rendered, snapshot, complete=complete)
            plans += [bridges.plan_vlan_limit(desired, snapshot), bridges.plan_tags(desired, snapshot), contributed]
            plans.append(bridges.plan_fail_modes(self.options, snapshot, self._idle(snapshot)))
            plans += [
                self._bridge_plan(bridge, wanted, rendered, desired, complete)
                for bridge, wanted in rendered.flows.items()
            ]
            plans.append(self._filters.plan(bridges.own_filters(rendered, snapshot), complete=complete))
            if self.hybrid is not None and complete:
                plans.append(self.hybrid.plan(desired))
            problems |= {**contributed.problems, **desired.problems, **rendered.problems}
        return Drift(L2, "\n".join(filter(None, (each.text() for each in plans))), problems)

    def view(self, host_state: HostState, *, complete: bool) -> View:
        """What is desired now, and the owners of flows; nothing is changed."""
        snapshot = self.ovsdb().read()
        desired = self._resolve(host_state, snapshot, complete)
        rendered = self._renderer.render(desired)
        owners = {key: owner for bridge in rendered.flows for key, owner in self._renderer.owners(bridge).items()}
        return View(snapshot, desired, rendered.flows, owners)

    def _configure(
        self, difference: bridges.ConfigurationPlan, before: Snapshot | None = None, *, settle: float = 0.0
    ) -> int:
        if difference.changes:
            LOG.debug("%s", difference.text())
            # A bridge whose fail mode or datapath type changes loses its flows, some time after the commit.
            existing = before.bridges if before is not None else {}
            reset = [each.name for each in difference.changes if isinstance(each, SetBridge) and each.name in existing]
            self.ovsdb().apply(difference.changes, settle=SETTLE_SECONDS if reset else settle)
            for name in reset:
                LOG.info("bridge %s is set up: %s", name, difference.text())
                self.forget(name)
        return len(difference.changes)

    def _idle(self, snapshot: Snapshot) -> list[str]:
        """Bridges of physical networks without flows but the one that the switch adds itself: new, or of a new switch."""
        idle = []
        for bridge in bridges.insecure(self.options, snapshot):
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

    def _resolve(self, host_state: HostState, snapshot: Snapshot, complete: bool) -> Desired:
        plugged = bridges.read_plugged(self.options, host_state.hosts.values(), snapshot)
        if plugged.patch_int:
            plugged = dataclasses.replace(plugged, features=self._read_features())
        self._vlans = self._allocate(wanted_segments(host_state, plugged), snapshot, complete)
        desired = resolve(host_state, plugged, self._vlans, self.options)
        # Before `synced`, a plugged port that is unknown may be one that the server has not sent yet: it is not cut off.
        return desired if complete else dataclasses.replace(desired, dead=())

    def _allocate(self, wanted: Iterable[SegmentKey], snapshot: Snapshot, complete: bool) -> dict[SegmentKey, int]:
        ports = snapshot.bridges.get(self.options.integration_bridge, Bridge("")).ports.values()
        held = restore((port.tag, port.other_config) for port in ports)
        ours = merged(self._vlans, held)
        foreign = {  # tags of devices that others have plugged
            port.tag or 0 for port in ports if not any("iface-id" in each.external_ids for each in port.interfaces)
        }
        if not complete:  # VLANs of networks that the server has not sent yet are still in use
            foreign |= {*ours.values()} - {ours[key] for key in wanted if key in ours}
        return allocate(wanted, ours, foreign)

    def _read_features(self) -> DatapathFeatures:
        """The features of the tunnel bridge's datapath; if they cannot be read, those that every datapath has."""
        if self._features is None:
            try:
                self._features = self.openflow.read_features(self.options.tunnel_bridge)
            except OpenFlowError as error:
                LOG.warning("neighbour solicitations are flooded, as the datapath's features are unknown: %s", error)
                return DatapathFeatures(nd_extension=False)  # not remembered: read again by the next reconciliation
        return self._features

    # --- flows and meters -----------------------------------------------------------------------------------------

    def _apply_bridges(self, desired: Desired, rendered: Rendered, complete: bool) -> tuple[int, bool, dict[str, str]]:
        """The number of changes, whether the switch rejected something anew, and the problems of meters."""
        whole = self._deciding(desired)
        changed, rejected = 0, False
        faults: dict[str, str] = {}
        for bridge, flows in rendered.flows.items():
            actual = self._read_flows(bridge)
            known = self._rejected.get(bridge, {})
            # A rejected flow that is not wanted any more, or has changed, is forgotten; the others are left out again.
            known = self._rejected[bridge] = {flow: why for flow, why in known.items() if flows.get(flow.key) == flow}
            wanted = without(flows, actual, known, whole)
            difference = self._bridge_plan(bridge, wanted, rendered, desired, complete)
            changed += len(difference)
            meters = difference.meters
            faults |= self._apply_meters(bridge, Delta(meters.add, meters.change))
            try:
                if difference.flows:
                    self.openflow.apply_flows(bridge, add=difference.set, delete=difference.delete)
                self._flows[bridge] = wanted if complete else {**actual, **difference.flows.add}
                if complete:
                    self._cleared.add(bridge)
            except FlowsRejected as error:
                rejected = True
                self._isolate(difference, whole, error)
            # Last: deleting a meter deletes the flows that use it.
            faults |= self._apply_meters(bridge, Delta(remove=meters.remove))
        return changed, rejected or bool(faults), faults

    def _apply_meters(self, bridge: str, delta: Delta[int, Meter]) -> dict[str, str]:
        if not delta:
            return {}
        changed = {number: meter for number, (_, meter) in delta.change.items()}
        try:
            self.openflow.apply_meters(bridge, add=delta.add, change=changed, delete=delta.remove)
        except MetersRejected as error:
            # The flows that use it are rejected in turn, so the port that needs the meter is reported as well.
            self._meters.pop(bridge, None)
            return {f"{bridge} meter {number}": reason for number, reason in error.reasons.items()}
        # Read again if an earlier part of the change was rejected.
        kept = {number: meter for number, meter in self._read_meters(bridge).items() if number not in delta.remove}
        self._meters[bridge] = {**kept, **delta.add, **changed}
        return {}

    def _isolate(self, difference: BridgePlan, whole: Collection[int], error: FlowsRejected) -> None:
        """After a rejected bundle: apply everything but the rejected flows, and remember these."""
        bridge, apply = difference.bridge, partial(self.openflow.apply_flows, difference.bridge)
        self._flows.pop(bridge, None)
        self._features = None  # the datapath may be another than the one whose features were read
        found = apply_others(apply, difference.set, difference.delete, whole, error)
        self._rejected[bridge] |= found
        self._read_flows(bridge)  # parts of the change are in force
        LOG.error("bridge %s rejected %d flows: %s", bridge, len(found), error)

    def _describe_rejected(self) -> dict[str, str]:
        """The objects whose flows the switch rejected, with the message for the operator."""
        options, kinds = self.options, pipeline.Bridge
        own = {options.integration_bridge: kinds.INTEGRATION, options.tunnel_bridge: kinds.TUNNEL}
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for bridge, rejections in self._rejected.items():
            owners = self._renderer.owners(bridge) if rejections else {}
            for name, text in describe(own.get(bridge, kinds.PHYSICAL), bridge, rejections, owners):
                texts[name].append(text)
        return {name: "; ".join(parts) for name, parts in texts.items()}

    def _read_flows(self, bridge: str) -> dict[FlowKey, Flow]:
        """Our flows on a bridge; read from the switch only if they are not known."""
        if bridge not in self._flows:
            found = self.openflow.read_flows(bridge, COOKIE, COOKIE_MASK)
            self._flows[bridge] = {flow.key: flow for flow in found}
        return self._flows[bridge]

    def _read_meters(self, bridge: str) -> dict[int, Meter]:
        """Our meters on a bridge, by the range of their ids."""
        if bridge not in self._meters:
            self._meters[bridge] = _our_meters(self.openflow.read_meters(bridge))
        return self._meters[bridge]

    def _bridge_plan(
        self, bridge: str, wanted: Mapping[FlowKey, Flow], rendered: Rendered, desired: Desired, complete: bool
    ) -> BridgePlan:
        actual = self._read_flows(bridge)
        meters = rendered.meters.get(bridge, {})
        difference = plan(bridge, wanted, actual.values(), meters, self._read_meters(bridge))
        if complete:
            return self._with_foreign(difference)
        # Flows that decide what is allowed stay as they are: a rule or member that was removed while the agent was away
        # must not come back from the feed's cache.
        deciding = {cookie_of(REMOTES), *self._deciding(desired)}
        kept = deciding & {flow.cookie for flow in actual.values()}
        added = {key: flow for key, flow in difference.flows.add.items() if flow.cookie not in kept}
        return BridgePlan(bridge, Delta(added), Delta(difference.meters.add))

    def _with_foreign(self, difference: BridgePlan) -> BridgePlan:
        """Flows of others go in the same bundle in which ours come: no packet meets both, and none of them stays open."""
        found = self.foreign(difference.bridge) if difference.bridge not in self._cleared else ()
        removed = {flow.key: flow for flow in found}
        if not removed:
            return difference
        flows = dataclasses.replace(difference.flows, remove={**removed, **difference.flows.remove})
        return dataclasses.replace(difference, flows=flows)

    def _deciding(self, desired: Desired) -> set[int]:
        """Cookies of the owners whose flows decide together what passes."""
        more = (owner for extension in self.extensions for owner in extension.deciding_owners(desired))
        return {cookie_of(owner) for owner in (*map(port_owner, desired.ports), *more)}

    def _read_inherited(self) -> None:
        """The addresses that the agent before has applied. None where it has left no flows: on a host of Neutron, whose
        connections go on, every port would look like a new one.
        """
        if self._is_first:
            there = self._read_flows(self.options.integration_bridge)
            self._inherited, self._is_first = applied_addresses(there.values()) if there else None, False

    def _end_connections(self, desired: Desired, complete: bool) -> None:
        """Flush connections that are not allowed any more. A failure is only logged: the flows stop most of them."""
        if not complete:
            return
        before = self._previous
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

    # --- drift ----------------------------------------------------------------------------------------------------

    def drift(self, *, whole: bool = True) -> dict[str, tuple[int, int]]:
        """What is not as applied: how many flows and meters of a bridge, filters of a device or rules of the hybrid
        firewall are missing or changed, and how many are too many.

        Without `whole`, a quick check: they are compared only if some bridge has another number of flows than applied.
        """
        numbers = (
            (self.openflow.count_flows(each, COOKIE, COOKIE_MASK), len(own)) for each, own in self._flows.items()
        )
        if not whole and all(actual == applied for actual, applied in numbers):
            return {}
        found = {}
        for bridge, flows in self._flows.items():
            meters = self._meters.get(bridge)  # none wanted: a host without such extensions starts no extra process
            actual = _our_meters(self.openflow.read_meters(bridge)) if meters else {}
            actual_flows = self.openflow.read_flows(bridge, COOKIE, COOKIE_MASK)
            difference = plan(bridge, flows, actual_flows, meters, actual)
            if difference:
                extra = len(difference.flows.remove) + len(difference.meters.remove)
                found[bridge] = len(difference) - extra, extra
        rules = self.hybrid.drift() if self.hybrid is not None else 0
        return found | self._filters.drift() | ({HYBRID: (rules, 0)} if rules else {})

    def flow_counts(self) -> dict[str, int]:
        """The number of our flows on each bridge, as applied."""
        return {bridge: len(flows) for bridge, flows in tuple(self._flows.items())}

    def dhcp_requests(self) -> dict[str, dict[str, PacketCount]]:
        """DHCP packets that ports of this host have sent, by IP version and by flow of the firewall.

        A request from no address leaves BASE_EGRESS at once, others are accepted in RULES_EGRESS: none is counted twice.
        """
        bridge, tables = self.options.integration_bridge, (pipeline.BASE_EGRESS.number, pipeline.RULES_EGRESS.number)
        if bridge not in self._flows:  # the switch has not been reached yet
            return {}
        return {
            version: self.openflow.count_packets(bridge, match, tables)
            for version, match in zip(("4", "6"), DHCP_REQUESTS, strict=True)
        }

    def drop_flows(self) -> None:
        """Delete all our flows on all bridges."""
        for bridge in self.ovsdb().read().bridges:
            ours = self.openflow.read_flows(bridge, COOKIE, COOKIE_MASK)
            if ours:
                self.openflow.apply_flows(bridge, add=(), delete=ours)
        self.forget()


def _our_meters(meters: Mapping[int, Meter]) -> dict[int, Meter]:
    return {number: meter for number, meter in meters.items() if number in METER_IDS}
