"""Whether a table is as it would be rendered now, and if not, the least that makes it so. Pure.

The kernel does not give back the text that it was given, so texts are not compared. Instead

* the table carries the digest of what was rendered, elements aside, as the comment of an empty set;
* every rule carries a checksum of its text as its comment: one that was added, removed, moved or replaced by hand shows;
* the hooks of chains and the elements of sets are compared as they are.

What cannot be seen is a rule that somebody replaced and gave our comment, or a changed flag of a set: nobody does that by
accident. A digest or rule that differs means the whole table is put in place anew, which is one transaction and takes some
20 ms; elements that differ are added and removed singly.
"""

from __future__ import annotations

import dataclasses

from neutrino.dataplane.nft.api import RENDERED, ChainState, ElementChange, Table, TableState


@dataclasses.dataclass(frozen=True)
class TablePlan:
    """Either the whole table, with the reason, or some elements, or nothing."""

    table: Table | None = None
    reason: str = ""
    elements: tuple[ElementChange, ...] = ()

    def __bool__(self) -> bool:
        return self.table is not None or bool(self.elements)

    def text(self) -> str:
        if self.table is not None:
            return f"replace table {self.table.path}: {self.reason}"
        return "\n".join(change.text() for change in self.elements)


def plan_table(desired: Table, actual: TableState | None) -> TablePlan:
    reason = _reason(desired, actual)
    if reason or actual is None:
        return TablePlan(desired, reason)
    changes = (
        ElementChange(each.name, each.elements - there, there - each.elements)
        for each in desired.sets
        for there in (actual.elements.get(each.name, frozenset()),)
    )
    return TablePlan(elements=tuple(change for change in changes if change.add or change.remove))


def _reason(desired: Table, actual: TableState | None) -> str:
    if actual is None:
        return "there is none"
    if actual.digest != desired.digest():
        return "another was rendered" if actual.digest else "it is not ours"
    wanted = {each.name: ChainState(each.hook, each.marks()) for each in desired.chains}
    for name in sorted({*wanted, *actual.chains}):
        if wanted.get(name) != actual.chains.get(name):
            return f"chain {name} was changed by hand"
    if set(actual.elements) != {RENDERED, *(each.name for each in desired.sets)}:
        return "sets were changed by hand"
    return ""
