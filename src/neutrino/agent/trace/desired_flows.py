"""The desired flows as a classifier: which flow a packet should match in a table. Differences are drift. Pure.

A trace has the flow that a packet does match. If the flow that it should match is another one, a flow was deleted, added
or changed by hand, and that is the cause of what follows.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, LEARNED_COOKIE, Flow, FlowKey
from neutrino.dataplane.openflow.text import canonical_match, match_fields
from neutrino.dataplane.openflow.trace import Lookup

State = Mapping[str, int]
_CONJUNCTION = re.compile(r"conjunction\((\d+),(\d+)/(\d+)\)")


class DesiredFlows:
    """The desired flows of all bridges. Tables are indexed when they are first asked for."""

    def __init__(self, flows: Mapping[str, Mapping[FlowKey, Flow]]) -> None:
        self._flows = flows
        self._tables: dict[tuple[str, int], list[Flow]] = {}

    def has(self, bridge: str) -> bool:
        return bridge in self._flows

    def best(self, bridge: str, table: int, state: State) -> Flow | None:
        """The flow of the highest priority that the state matches, conjunctive matches included."""
        ordered = self._table(bridge, table)
        place = 0
        while place < len(ordered):
            end = place
            while end < len(ordered) and ordered[end].priority == ordered[place].priority:
                end += 1
            if (found := _decide(ordered[place:end], state)) is not None:
                return found
            place = end
        return None

    def _table(self, bridge: str, table: int) -> list[Flow]:
        key = bridge, table
        if key not in self._tables:
            flows = (flow for flow in self._flows.get(bridge, {}).values() if flow.table == table)
            self._tables[key] = sorted(flows, key=lambda flow: -flow.priority)
        return self._tables[key]

    def difference(self, lookup: Lookup, state: State) -> list[str]:
        """The planned changes that would make the packet match as desired in a table; none if it does."""
        if not self.has(lookup.bridge):
            return []
        if lookup.cookie & COOKIE_MASK == LEARNED_COOKIE:  # what the switch has learned is no part of desired state
            return []
        wanted = self.best(lookup.bridge, lookup.table, state)
        if wanted is None:
            return [] if lookup.missed else [f"{lookup.bridge} - {lookup.text()}"]
        if (lookup.table, lookup.priority, _match(lookup)) == wanted.key:
            return []
        lines = [f"{lookup.bridge} + {wanted.text()}"] if lookup.priority < wanted.priority else []
        if (
            not lookup.missed
            and self._flows[lookup.bridge].get((lookup.table, lookup.priority, _match(lookup))) is None
        ):
            lines.append(f"{lookup.bridge} - {lookup.text()}")
        return lines

    def owner_differences(self, bridge: str, cookie: int, actual: Iterable[Flow]) -> list[str]:
        """Planned changes of one owner's flows."""
        wanted = {key: flow for key, flow in self._flows.get(bridge, {}).items() if flow.cookie == cookie}
        there = {flow.key: flow for flow in actual}
        lines = [f"{bridge} + {flow.text()}" for key, flow in sorted(wanted.items()) if key not in there]
        lines += [f"{bridge} - {flow.text()}" for key, flow in sorted(there.items()) if key not in wanted]
        lines += [
            f"{bridge} ~ {flow.text()}  # was {there[key].actions}"
            for key, flow in sorted(wanted.items())
            if key in there and there[key].actions != flow.actions
        ]
        return lines


def is_ours(cookie: int) -> bool:
    return cookie & COOKIE_MASK in (COOKIE, LEARNED_COOKIE)


def _match(lookup: Lookup) -> str:
    try:
        return canonical_match(lookup.match)
    except (ValueError, KeyError):  # a field that no flow of ours matches
        return lookup.match


def matches(match: str, state: State) -> bool:
    return all(state.get(name, 0) & mask == value for name, (value, mask), _ in match_fields(match))


def _decide(flows: Iterable[Flow], state: State) -> Flow | None:
    """Among flows of one priority. A conjunction is met if a flow of each of its dimensions matches."""
    dimensions: defaultdict[int, set[int]] = defaultdict(set)
    needed: dict[int, int] = {}
    conjunctive: dict[int, Flow] = {}
    for flow in flows:
        if flow.match.startswith("conj_id=") and flow.match[8:].isdigit():
            conjunctive[int(flow.match[8:])] = flow
        elif matches(flow.match, state):
            found = _CONJUNCTION.findall(flow.actions)
            if not found:
                return flow
            for number, dimension, of in found:
                dimensions[int(number)].add(int(dimension))
                needed[int(number)] = int(of)
    met = [number for number, of in needed.items() if len(dimensions[number]) == of and number in conjunctive]
    return conjunctive[min(met)] if met else None
