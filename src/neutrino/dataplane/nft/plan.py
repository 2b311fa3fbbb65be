"""Plans the changes of a table: nothing, some elements, or all of it. Pure.

The kernel does not return the text that it was given, so an agent without memory cannot compare texts. It compares

* the digest of the rendered table without elements, which is the comment of the empty set `rendered`;
* the checksum of each rule, which is its comment: a rule that was added, removed, moved or replaced by hand shows;
* hooks of chains, and elements of sets, as they are.

A rule that was replaced by hand and given our comment, and a changed flag of a set, are not noticed. A difference in
digest or rules replaces the whole table, one transaction of about 20 ms; elements are added and removed one by one.
"""

from collections.abc import Iterable, Mapping

from neutrino.dataplane.nft.api import RENDERED, ChainState, ElementChange, Table, TablePlan, TableState


def plan_tables(desired: Iterable[Table], actual: Mapping[str, TableState]) -> tuple[TablePlan, ...]:
    """The plans that are not empty; a table of ours that is not desired is deleted."""
    wanted = {each.path: each for each in desired}
    plans = [plan_table(each, actual.get(each.path)) for each in wanted.values()]
    plans += [TablePlan(path, delete=True) for path in sorted(actual.keys() - wanted)]
    return tuple(filter(None, plans))


def plan_table(desired: Table, actual: TableState | None) -> TablePlan:
    reason = _reason(desired, actual)
    if reason or actual is None:
        return TablePlan(desired.path, desired, reason)
    there = {each.name: actual.elements.get(each.name, frozenset()) for each in desired.sets}
    changes = (
        ElementChange(each.name, add=each.elements - there[each.name], remove=there[each.name] - each.elements)
        for each in desired.sets
    )
    return TablePlan(desired.path, elements=tuple(filter(None, changes)))


def _reason(desired: Table, actual: TableState | None) -> str:
    if actual is None:
        return "it does not exist"
    if actual.digest != desired.digest():
        return "its rendering changed" if actual.digest else "it was not rendered by this agent"
    # The same digest, but not the same table: somebody changed it since it was rendered.
    wanted = {each.name: ChainState(each.hook, each.marks()) for each in desired.chains}
    for name in sorted({*wanted, *actual.chains}):
        if wanted.get(name) != actual.chains.get(name):
            return f"chain {name} was changed by hand"
    if set(actual.elements) != {RENDERED, *(each.name for each in desired.sets)}:
        return "sets were changed by hand"
    return ""
