"""The import: check everything, then delete, then write, family by family.

All families are composed once before anything is written, so that every refusal comes before the first change.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db.session import Database
from neutrino.server.quota.plugin import recount
from neutrino.takeover.deviations import Deviations
from neutrino.takeover.family import Chunk, Family
from neutrino.takeover.source import PAGE, Source
from neutrino.takeover.writer import Counts, Writer, unique_names

CHECK, WRITE = "check", "write"
Progress = Callable[[str, int, int], None]  # step, objects done, objects in all


def no_progress(step: str, done: int, total: int) -> None:
    """Show nothing."""


@dataclass
class Importer:
    source: Source
    families: Sequence[Family]
    deviations: Deviations
    dns_domain: str = ""
    progress: Progress = no_progress
    _left_out: dict[sa.Table, set[object]] = field(default_factory=lambda: defaultdict(set))
    _seen: dict[tuple[sa.Table, tuple[str, ...]], set[int]] = field(default_factory=lambda: defaultdict(set))
    _family_of: dict[sa.Table, Family] = field(init=False)

    def __post_init__(self) -> None:
        # Nothing is known of the objects of a plugin, or of a newer release: ours stay.
        self.families = [family for family in self.families if family.source in self.source.tables]
        self._family_of = {family.tables[0].table: family for family in reversed(self.families)}

    def check(self) -> dict[str, int]:
        """Compose everything, to collect the deviations; the number of objects read by family."""
        found: dict[str, int] = {}
        for family in self.families:
            found[family.name] = sum(len(chunk.rows) for chunk in self.chunks(family, CHECK))
        return found

    def write(self, db: Database, *, dry_run: bool = False) -> dict[str, Counts]:
        """Make our database equal to Neutron's; the rows written by family."""
        writer = Writer(db, dry_run=dry_run)
        for family in reversed(self.families):
            self._delete(db, writer, family)
        for family in self.families:
            counts = writer.counts[family.name]
            for chunk in self.chunks(family, WRITE):
                keys = None if family.whole else {row[family.key] for row in chunk.rows}
                writer.write(family, keys, chunk.composed)
                counts.read += len(chunk.rows)
        if not dry_run:
            recount(db)
        return {family.name: writer.counts[family.name] for family in self.families}

    def to_delete(self, db: Database, family: Family) -> Iterator[list[object]]:
        """Keys of our objects that Neutron does not have, in batches."""
        table, owner = family.tables[0].table, family.tables[0].owner
        if family.whole or [column.name for column in table.primary_key.columns] != [owner]:
            return  # compared as a whole, or with the objects that they belong to
        column = table.c[owner]
        apart = [] if family.ours is None else [~family.ours]
        last: object = None
        while True:
            after: list[sa.ColumnElement[bool]] = [] if last is None else [column > last]
            with db.read() as connection:
                keys = list(
                    connection.execute(sa.select(column).where(*apart, *after).order_by(column).limit(PAGE)).scalars()
                )
            if not keys:
                return
            last = keys[-1]
            missing = set(keys) - self.source.existing(family.source, family.key, keys)
            if missing:
                yield sorted(missing, key=str)

    def _delete(self, db: Database, writer: Writer, family: Family) -> None:
        for keys in self.to_delete(db, family):
            writer.delete(family, keys)

    # --- composing ------------------------------------------------------------------------------------------------

    def chunks(self, family: Family, step: str) -> Iterator[Chunk]:
        """The objects of a family, composed and with references that exist."""
        total = self.source.count(family.source)
        done = 0
        pages = (
            iter([self.source.rows(family.source)]) if family.whole else self.source.pages(family.source, family.key)
        )
        for rows in pages:
            bounds = None if family.whole or not rows else (rows[0][family.key], rows[-1][family.key])
            chunk = Chunk(self.source, family.source, rows, self.deviations, self.dns_domain, family.key, bounds)
            family.compose(chunk)
            self._check_values(family, chunk)
            self._check_references(family, chunk)
            if step == CHECK:
                self._check_unique(family, chunk)
            done += len(rows)
            self.progress(f"{step}: {family.name}", done, total)
            yield chunk

    def _check_values(self, family: Family, chunk: Chunk) -> None:
        """Leave out rows without a value that ours must have; refuse values that are too long for ours."""
        for owned in family.tables:
            required = [c.name for c in owned.table.columns if not c.nullable]
            lengths = {
                c.name: c.type.length for c in owned.table.columns if isinstance(c.type, sa.String) and c.type.length
            }
            kept: list[Object] = []
            for row in chunk.composed.get(owned.table, ()):
                name = str(row.get("id") or row.get(owned.owner))
                empty = [column for column in required if column in row and row[column] is None]
                if empty:
                    self.deviations.leave_out(family.source, name, f"has no {', '.join(empty)}")
                    if owned is family.tables[0] and "id" in row:
                        self._left_out[owned.table].add(row["id"])
                    continue
                for column, length in lengths.items():
                    value = row.get(column)
                    if isinstance(value, str) and length is not None and len(value) > length:
                        reason = f"{column} is longer than {length} characters"
                        self.deviations.refuse(family.source, name, reason)
                kept.append(row)
            if owned.table in chunk.composed:
                chunk.composed[owned.table] = kept

    def _check_unique(self, family: Family, chunk: Chunk) -> None:
        """Refuse rows that ours could not both have. Hashes are kept, not values: they are as many as addresses."""
        for owned in family.tables:
            for names in unique_names(owned.table):
                seen = self._seen[owned.table, tuple(names)]
                for row in chunk.composed.get(owned.table, ()):
                    values = tuple(row.get(name) for name in names)
                    if None in values:
                        continue
                    if hash(values) in seen:
                        shown = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
                        name = str(row.get("id") or row.get(owned.owner))
                        self.deviations.refuse(family.source, name, f"is not the only one with {shown}")
                    seen.add(hash(values))

    def _check_references(self, family: Family, chunk: Chunk) -> None:
        """Leave out rows that refer to what does not exist; a reference that may be empty is emptied."""
        for owned in family.tables:
            rows = chunk.composed.get(owned.table)
            if not rows:
                continue
            for column in owned.table.columns:
                for key in column.foreign_keys:
                    rows = self._with_reference(family, owned.table, column, key.column.table, rows)
            chunk.composed[owned.table] = rows
            if owned is family.tables[0]:
                self._drop_parts(family, chunk)

    def _with_reference(
        self, family: Family, table: sa.Table, column: sa.Column[object], target: sa.Table, rows: list[Object]
    ) -> list[Object]:
        owner = self._family_of.get(target)
        wanted = {row[column.name] for row in rows if row.get(column.name) is not None}
        if owner is None or owner.key != "id" or not wanted:
            return rows
        existing = self.source.existing(owner.source, owner.key, wanted) - self._left_out[target]
        if wanted <= existing:
            return rows
        kept: list[Object] = []
        main = table is family.tables[0].table
        for row in rows:
            value = row.get(column.name)
            if value is None or value in existing:
                kept.append(row)
                continue
            name = str(row.get("id") or row.get(family.tables[0].owner) or "")
            reason = f"{column.name} {value} does not exist in {owner.source}"
            if column.nullable:
                self.deviations.repair(family.source, name, f"{reason}: emptied")
                kept.append({**row, column.name: None})
            else:
                self.deviations.leave_out(family.source if main else table.name, name or str(value), reason)
                if main and "id" in row:
                    self._left_out[table].add(row["id"])
        return kept

    def _drop_parts(self, family: Family, chunk: Chunk) -> None:
        """Of objects that are left out, leave out the rest too."""
        gone = self._left_out[family.tables[0].table]
        if not gone:
            return
        for owned in family.tables[1:]:
            rows = chunk.composed.get(owned.table, [])
            chunk.composed[owned.table] = [row for row in rows if row.get(owned.owner) not in gone]
