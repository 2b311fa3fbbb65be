"""Our flows and meters on the bridges: planned, applied, compared with the switch.

They are read once and then remembered, as only this agent writes them; `forget` is for a restarted switch and for drift.

A flow that the switch rejects costs its port, or is missing alone; everything else is applied (see `rejected`). It is not
sent again until it changes, the switch is restarted, or `retry_rejected` is called.
"""

import dataclasses
import logging
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options
from neutrino.agent.l2.extension_api import METER_IDS, REMOTES, L2Extension, cookie_of, port_owner
from neutrino.agent.l2.packets import DHCP_REQUESTS
from neutrino.agent.l2.plan import BridgePlan, Rendered, Renderer, plan
from neutrino.agent.l2.rejected import Rejections, apply_others, describe, without
from neutrino.agent.runtime.delta import Delta, diff
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

LOG = logging.getLogger(__name__)
_FOREIGN_METER = Meter(0)  # only its id is known
_METER = re.compile(r"\bmeter:(\d+)")


class ForeignFlows(Protocol):
    def __call__(self, bridge: str, *, permitted: bool) -> Iterable[Flow]:
        """Flows of others on a bridge of ours that are to be removed; `permitted`: without an option for it."""
        ...


def no_foreign_flows(bridge: str, *, permitted: bool) -> Iterable[Flow]:
    return ()


@dataclasses.dataclass(frozen=True)
class FlowPlan:
    """The changes of all bridges, and what they are to have then."""

    bridges: tuple[tuple[BridgePlan, Mapping[FlowKey, Flow]], ...] = ()
    complete: bool = True
    whole: frozenset[int] = frozenset()  # cookies of owners whose flows are applied all or none

    def __len__(self) -> int:
        return sum(len(difference) for difference, _ in self.bridges)

    def text(self) -> str:
        return "\n".join(filter(None, (difference.text() for difference, _ in self.bridges)))


@dataclasses.dataclass(eq=False)
class FlowTables:
    """Blocking, and for one thread at a time."""

    openflow: OpenFlow
    options: L2Options
    extensions: Sequence[L2Extension]
    renderer: Renderer
    foreign: ForeignFlows  # those that are removed with the first plan

    def __post_init__(self) -> None:
        self._flows: dict[str, dict[FlowKey, Flow]] = {}  # actual state: our flows by bridge
        self._meters: dict[str, dict[int, Meter]] = {}  # actual state: our meters by bridge
        self._rejected: dict[str, Rejections] = {}  # desired flows by bridge
        self._cleared: set[str] = set()  # bridges without foreign flows
        # Bridges that had some a moment ago. Flows that Neutron's flows have learned may come back, as the switch learns
        # from packets of its megaflow cache until that is revalidated.
        self._just_cleared: set[str] = set()
        self._permitted = False  # foreign flows are removed without an option for it
        self._features: DatapathFeatures | None = None

    def forget(self, bridge: str | None = None) -> None:
        """Read the actual state of a bridge again before the next plan; without a name, of all bridges."""
        if bridge is None:
            self._flows.clear()
            self._meters.clear()
            self._rejected.clear()
            self._features = None
        else:
            self._flows.pop(bridge, None)
            self._meters.pop(bridge, None)

    def remove_foreign(self) -> None:
        """Remove flows of others with the next plan, as a Neutron agent has been started on this host."""
        self._cleared.clear()
        self._permitted = True

    def retry_rejected(self) -> bool:
        """Send rejected flows again with the next plan, as a table may have been full; whether there are any."""
        found = any(self._rejected.values())
        self._rejected.clear()
        return found

    def read(self, bridge: str) -> dict[FlowKey, Flow]:
        """Our flows on a bridge; read from the switch only if they are not known."""
        if bridge not in self._flows:
            found = self.openflow.read_flows(bridge, COOKIE, COOKIE_MASK)
            self._flows[bridge] = {flow.key: flow for flow in found}
        return self._flows[bridge]

    def features(self) -> DatapathFeatures:
        """The features of the tunnel bridge's datapath; if they cannot be read, those that every datapath has."""
        if self._features is None:
            try:
                self._features = self.openflow.read_features(self.options.tunnel_bridge)
            except OpenFlowError as error:
                LOG.warning("neighbour solicitations are flooded, as the datapath's features are unknown: %s", error)
                return DatapathFeatures(nd_extension=False)  # not remembered: read again by the next reconciliation
        return self._features

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(self, desired: Desired, rendered: Rendered, *, complete: bool) -> FlowPlan:
        whole = frozenset(self._deciding(desired))
        planned = []
        for bridge, flows in rendered.flows.items():
            known = self._rejected.get(bridge, {})
            # A rejected flow that is not wanted any more, or has changed, is forgotten; the others are left out again.
            known = self._rejected[bridge] = {flow: why for flow, why in known.items() if flows.get(flow.key) == flow}
            wanted = without(flows, self.read(bridge), known, whole)
            planned.append((self._plan_bridge(bridge, wanted, rendered, desired, complete), wanted))
        return FlowPlan(tuple(planned), complete, whole)

    def _plan_bridge(
        self, bridge: str, wanted: Mapping[FlowKey, Flow], rendered: Rendered, desired: Desired, complete: bool
    ) -> BridgePlan:
        actual = self.read(bridge)
        meters = rendered.meters.get(bridge, {})
        difference = BridgePlan(bridge, diff(wanted, actual), diff(meters, self._read_meters(bridge)))
        if complete:
            return self.with_foreign(difference)
        # Flows that decide what is allowed stay as they are: a rule or member that was removed while the agent was away
        # must not come back from the feed's cache.
        deciding = {cookie_of(REMOTES), *self._deciding(desired)}
        kept = deciding & {flow.cookie for flow in actual.values()}
        added = {key: flow for key, flow in difference.flows.add.items() if flow.cookie not in kept}
        return BridgePlan(bridge, Delta(added), Delta(difference.meters.add))

    def with_foreign(self, difference: BridgePlan) -> BridgePlan:
        """Flows of others go in the same bundle in which ours come: no packet meets both, and none of them stays open.
        Meters that they use go afterwards.
        """
        removed = {flow.key: flow for flow in self._foreign_flows(difference.bridge)}
        if not removed:
            return difference
        flows = dataclasses.replace(difference.flows, remove={**removed, **difference.flows.remove})
        used = {int(number) for flow in removed.values() for number in _METER.findall(flow.actions)}
        unused = {number: _FOREIGN_METER for number in used if number not in METER_IDS}
        meters = dataclasses.replace(difference.meters, remove={**unused, **difference.meters.remove})
        return dataclasses.replace(difference, flows=flows, meters=meters)

    def _foreign_flows(self, bridge: str) -> Iterable[Flow]:
        return self.foreign(bridge, permitted=self._permitted) if bridge not in self._cleared else ()

    def _deciding(self, desired: Desired) -> set[int]:
        """Cookies of the owners whose flows decide together what passes."""
        more = (owner for extension in self.extensions for owner in extension.deciding_owners(desired))
        return {cookie_of(owner) for owner in (*map(port_owner, desired.ports), *more)}

    # --- apply ----------------------------------------------------------------------------------------------------

    def apply(self, planned: FlowPlan) -> tuple[bool, dict[str, str]]:
        """Whether the switch rejected something anew, and the problems of meters."""
        rejected, faults = False, dict[str, str]()
        for difference, wanted in planned.bridges:
            bridge, meters = difference.bridge, difference.meters
            faults |= self._apply_meters(bridge, Delta(meters.add, meters.change))
            try:
                if difference.flows:
                    self.openflow.apply_flows(bridge, add=difference.set, delete=difference.delete)
                self._flows[bridge] = (
                    dict(wanted) if planned.complete else {**self.read(bridge), **difference.flows.add}
                )
                if planned.complete:
                    self._cleared.add(bridge)
                if any(flow.cookie & COOKIE_MASK != COOKIE for flow in difference.delete):
                    self._just_cleared.add(bridge)
            except FlowsRejected as error:
                rejected = True
                self._isolate(difference, planned.whole, error)
            # Last: deleting a meter deletes the flows that use it.
            faults |= self._apply_meters(bridge, Delta(remove=meters.remove))
        return rejected or bool(faults), faults

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
        self.read(bridge)  # parts of the change are in force
        LOG.error("bridge %s rejected %d flows: %s", bridge, len(found), error)

    def describe_rejected(self) -> dict[str, str]:
        """The objects whose flows the switch rejected, with the message for the operator."""
        options, kinds = self.options, pipeline.Bridge
        own = {options.integration_bridge: kinds.INTEGRATION, options.tunnel_bridge: kinds.TUNNEL}
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for bridge, rejections in self._rejected.items():
            owners = self.renderer.owners(bridge) if rejections else {}
            for name, text in describe(own.get(bridge, kinds.PHYSICAL), bridge, rejections, owners):
                texts[name].append(text)
        return {name: "; ".join(parts) for name, parts in texts.items()}

    def _read_meters(self, bridge: str) -> dict[int, Meter]:
        """Our meters on a bridge, by the range of their ids."""
        if bridge not in self._meters:
            self._meters[bridge] = _our_meters(self.openflow.read_meters(bridge))
        return self._meters[bridge]

    # --- drift ----------------------------------------------------------------------------------------------------

    def has_other_numbers(self) -> bool:
        """Whether some bridge has another number of flows than applied."""
        count = self.openflow.count_flows
        return any(count(bridge, COOKIE, COOKIE_MASK) != len(flows) for bridge, flows in self._flows.items())

    def drift(self) -> dict[str, tuple[int, int]]:
        """Bridges that are not as applied: how many flows and meters are missing or changed, how many too many."""
        found = {}
        for bridge, flows in self._flows.items():
            meters = self._meters.get(bridge)  # none wanted: a host without such extensions starts no extra process
            actual = _our_meters(self.openflow.read_meters(bridge)) if meters else {}
            actual_flows = self.openflow.read_flows(bridge, COOKIE, COOKIE_MASK)
            difference = plan(bridge, flows, actual_flows, meters, actual)
            if difference:
                extra = len(difference.flows.remove) + len(difference.meters.remove)
                found[bridge] = len(difference) - extra, extra
        return found

    def drift_of_foreign(self, *, everywhere: bool) -> dict[str, tuple[int, int]]:
        """Bridges with flows of others that are to be removed, and how many; the next plan removes them.

        Unless `everywhere`, only bridges that had some a moment ago are looked at.
        """
        bridges = {*self._flows} if everywhere else self._just_cleared
        numbers = {bridge: len([*self.foreign(bridge, permitted=self._permitted)]) for bridge in bridges}
        found = {bridge: (0, number) for bridge, number in numbers.items() if number}
        self._cleared -= found.keys()
        self._just_cleared = {*found}
        return found

    def counts(self) -> dict[str, int]:
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

    def drop(self, bridges: Iterable[str]) -> None:
        """Delete all our flows on these bridges."""
        for bridge in bridges:
            ours = self.openflow.read_flows(bridge, COOKIE, COOKIE_MASK)
            if ours:
                self.openflow.apply_flows(bridge, add=(), delete=ours)


def _our_meters(meters: Mapping[int, Meter]) -> dict[int, Meter]:
    return {number: meter for number, meter in meters.items() if number in METER_IDS}
