"""A dataplane that answers questions about packets from what a test gives it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from neutrino.dataplane.inspection.api import InspectionError, Route, TrackedConnection, Tuple5
from neutrino.dataplane.iptables.api import SavedRules
from neutrino.dataplane.openflow.trace import SwitchPort


@dataclasses.dataclass
class FakeInspection:
    """Implements `Inspection`. `asked` has the flows of traces, in order; `down` is why nothing answers."""

    switch_ports: tuple[SwitchPort, ...] = ()
    traces: dict[str, str] = dataclasses.field(default_factory=dict)  # output, by bridge, or by bridge and table
    routes: dict[tuple[str, str], Route] = dataclasses.field(default_factory=dict)  # by namespace and destination
    resolved: dict[tuple[str, str], dict[str, str]] = dataclasses.field(default_factory=dict)  # by namespace and device
    rulesets: dict[str, Sequence[Mapping[str, Any]]] = dataclasses.field(default_factory=dict)
    saved: dict[tuple[str, int], tuple[SavedRules, ...]] = dataclasses.field(default_factory=dict)
    tracked: dict[str, tuple[TrackedConnection, ...]] = dataclasses.field(default_factory=dict)
    down: str = ""
    asked: list[tuple[str, str]] = dataclasses.field(default_factory=list)

    def ports(self) -> tuple[SwitchPort, ...]:
        if self.down:
            raise InspectionError(self.down)
        return self.switch_ports

    def trace(self, bridge: str, flow: str) -> str:
        self.asked.append((bridge, flow))
        return self.traces[bridge]

    def trace_from(self, bridge: str, flow: str, table: int) -> str:
        self.asked.append((f"{bridge} {table}", flow))
        return self.traces[f"{bridge} {table}"]

    def route(self, namespace: str, packet: Tuple5, device: str, mark: int = 0) -> Route:
        return self.routes.get((namespace, packet.destination), Route(refused="Network is unreachable"))

    def neighbours(self, namespace: str, device: str) -> Mapping[str, str]:
        return self.resolved.get((namespace, device), {})

    def ruleset(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        return self.rulesets.get(namespace, ())

    def iptables(self, namespace: str, family: int) -> tuple[SavedRules, ...]:
        return self.saved.get((namespace, family), ())

    def connections(self, namespace: str, packet: Tuple5) -> tuple[TrackedConnection, ...]:
        return tuple(each for each in self.tracked.get(namespace, ()) if packet in (each.original, each.reply))
