"""Checks of composed rows: of values that ours must have, of references, and of unique keys.

Unique keys are compared as hashes. They are kept for the whole import, about 65 bytes each, unless a key has the object
that the row belongs to, all of whose rows are in one page.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.differences import values_of
from neutrino.takeover.family import Chunk, Family, Owned
from neutrino.takeover.source import Source
from neutrino.takeover.writer import unique_names


@dataclass(frozen=True)
class _Rules:
    """What a table of ours demands of its rows."""

    required: tuple[str, ...]
    lengths: tuple[tuple[str, int], ...]
    references: tuple[tuple[sa.Column[object], sa.Table], ...]
    unique: tuple[tuple[str, ...], ...]


@cache
def _rules(table: sa.Table) -> _Rules:
    columns = list(table.columns)
    return _Rules(
        tuple(c.name for c in columns if not c.nullable),
        tuple((c.name, c.type.length) for c in columns if isinstance(c.type, sa.String) and c.type.length),
        tuple((c, key.column.table) for c in columns for key in c.foreign_keys),
        tuple(tuple(names) for names in unique_names(table)),
    )


@dataclass
class RowChecks:
    source: Source
    family_of: Mapping[sa.Table, Family]  # by the table of its objects
    deviations: Deviations
    _left_out: dict[sa.Table, set[object]] = field(default_factory=lambda: defaultdict(set))
    _seen: dict[tuple[sa.Table, tuple[str, ...]], set[int]] = field(default_factory=lambda: defaultdict(set))

    def check(self, family: Family, chunk: Chunk, *, unique: bool) -> None:
        """Remove the rows that cannot be imported; `unique`: compare with the pages before too."""
        for owned in family.tables:
            if chunk.composed.get(owned.table):
                chunk.composed[owned.table] = self._with_values(family, owned, chunk.composed[owned.table])
        for owned in family.tables:
            if chunk.composed.get(owned.table):
                self._check_references(family, owned, chunk)
            if owned is family.tables[0]:
                self._drop_parts(family, chunk)
        if unique:
            for owned in family.tables:
                self._check_unique(family, owned, chunk.composed.get(owned.table, []))

    def _with_values(self, family: Family, owned: Owned, rows: list[Object]) -> list[Object]:
        """Leave out rows without a value that ours must have; refuse values that are too long for ours."""
        rules = _rules(owned.table)
        required = [column for column in rules.required if column in rows[0]]
        values = values_of(required)
        if any(None in some for some in map(values, rows)):
            rows = [row for row in rows if not self._lacks(family, owned, row, required)]
        for column, length in rules.lengths:
            if column not in rows[0]:
                continue
            longest = max(filter(None, map(itemgetter(column), rows)), key=len, default="")
            if len(longest) > length:
                for row in rows:
                    if len(row[column] or "") > length:
                        reason = f"{column} is longer than {length} characters"
                        self.deviations.refuse(family.source, _name(row, owned), reason)
        return rows

    def _lacks(self, family: Family, owned: Owned, row: Object, required: Sequence[str]) -> bool:
        empty = [column for column in required if row[column] is None]
        if not empty:
            return False
        self.deviations.leave_out(family.source, _name(row, owned), f"has no {', '.join(empty)}")
        if owned is family.tables[0] and "id" in row:
            self._left_out[owned.table].add(row["id"])
        return True

    def _check_unique(self, family: Family, owned: Owned, rows: list[Object]) -> None:
        """Refuse rows that ours could not both have."""
        for names in _rules(owned.table).unique:
            if not rows or not all(name in rows[0] for name in names):
                continue
            seen = set() if owned.owner in names and not family.whole else self._seen[owned.table, names]
            of_row = values_of(names)
            for row in rows:
                values = of_row(row)
                if None in values:
                    continue
                if hash(values) in seen:
                    shown = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
                    self.deviations.refuse(family.source, _name(row, owned), f"is not the only one with {shown}")
                seen.add(hash(values))

    def _check_references(self, family: Family, owned: Owned, chunk: Chunk) -> None:
        """Leave out rows that refer to what does not exist; a reference that may be empty is emptied."""
        rows = chunk.composed[owned.table]
        for column, target in _rules(owned.table).references:
            rows = self._with_reference(family, owned, column, target, rows)
        chunk.composed[owned.table] = rows

    def _with_reference(
        self, family: Family, owned: Owned, column: sa.Column[object], target: sa.Table, rows: list[Object]
    ) -> list[Object]:
        of = self.family_of.get(target)
        wanted = {row.get(column.name) for row in rows} - {None}
        if of is None or of.key != "id" or not wanted:
            return rows
        existing = self.source.existing(of.source, of.key, wanted) - self._left_out[target]
        if wanted <= existing:
            return rows
        kept: list[Object] = []
        main = owned is family.tables[0]
        for row in rows:
            value = row.get(column.name)
            if value is None or value in existing:
                kept.append(row)
                continue
            name = str(row.get("id") or row.get(family.tables[0].owner) or "")
            reason = f"{column.name} {value} does not exist in {of.source}"
            if column.nullable:
                self.deviations.repair(family.source, name, f"{reason}: emptied")
                kept.append({**row, column.name: None})
            else:
                kind = family.source if main else owned.table.name
                self.deviations.leave_out(kind, name or str(value), reason)
                if main and "id" in row:
                    self._left_out[owned.table].add(row["id"])
        return kept

    def _drop_parts(self, family: Family, chunk: Chunk) -> None:
        """Of objects that are left out, leave out the rest too."""
        gone = self._left_out[family.tables[0].table]
        for owned in family.tables[1:] if gone else ():
            rows = chunk.composed.get(owned.table, [])
            chunk.composed[owned.table] = [row for row in rows if row.get(owned.owner) not in gone]


def _name(row: Object, owned: Owned) -> str:
    return str(row.get("id") or row.get(owned.owner))
