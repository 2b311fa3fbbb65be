"""The flow tables of one fake bridge, and which flow a packet meets in them, conjunctions included."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from neutrino.dataplane.openflow.actions import arguments, split_actions
from neutrino.dataplane.openflow.api import Flow, FlowKey
from neutrino.dataplane.openflow.match import accepts, parse_match


class AmbiguousFlows(Exception):
    """Two flows of one priority match a packet and do different things: which one wins is chance."""


class FakeTables:
    def __init__(self) -> None:
        self.flows: dict[FlowKey, Flow] = {}
        self._sorted: dict[int, list[Flow]] = {}

    def change(self, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        for flow in delete:
            self.flows.pop(flow.key, None)
        for flow in add:
            self.flows[flow.key] = flow
        self._sorted.clear()

    def look_up(self, table: int, packet: dict[str, int]) -> Flow | None:
        """The flow that a packet meets, or None for a miss."""
        for _, group in groupby(self._by_priority(table), key=lambda flow: flow.priority):
            matching = [flow for flow in group if accepts(parse_match(flow.match), packet)]
            plain = [flow for flow in matching if not flow.actions.startswith("conjunction(")]
            if len({flow.actions for flow in plain}) > 1:
                raise AmbiguousFlows("; ".join(flow.text() for flow in plain))
            if plain:
                return plain[0]
            for conjunction in _complete(matching):
                found = self._by_conjunction(table, packet, conjunction)
                if found is not None:
                    return found
        return None

    def _by_priority(self, table: int) -> list[Flow]:
        if table not in self._sorted:
            here = [flow for flow in self.flows.values() if flow.table == table]
            self._sorted[table] = sorted(here, key=lambda flow: -flow.priority)
        return self._sorted[table]

    def _by_conjunction(self, table: int, packet: dict[str, int], conjunction: int) -> Flow | None:
        seen = {**packet, "conj_id": conjunction}
        for flow in self._by_priority(table):
            if not flow.actions.startswith("conjunction(") and accepts(parse_match(flow.match), seen):
                return flow
        return None


def _complete(flows: list[Flow]) -> list[int]:
    """The conjunctions of which every dimension is met."""
    met: dict[tuple[int, int], set[int]] = {}
    for flow in flows:
        for action in split_actions(flow.actions):
            number, _, clause = arguments(action).partition(",")
            dimension, _, dimensions = clause.partition("/")
            met.setdefault((int(number), int(dimensions)), set()).add(int(dimension))
    return sorted(number for (number, dimensions), have in met.items() if len(have) == dimensions)
