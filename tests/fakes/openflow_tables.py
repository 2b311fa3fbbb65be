"""The flow tables of one fake bridge, and the lookup of packets in them, conjunctions included."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

from neutrino.dataplane.openflow.api import Flow, FlowKey
from neutrino.dataplane.openflow.text import arguments, match_fields, split_actions

Match = dict[str, tuple[int, int]]
"""Field, to value and mask."""


@lru_cache(maxsize=4096)
def parse_match(text: str) -> Match:
    return {field: numbers for field, numbers, _ in match_fields(text)}


def accepts(match: Match, fields: dict[str, int]) -> bool:
    """Whether a packet with these fields is matched; a field that it does not have is zero."""
    return all(fields.get(field, 0) & mask == value for field, (value, mask) in match.items())


class AmbiguousFlows(Exception):
    """Two flows of one priority match a packet and do different things: which one wins is chance."""


class FakeTables:
    def __init__(self) -> None:
        self.flows: dict[FlowKey, Flow] = {}
        self._sorted: dict[int, list[Flow]] = {}

    def change(self, *, add: Iterable[Flow], delete: Iterable[Flow]) -> None:
        gone = [self.flows.pop(flow.key, None) for flow in delete]
        for flow in add:
            gone.append(self.flows.get(flow.key))
            self.flows[flow.key] = flow
        self._forget_learned([flow for flow in gone if flow is not None])
        self._sorted.clear()

    def _forget_learned(self, gone: list[Flow]) -> None:
        """Flows that were learned with `delete_learned` are deleted with the last flow that learned them."""
        lost = {place for flow in gone for place in _learns_into(flow)}
        if lost:
            lost -= {place for flow in self.flows.values() for place in _learns_into(flow)}
            self.flows = {key: flow for key, flow in self.flows.items() if (flow.table, flow.cookie) not in lost}

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


def _learns_into(flow: Flow) -> set[tuple[int, int]]:
    """The tables, with the cookies, of flows that a flow has learned and takes with it."""
    found = set()
    for action in split_actions(flow.actions) if "delete_learned" in flow.actions else ():
        if action.startswith("learn("):
            settings = dict(part.partition("=")[::2] for part in split_actions(arguments(action)))
            if "delete_learned" in settings:
                found.add((int(settings["table"], 0), int(settings["cookie"], 0)))
    return found


def _complete(flows: list[Flow]) -> list[int]:
    """The conjunctions of which every dimension is met."""
    met: dict[tuple[int, int], set[int]] = {}
    for flow in flows:
        for action in split_actions(flow.actions):
            number, _, clause = arguments(action).partition(",")
            dimension, _, dimensions = clause.partition("/")
            met.setdefault((int(number), int(dimensions)), set()).add(int(dimension))
    return sorted(number for (number, dimensions), have in met.items() if len(have) == dimensions)
