"""One round of plugged: from what the server said and what is plugged to a switch that does it.

    bridges and patches → tunnels → numbers read → local VLANs → tags → hybrid bridges → flows, one bundle a bridge
    → connections that are not allowed any more

Each step plans against what is there and changes only what differs, so a round after which nothing has happened changes
nothing. What is on the bridges is read once, then remembered: nobody else writes our flows. `forget` is for when
somebody did, or the switch was restarted.

A flow that the switch rejects costs the port that it is for, or is missing by itself; everything else is applied (see
`rejected`). It is not sent again until it is another, the switch was restarted, or `retry_rejected` says so.

`complete` says whether the server has told everything. Until it has, flows and tunnels are added and nothing else, and not
to what a port is allowed: what was there before us is newer than what we remember.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.bridges import (
    BridgeOptions,
    ConfigurationPlan,
    plan_bridges,
    plan_tags,
    plan_tunnels,
    read_ancillary,
    read_plugged,
    unnumbered,
)
from neutrino.agent.l2.connections import plan_flushes
from neutrino.agent.l2.desired import Desired, FlowOptions, HostState, resolve, wanted_segments
from neutrino.agent.l2.hybrid.firewall import HybridFirewall
from neutrino.agent.l2.hybrid.plan import HybridPlan
from neutrino.agent.l2.hybrid.render import ConflictingPorts
from neutrino.agent.l2.local_vlans import FIRST, LAST, Allocation, SegmentKey, allocate, merged, restore
from neutrino.agent.l2.ownership import COOKIE, MASK, cookie_of
from neutrino.agent.l2.plan import BridgePlan, Contribution, Renderer, plan
from neutrino.agent.l2.rejected import Rejections, apply_others, describe, object_of, without
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError
from neutrino.dataplane.iptables.api import IptablesError
from neutrino.dataplane.openflow.api import (
    DatapathFeatures,
    Flow,
    FlowKey,
    FlowsRejected,
    OpenFlow,
    OpenFlowError,
)
from neutrino.dataplane.openflow.megaflows import MegaflowCache
from neutrino.dataplane.ovsdb.api import Bridge, DeletePort, Ovsdb, Snapshot

LOG = logging.getLogger(__name__)
HYBRID = "hybrid firewall"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a round has done, as far as others must know."""

    wired: Mapping[str, int]  # port, to the revision that is in force
    problems: Mapping[str, str]  # port, to why it is not
    faults: Mapping[str, str]  # physical network, host or owner of flows, to what is wrong with it
    ready: bool = True  # False: the switch has still to number what we made
    refused: bool = False  # something was rejected that was not before, or ports have no filter: look again soon
    changed: int = 0  # flows and settings


@dataclasses.dataclass(frozen=True)
class HostPlan:
    """All that differs, as one look sees it."""

    configuration: tuple[ConfigurationPlan, ...] = ()
    flows: tuple[BridgePlan, ...] = ()
    hybrid: HybridPlan | None = None
    problems: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def text(self) -> str:
        parts = [part.text() for part in self.configuration] + [part.text() for part in self.flows]
        if self.hybrid:
            parts.append(self.hybrid.text())
        return "\n".join(filter(None, parts))


def _by_key(flows: Iterable[Flow]) -> dict[FlowKey, Flow]:
    return {flow.key: flow for flow in flows}


class Reconciler:
    """Blocking, and for one thread at a time."""

    def __init__(
        self,
        ovsdb: Ovsdb,
        openflow: OpenFlow,
        conntrack: Conntrack,
        bridge_options: BridgeOptions,
        options: FlowOptions,
        *,
        hybrid: HybridFirewall | None = None,
        extensions: Iterable[Contribution] = (),
        decisions: MegaflowCache | None = None,
    ) -> None:
        self._ovsdb = ovsdb
        self._openflow = openflow
        self._conntrack = conntrack
        self._bridge_options = bridge_options
        self._options = options
        self._hybrid = hybrid
        self._renderer = Renderer(extensions)
        self._decisions = decisions
        self._vlans: dict[SegmentKey, int] = {}
        self._there: dict[str, dict[FlowKey, Flow]] = {}  # our flows, by bridge, as we know them to be
        self._rejected: dict[str, Rejections] = {}  # wanted flows, by bridge
        self._features: DatapathFeatures | None = None
        self._before: Desired | None = None

    def forget(self, bridge: str | None = None) -> None:
        """What is on the bridges has to be read again, and of all of them also what the switch can do."""
        if bridge is None:
            self._there.clear()
            self._rejected.clear()
            self._features = None
            if self._hybrid is not None:
                self._hybrid.forget()
        else:
            self._there.pop(bridge, None)

    def retry_rejected(self) -> bool:
        """Have the next round send again what was rejected, which may have been for want of room; whether there is any."""
        found = any(self._rejected.values())
        self._rejected.clear()
        return found

    def flush_megaflows(self) -> None:
        """Packets from now on meet the flows that are there, on a switch that cannot be relied on to see to it."""
        if self._decisions is not None:
            self._decisions.forget()

    # --- a round --------------------------------------------------------------------------------------------------

    def reconcile(self, host_state: HostState, *, complete: bool) -> Outcome:
        bridges = plan_bridges(self._bridge_options, self._ovsdb.read())
        changed = self._configure(bridges)
        tunnels = self._tunnel_plan(host_state, self._ovsdb.read(), complete)
        changed += self._configure(tunnels)
        snapshot = self._ovsdb.read()
        faults = {**bridges.problems, **tunnels.problems}
        if unnumbered(self._bridge_options, snapshot):
            return Outcome({}, {}, faults, ready=False, changed=changed)
        desired = self._resolve(host_state, snapshot, complete)
        changed += self._configure(plan_tags(self._bridge_options, desired, snapshot))
        unfiltered = self._apply_hybrid(desired, complete)
        if unfiltered is not None:
            faults[HYBRID] = unfiltered.reason
            desired = self._without(desired, unfiltered)
        applied = self._apply_flows(desired, complete)
        changed += applied.changed
        self._end_connections(desired, complete)
        self._before = desired
        rejected_ports, rejected_others = self._describe_rejected(desired)
        faults |= {**self._renderer.problems, **rejected_others}
        unrendered = {
            port.id: reason for port in desired.ports if (reason := self._renderer.problems.get(f"port {port.id}"))
        }
        problems = {**desired.problems, **rejected_ports, **unrendered}
        wired = {port.id: host_state.ports[port.id].revision for port in desired.ports if port.id not in problems}
        for port_id in read_ancillary(self._bridge_options, snapshot):
            if port_id in host_state.ports:
                wired.setdefault(port_id, host_state.ports[port_id].revision)
        return Outcome(wired, problems, faults, refused=bool(applied.rejected or unfiltered), changed=changed)

    def _configure(self, difference: ConfigurationPlan) -> int:
        if difference.changes:
            LOG.debug("%s", difference.text())
            self._ovsdb.apply(difference.changes)
        return len(difference.changes)

    def _tunnel_plan(self, host_state: HostState, snapshot: Snapshot, complete: bool) -> ConfigurationPlan:
        wanted = plan_tunnels(self._bridge_options, host_state.hosts.values(), snapshot)
        if complete:
            return wanted
        kept = tuple(change for change in wanted.changes if not isinstance(change, DeletePort))
        return dataclasses.replace(wanted, changes=kept)

    def _resolve(self, host_state: HostState, snapshot: Snapshot, complete: bool) -> Desired:
        plugged = read_plugged(self._bridge_options, host_state.hosts.values(), snapshot)
        if plugged.patch_int:
            plugged = dataclasses.replace(plugged, features=self._read_features())
        allocation = self._allocate(wanted_segments(host_state, plugged), snapshot, complete)
        self._vlans = dict(allocation.vlans)
        desired = resolve(host_state, plugged, allocation, self._options)
        if complete:
            return desired
        # A port that we do not know may be one of which we have not heard yet.
        return dataclasses.replace(desired, dead=())

    def _allocate(self, wanted: Iterable[SegmentKey], snapshot: Snapshot, complete: bool) -> Allocation:
        ports = snapshot.bridges.get(self._bridge_options.integration_bridge, Bridge("")).ports.values()
        held = restore((port.tag, port.other_config) for port in ports)
        ours = merged(self._vlans, held)
        foreign = {
            port.tag
            for port in ports
            if port.tag is not None
            and FIRST <= port.tag <= LAST
            and not any("iface-id" in interface.external_ids for interface in port.interfaces)
        }
        if not complete:
            foreign |= {*ours.values()} - {ours[key] for key in wanted if key in ours}
        return allocate(wanted, ours, foreign)

    # --- ports that are filtered on a bridge of their own ----------------------------------------------------------

    @dataclasses.dataclass(frozen=True)
    class _Unfiltered:
        ports: frozenset[str]
        reason: str

    def _apply_hybrid(self, desired: Desired, complete: bool) -> _Unfiltered | None:
        """Their filter is there before their flows are: no packet passes without. Those that have none, and why."""
        if self._hybrid is None or not (complete or any(port.hybrid for port in desired.ports)):
            return None
        try:
            if not complete and self._hybrid.is_there():
                # What is there is newer than what we remember: it stays, and who has nothing there waits.
                missing = self._hybrid.missing(desired)
                return self._Unfiltered(missing, "the server has not said yet how to filter") if missing else None
            difference = self._hybrid.plan(desired)
            if difference:
                LOG.debug("%s", difference.text())
                self._hybrid.apply(difference)
        except (IptablesError, ConntrackError, ConflictingPorts) as error:
            self._hybrid.forget()
            known = {port.id for port in self._before.ports} if self._before is not None else set()
            secured = (port.id for port in desired.ports if port.hybrid and port.secured)
            return self._Unfiltered(frozenset(secured) - known, str(error))
        return None

    def _without(self, desired: Desired, unfiltered: _Unfiltered) -> Desired:
        """Those that were filtered before stay as they are; those that are not do not talk."""
        ports = tuple(port for port in desired.ports if port.id not in unfiltered.ports)
        problems = {**desired.problems, **dict.fromkeys(unfiltered.ports, unfiltered.reason)}
        return dataclasses.replace(desired, ports=ports, problems=problems)

    # --- flows ----------------------------------------------------------------------------------------------------

    @dataclasses.dataclass(frozen=True)
    class _Applied:
        changed: int
        rejected: bool  # something that was not rejected before

    def _read_features(self) -> DatapathFeatures:
        """Of the tunnel bridge, where they matter. Not knowing them, ports get flows that every datapath takes."""
        if self._features is None:
            try:
                self._features = self._openflow.read_features(self._options.tunnel_bridge)
            except OpenFlowError as error:
                LOG.warning("neighbour solicitations are flooded: %s", error)
                return DatapathFeatures(nd_extension=False)
        return self._features

    def _apply_flows(self, desired: Desired, complete: bool) -> _Applied:
        ports = {cookie_of(f"port {port.id}") for port in desired.ports}
        changed, rejected = 0, False
        for bridge, rendered in self._renderer.render(desired).items():
            there = self._read_flows(bridge)
            known = self._rejected.get(bridge, {})
            known = self._rejected[bridge] = {
                flow: why for flow, why in known.items() if rendered.get(flow.key) == flow
            }
            wanted = without(rendered, there, known, ports)
            difference = self._flow_plan(bridge, wanted, desired, complete)
            changed += len(difference.set) + len(difference.delete)
            try:
                if difference:
                    self._openflow.apply_flows(bridge, add=difference.set, delete=difference.delete)
                self._there[bridge] = wanted if complete else there | _by_key(difference.add)
            except FlowsRejected as error:
                rejected = True
                self._isolate(difference, ports, error)
        return self._Applied(changed, rejected)

    def _isolate(self, difference: BridgePlan, ports: Collection[int], error: FlowsRejected) -> None:
        """The switch rejected the bundle: the others get their flows, and what was rejected is remembered."""
        bridge = difference.bridge

        def apply(add: Sequence[Flow], delete: Sequence[Flow]) -> None:
            self._openflow.apply_flows(bridge, add=add, delete=delete)

        self.forget(bridge)
        self._features = None  # it may be that the datapath is not as we have read it
        found = apply_others(apply, difference.set, difference.delete, ports, error)
        self._rejected[bridge] |= found
        self._read_flows(bridge)
        LOG.error("bridge %s rejected %d flows: %s", bridge, len(found), error)

    def _describe_rejected(self, desired: Desired) -> tuple[dict[str, str], dict[str, str]]:
        """Ports, and other objects, to what the switch rejected of theirs."""
        ports = {port.id for port in desired.ports}
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for bridge, rejections in self._rejected.items():
            owners = self._renderer.owners(bridge)
            for cookie in sorted({flow.cookie for flow in rejections}):
                here = {flow: reason for flow, reason in rejections.items() if flow.cookie == cookie}
                name = object_of(owners.get(cookie, ""), bridge)
                texts[name].append(describe(self._kind(bridge), bridge, here))
        told = {name.removeprefix("port "): "; ".join(parts) for name, parts in texts.items()}
        return (
            {name: text for name, text in told.items() if name in ports},
            {name: text for name, text in told.items() if name not in ports},
        )

    def _kind(self, bridge: str) -> pipeline.Bridge:
        own = {
            self._options.integration_bridge: pipeline.Bridge.INTEGRATION,
            self._options.tunnel_bridge: pipeline.Bridge.TUNNEL,
        }
        return own.get(bridge, pipeline.Bridge.PHYSICAL)

    def _read_flows(self, bridge: str) -> dict[FlowKey, Flow]:
        """Our flows on a bridge, read where they are not known."""
        there = self._there.get(bridge)
        if there is None:
            there = self._there[bridge] = _by_key(self._openflow.read_flows(bridge, COOKIE, MASK))
        return there

    def _flow_plan(self, bridge: str, wanted: Mapping[FlowKey, Flow], desired: Desired, complete: bool) -> BridgePlan:
        there = self._read_flows(bridge)
        difference = plan(bridge, wanted, there.values())
        if complete:
            return difference
        # What is there is newer than what we remember. A rule or a member that has gone since must not come back: whoever
        # has flows that say what is allowed keeps them as they are.
        judging = {cookie_of("remotes"), *(cookie_of(f"port {port.id}") for port in desired.ports)}
        kept = judging & {flow.cookie for flow in there.values()}
        return BridgePlan(bridge, add=tuple(flow for flow in difference.add if flow.cookie not in kept))

    def _end_connections(self, desired: Desired, complete: bool) -> None:
        """Connections that what changed has forbidden. The flows stop most of them already: a failure is told, no more."""
        if self._before is None or not complete:
            return
        flushes = plan_flushes(self._before, desired)
        if not flushes:
            return
        try:
            self._conntrack.flush(flushes)
        except ConntrackError as error:
            LOG.warning("connections that are not allowed any more could not be ended: %s", error)

    # --- looking --------------------------------------------------------------------------------------------------

    def counts_differ(self) -> list[str]:
        """The bridges that have another number of our flows than we put there: a quick look."""
        return [
            bridge
            for bridge, flows in self._there.items()
            if self._openflow.count_flows(bridge, COOKIE, MASK) != len(flows)
        ]

    def drift(self) -> dict[str, tuple[int, int]]:
        """Bridge, to the flows that are missing or other, and those that are too many, against what we put there."""
        found = {}
        for bridge, flows in self._there.items():
            difference = plan(bridge, flows, self._openflow.read_flows(bridge, COOKIE, MASK))
            if difference:
                found[bridge] = len(difference.set), len(difference.delete)
        return found

    def find(self, host_state: HostState, *, complete: bool) -> HostPlan:
        """All that a round would change, changing nothing. What follows from a step not done yet is not seen."""
        snapshot = self._ovsdb.read()
        bridges = plan_bridges(self._bridge_options, snapshot)
        tunnels = self._tunnel_plan(host_state, snapshot, complete)
        faults = {**bridges.problems, **tunnels.problems}
        if bridges.changes:
            return HostPlan((bridges, tunnels), problems=faults)
        desired = self._resolve(host_state, snapshot, complete)
        tags = plan_tags(self._bridge_options, desired, snapshot)
        flows = tuple(
            difference
            for bridge, wanted in self._renderer.render(desired).items()
            if (difference := self._flow_plan(bridge, wanted, desired, complete))
        )
        hybrid = self._hybrid.plan(desired) if self._hybrid is not None and complete else None
        return HostPlan((bridges, tunnels, tags), flows, hybrid, {**faults, **desired.problems})

    def drop_flows(self) -> None:
        """Take all our flows off the bridges that we know."""
        for bridge in self._ovsdb.read().bridges:
            ours = self._openflow.read_flows(bridge, COOKIE, MASK)
            if ours:
                self._openflow.apply_flows(bridge, add=(), delete=ours)
        self.forget()
