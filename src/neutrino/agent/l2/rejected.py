"""Isolation of flows that the switch rejects.

A bundle is applied as a whole or not at all, so one flow that the datapath does not support would keep all ports of the
host without flows. `apply_others` finds the rejected flows and applies everything else; `without` leaves them out of later
plans, so that the same bundle is not rejected each time something changes.

The flows of a port, or of another owner that decides what passes (`L2Extension.deciding_owners`), are applied together or
stay as they were: some of them drop packets, and with only the others something would pass that must not. Of any other
owner only the rejected flow is missing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from neutrino.agent.l2.pipeline import TABLES, Bridge
from neutrino.dataplane.openflow.api import Flow, FlowKey, FlowsRejected

MAX_BUNDLES = 200  # for one change: a switch that accepts nothing more must not keep the host's other bridges waiting

Apply = Callable[..., None]
"""`add` and `delete` flows in one bundle, or raise OpenFlowError."""
Rejections = dict[Flow, str]
"""Rejected flows, each with the reason."""


class _Unit(NamedTuple):
    """Flows that are applied together."""

    add: list[Flow]
    delete: list[Flow]


def apply_others(
    apply: Apply, add: Sequence[Flow], delete: Iterable[Flow], whole: Collection[int], error: FlowsRejected
) -> Rejections:
    """Apply a change without the flows that the switch rejects, which are returned. `error`: its answer to the whole.

    Owners whose cookies are in `whole` get all of their change or nothing. As long as the switch names the rejected flows,
    the others are one bundle; otherwise they are found by bisection.
    """
    found: Rejections = {}
    waiting: list[tuple[list[_Unit], FlowsRejected | None]] = [(_units(add, delete, whole), error)]
    bundles = 0
    while waiting:
        units, answer = waiting.pop()
        if answer is None:  # not sent yet
            bundles += 1
            answer = _send(apply, units)
        if answer is None:
            continue
        flows = [flow for unit in units for flow in unit.add]
        named = {flow: answer.reasons[flow.key] for flow in flows if flow.key in answer.reasons}
        if bundles >= MAX_BUNDLES or (len(units) == 1 and not named):
            found |= {flow: named.get(flow, str(answer)) for flow in flows}
        elif named:
            found |= named
            others = [unit for unit in units if named.keys().isdisjoint(unit.add)]
            waiting += [(others, None)] if others else []
        else:
            middle = len(units) // 2  # the switch named none: search by halves
            waiting += [(units[middle:], None), (units[:middle], None)]
    return found


def without(
    wanted: Mapping[FlowKey, Flow], actual: Mapping[FlowKey, Flow], rejected: Collection[Flow], whole: Collection[int]
) -> dict[FlowKey, Flow]:
    """The wanted flows of a bridge without rejected ones. An owner in `whole` that has one keeps its actual flows."""
    still = [flow for flow in rejected if wanted.get(flow.key) == flow]
    if not still:
        return dict(wanted)
    # The actual flows of such an owner, not the wanted ones that the switch would accept: see above.
    kept = {flow.cookie for flow in still} & {*whole}
    left = {key: flow for key, flow in wanted.items() if flow not in rejected and flow.cookie not in kept}
    return left | {key: flow for key, flow in actual.items() if flow.cookie in kept}


def describe(kind: Bridge, bridge: str, rejections: Rejections, owners: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield for each owner its object, and the message.

    Its first rejected flow with the table's name, and how many more.
    """
    names = {table.number: table.name for table in TABLES if table.bridge is kind}
    for cookie in sorted({flow.cookie for flow in rejections}):
        (flow, reason), *others = sorted(item for item in rejections.items() if item[0].cookie == cookie)
        more = f", and {len(others)} more" if others else ""
        table = names.get(flow.table, f"table {flow.table}")
        text = f"the switch rejected a flow of {bridge}, {table}: {reason}: {flow.text()}{more}"
        yield _object_of(owners.get(cookie, ""), bridge), text


def _object_of(owner: str, bridge: str) -> str:
    """The object in a report: a network without its local VLAN; with its bridge's name, what belongs to a bridge."""
    if owner.startswith("network "):
        return " ".join(owner.split()[:2])
    return owner if " " in owner else f"{bridge} {owner}"


def _units(add: Sequence[Flow], delete: Iterable[Flow], whole: Collection[int]) -> list[_Unit]:
    """Deletions of other owners are last: the flows that replace them are there by then."""
    together = {flow.cookie: _Unit([], []) for flow in add if flow.cookie in whole}
    units = [_Unit([flow], []) for flow in add if flow.cookie not in whole]
    last = _Unit([], [])
    for flow in add:
        if flow.cookie in whole:
            together[flow.cookie].add.append(flow)
    for flow in delete:
        together.get(flow.cookie, last).delete.append(flow)
    return [*units, *together.values(), *([last] if last.delete else [])]


def _send(apply: Apply, units: Sequence[_Unit]) -> FlowsRejected | None:
    try:
        apply(
            add=[flow for unit in units for flow in unit.add], delete=[flow for unit in units for flow in unit.delete]
        )
    except FlowsRejected as error:
        return error
    return None
