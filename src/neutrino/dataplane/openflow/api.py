"""Flows and meters as values, and the driver of a host's bridges.

A flow's key on a bridge is its table, priority and match. Its cookie identifies its owner: reads select by cookie and mask,
so that flows of others are never seen or touched.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, NamedTuple, Protocol

from neutrino.dataplane.openflow.text import canonical_actions, canonical_match
from neutrino.model.rates import Counted

FlowKey = tuple[int, int, str]
# The upper half of a cookie marks a flow as ours, the lower half is a checksum of its owner's name: an agent without
# memory recognises its own flows, and an operator can tell for which object a flow is. Other cookies are never touched.
COOKIE = 0x6E74726E << 32
# Flows that the switch learns carry another mark: they are neither compared nor deleted by a plan.
LEARNED_COOKIE = 0x6E74726C << 32
COOKIE_MASK = 0xFFFFFFFF << 32


class OpenFlowError(Exception):
    """The switch rejected a change or cannot be reached; nothing of the change is in force."""


class FlowsRejected(OpenFlowError):
    """The switch rejected flows of a bundle and applied none of it; `reasons` has the flows that it named."""

    def __init__(self, message: str, reasons: Mapping[FlowKey, str] | None = None) -> None:
        super().__init__(message)
        self.reasons: Mapping[FlowKey, str] = reasons or {}


@dataclasses.dataclass(frozen=True)
class DatapathFeatures:
    """Features of a bridge's datapath in which the kernel's and the userspace datapath differ."""

    nd_extension: bool = True  # set the reserved field and the type of the option of a neighbour discovery message


class MetersRejected(OpenFlowError):
    """The switch rejected some meters; the others are applied. `reasons` has the rejected ones by id."""

    def __init__(self, reasons: Mapping[int, str]) -> None:
        super().__init__("; ".join(f"meter {number}: {reason}" for number, reason in sorted(reasons.items())))
        self.reasons = reasons


@dataclasses.dataclass(frozen=True)
class Meter:
    """A rate above which packets are dropped; in one band, as the kernel's datapath has no more."""

    rate: int
    unit: Literal["pktps", "kbps"] = "pktps"
    burst: int = 0  # packets or kilobits; 0: the switch's default

    def text(self) -> str:
        """Return it in the syntax of ovs-ofctl, without the id."""
        burst, size = (",burst", f",burst_size={self.burst}") if self.burst else ("", "")
        return f"{self.unit}{burst},band=type=drop,rate={self.rate}{size}"


class Flow(NamedTuple):
    """A flow with its texts in canonical form; create it with `flow`. A tuple, as hosts compare thousands of them."""

    table: int
    priority: int
    match: str
    actions: str
    cookie: int = 0
    idle_timeout: int = 0
    hard_timeout: int = 0

    @property
    def key(self) -> FlowKey:
        return self[:3]

    def text(self) -> str:
        """Return it in the syntax of ovs-ofctl."""
        parts = [f"cookie={self.cookie:#x}", f"table={self.table}", f"priority={self.priority}"]
        if self.idle_timeout:
            parts.append(f"idle_timeout={self.idle_timeout}")
        if self.hard_timeout:
            parts.append(f"hard_timeout={self.hard_timeout}")
        if self.match:
            parts.append(self.match)
        return f"{','.join(parts)} actions={self.actions}"


def flow(table: int, priority: int, match: str, actions: str, *, cookie: int = 0, hard_timeout: int = 0) -> Flow:
    match, actions = canonical_match(match), canonical_actions(actions)
    return Flow(table, priority, match, actions, cookie, hard_timeout=hard_timeout)


# Before the match: numbers of the flow, then statistics and flags, which are not part of it.
_BEFORE_MATCH = re.compile(
    r"\s*(?:(cookie|table|priority|idle_timeout|hard_timeout)=(\w+)"
    r"|(?:duration|n_packets|n_bytes|idle_age|hard_age|importance)=[^,\s]*"
    r"|send_flow_rem|check_overlap|reset_counts|no_packet_counts|no_byte_counts)"
    r"(?=[,\s]|$)[,\s]*"
)


def parse_flow(line: str) -> Flow:
    """A flow from a line of `ovs-ofctl dump-flows` or of `Flow.text`."""
    head, _, actions = line.strip().partition(" actions=")
    numbers: dict[str, int] = {}
    start = 0
    while (part := _BEFORE_MATCH.match(head, start)) is not None:
        if part[1] is not None:
            numbers[part[1]] = int(part[2], 0)
        start = part.end()
    return Flow(
        table=numbers.get("table", 0),
        priority=numbers.get("priority", 32768),  # the default, which ovs-ofctl does not print
        match=canonical_match(head[start:]),
        actions=canonical_actions(actions),
        cookie=numbers.get("cookie", 0),
        idle_timeout=numbers.get("idle_timeout", 0),
        hard_timeout=numbers.get("hard_timeout", 0),
    )


class PacketCount(NamedTuple):
    """The packets that a flow has counted, in how many seconds."""

    packets: int
    seconds: float


class OpenFlow(Protocol):
    """The flows and meters of the bridges of one host."""

    def read_flows(self, bridge: str, cookie: int, mask: int) -> frozenset[Flow]:
        """The flows whose cookie equals this one under the mask."""
        ...

    def count_flows(self, bridge: str, cookie: int, mask: int) -> int:
        """The number of these flows; far cheaper than reading them."""
        ...

    def count_packets(self, bridge: str, match: str, tables: Collection[int]) -> dict[str, PacketCount]:
        """What flows of these tables have counted, of those with this match or a narrower one, by the flow's text."""
        ...

    def read_port_counters(self, bridge: str) -> dict[int, Counted]:
        """What the bridge's ports have counted, by number; `out` is what the switch has received from a port."""
        ...

    def apply_flows(self, bridge: str, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        """Delete by key, then add or replace by key, in one transaction."""
        ...

    def read_features(self, bridge: str) -> DatapathFeatures:
        """The features of the bridge's datapath. They may change when ovs-vswitchd is restarted."""
        ...

    def flush_megaflows(self) -> None:
        """Have every later packet looked up in the current flows, where the switch may not see to it itself.

        The datapath caches the decision for a class of packets as a megaflow. When flows change, the switch revalidates all
        megaflows, within half a second. In userspace, Open vSwitch before 3.2 does that wrongly where two megaflows cover
        one packet: one is updated, and the other stays for as long as packets match it, so that a removed rule would go on
        letting packets in.
        """
        ...

    def read_meters(self, bridge: str) -> dict[int, Meter]:
        """All meters of the bridge by id."""
        ...

    def apply_meters(
        self, bridge: str, *, add: Mapping[int, Meter], change: Mapping[int, Meter], delete: Iterable[int]
    ) -> None:
        """Delete, change and add meters; MetersRejected if not all could be. Deleting one deletes the flows that use it."""
        ...
