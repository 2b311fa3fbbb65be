"""A flow as a value, and what can be done with the flows of a bridge.

A flow stands on a bridge under its key: table, priority and match. Whose it is, its cookie says: readers and writers
name a cookie and a mask, and never see or touch what others have put there.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from neutrino.dataplane.openflow.actions import canonical_actions
from neutrino.dataplane.openflow.match import canonical_match

FlowKey = tuple[int, int, str]


class OpenFlowError(Exception):
    """The bridge refused a change, or could not be asked; nothing of the change is in force."""


class FlowsRejected(OpenFlowError):
    """The switch rejected flows of a change and applied none of it; `reasons` has those that it named."""

    def __init__(self, message: str, reasons: Mapping[FlowKey, str] | None = None) -> None:
        super().__init__(message)
        self.reasons: Mapping[FlowKey, str] = reasons or {}


@dataclasses.dataclass(frozen=True)
class DatapathFeatures:
    """What the datapath under a bridge can do, of that in which the kernel's and the userspace datapath differ."""

    nd_extension: bool = True  # set the reserved field and the type of the option of a neighbour discovery message


class Flow(NamedTuple):
    """One flow, its texts in canonical form; make it with `flow`. Hosts have thousands: a tuple is compared quickly."""

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
        """As ovs-ofctl reads it."""
        parts = [f"cookie={self.cookie:#x}", f"table={self.table}", f"priority={self.priority}"]
        if self.idle_timeout:
            parts.append(f"idle_timeout={self.idle_timeout}")
        if self.hard_timeout:
            parts.append(f"hard_timeout={self.hard_timeout}")
        if self.match:
            parts.append(self.match)
        return f"{','.join(parts)} actions={self.actions}"


def flow(table: int, priority: int, match: str, actions: str, *, cookie: int = 0, hard_timeout: int = 0) -> Flow:
    return Flow(
        table=table,
        priority=priority,
        match=canonical_match(match),
        actions=canonical_actions(actions),
        cookie=cookie,
        hard_timeout=hard_timeout,
    )


# What stands before the match: numbers that are the flow's, then statistics and flags that are not.
_BEFORE_MATCH = re.compile(
    r"\s*(?:(cookie|table|priority|idle_timeout|hard_timeout)=(\w+)"
    r"|(?:duration|n_packets|n_bytes|idle_age|hard_age|importance)=[^,\s]*"
    r"|send_flow_rem|check_overlap|reset_counts|no_packet_counts|no_byte_counts)"
    r"(?=[,\s]|$)[,\s]*"
)


def parse_flow(line: str) -> Flow:
    """A line of `ovs-ofctl dump-flows`, or of what `Flow.text` wrote."""
    head, _, actions = line.strip().partition(" actions=")
    numbers: dict[str, int] = {}
    start = 0
    while (part := _BEFORE_MATCH.match(head, start)) is not None:
        if part[1] is not None:
            numbers[part[1]] = int(part[2], 0)
        start = part.end()
    return Flow(
        table=numbers.get("table", 0),
        priority=numbers.get("priority", 32768),
        match=canonical_match(head[start:]),
        actions=canonical_actions(actions),
        cookie=numbers.get("cookie", 0),
        idle_timeout=numbers.get("idle_timeout", 0),
        hard_timeout=numbers.get("hard_timeout", 0),
    )


class OpenFlow(Protocol):
    """The flows of the bridges of one host."""

    def read_flows(self, bridge: str, cookie: int, mask: int) -> frozenset[Flow]:
        """The flows whose cookie, under the mask, is the one given."""
        ...

    def count_flows(self, bridge: str, cookie: int, mask: int) -> int:
        """How many these are; far cheaper than reading them."""
        ...

    def apply_flows(self, bridge: str, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        """Delete by key, then add or replace by key, all of it at once or not at all."""
        ...

    def read_features(self, bridge: str) -> DatapathFeatures:
        """What the bridge's datapath supports. It may be another after ovs-vswitchd was restarted."""
        ...
