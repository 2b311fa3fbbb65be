"""Isolation of flows that the switch rejects.

A bundle is applied as a whole or not at all, so one flow that the datapath does not support would keep all ports of the
host without flows. `apply_others` finds the rejected flows and applies everything else; `without` leaves them out of later
plans, so that the same bundle is not rejected each time something changes.

The flows of a port are applied together or stay as they were: some of them drop packets, and a port with only the others
could send what it must not. Of any other owner only the rejected flow is missing.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from neutrino.agent.l2.pipeline import TABLES, Bridge
from neutrino.dataplane.openflow.api import Flow, FlowKey, FlowsRejected

MAX_BUNDLES = 200  # for one change: a switch that accepts nothing more must not keep the host's other bridges waiting
_NETWORK = "network "

Apply = Callable[[Sequence[Flow], Sequence[Flow]], None]
"""Add and delete flows in one bundle, or raise OpenFlowError."""
Rejections = dict[Flow, str]
"""Rejected flows, each with the reason."""


@dataclasses.dataclass(frozen=True)
class _Unit:
    """Flows that are applied together."""

    add: tuple[Flow, ...] = ()
    delete: tuple[Flow, ...] = ()


def apply_others(
    apply: Apply, add: Iterable[Flow], delete: Iterable[Flow], whole: Collection[int], error: FlowsRejected
) -> Rejections:
    """Apply a change without the flows that the switch rejects, which are returned. `error`: its answer to the whole.

    Owners whose cookies are in `whole` get all of their change or nothing. As long as the switch names the rejected flows,
    the others are one bundle; otherwise they are found by bisection.
    """
    return _Search(apply).run(_units(add, delete, whole), error)


def without(
    wanted: Mapping[FlowKey, Flow], actual: Mapping[FlowKey, Flow], rejected: Collection[Flow], whole: Collection[int]
) -> dict[FlowKey, Flow]:
    """The wanted flows of a bridge without rejected ones. An owner in `whole` that has one keeps its actual flows."""
    still = [flow for flow in rejected if wanted.get(flow.key) == flow]
    if not still:
        return dict(wanted)
    kept = {flow.cookie for flow in still} & {*whole}
    left = {key: flow for key, flow in wanted.items() if flow not in rejected and flow.cookie not in kept}
    return left | {key: flow for key, flow in actual.items() if flow.cookie in kept}


def describe(kind: Bridge, bridge: str, rejections: Rejections) -> str:
    """The message for the operator: an owner's first rejected flow with its table's name, and the number of others."""
    flow, reason = min(rejections.items())
    names = {table.number: table.name for table in TABLES if table.bridge is kind}
    more = f", and {len(rejections) - 1} more" if len(rejections) > 1 else ""
    table = names.get(flow.table, f"table {flow.table}")
    return f"the switch rejected a flow of {bridge}, {table}: {reason}: {flow.text()}{more}"


def object_of(owner: str, bridge: str) -> str:
    """The object in a report: a network without its local VLAN; with its bridge's name, what belongs to a bridge."""
    if owner.startswith(_NETWORK):
        return " ".join(owner.split()[:2])
    return owner if " " in owner else f"{bridge} {owner}"


def _units(add: Iterable[Flow], delete: Iterable[Flow], whole: Collection[int]) -> list[_Unit]:
    """Deletions of other owners are last: the flows that replace them are there by then."""
    together: dict[int, tuple[list[Flow], list[Flow]]] = {}
    units: list[_Unit] = []
    last: list[Flow] = []
    for flow in add:
        if flow.cookie in whole:
            together.setdefault(flow.cookie, ([], []))[0].append(flow)
        else:
            units.append(_Unit((flow,)))
    for flow in delete:
        if flow.cookie in together:
            together[flow.cookie][1].append(flow)
        else:
            last.append(flow)
    units += (_Unit(tuple(added), tuple(gone)) for added, gone in together.values())
    return [*units, _Unit(delete=tuple(last))] if last else units


class _Search:
    def __init__(self, apply: Apply) -> None:
        self._apply = apply
        self._bundles = 0

    def run(self, units: Sequence[_Unit], error: FlowsRejected | None) -> Rejections:
        """`error`: the switch's answer to these units; None if they were not sent yet."""
        found: Rejections = {}
        left = [*units]
        while left:
            error = error or self._try(left)
            if error is None:
                break
            named = dict(_named(left, error))
            if self._bundles >= MAX_BUNDLES:
                return found | {flow: named.get(flow, str(error)) for unit in left for flow in unit.add}
            if not named:
                return found | self._halve(left, error)
            found |= named
            left = [unit for unit in left if named.keys().isdisjoint(unit.add)]
            error = None
        return found

    def _halve(self, units: Sequence[_Unit], error: FlowsRejected) -> Rejections:
        if len(units) == 1:
            return dict.fromkeys(units[0].add, str(error))
        middle = len(units) // 2
        return self.run(units[:middle], None) | self.run(units[middle:], None)

    def _try(self, units: Sequence[_Unit]) -> FlowsRejected | None:
        self._bundles += 1
        try:
            self._apply([flow for unit in units for flow in unit.add], [flow for unit in units for flow in unit.delete])
        except FlowsRejected as error:
            return error
        return None


def _named(units: Sequence[_Unit], error: FlowsRejected) -> Iterator[tuple[Flow, str]]:
    for unit in units:
        for flow in unit.add:
            if flow.key in error.reasons:
                yield flow, error.reasons[flow.key]
