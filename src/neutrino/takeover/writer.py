"""Writes composed rows: per page of objects, the difference to our rows in one transaction, with the change log.

A killed run leaves whole pages; the next one writes what is still different. Deletions come first, so that unique values
are free; a value that another row of ours still has, and is going to lose, is parked.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import sqlalchemy as sa

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.transaction import Transaction
from neutrino.takeover.differences import Objects, Rows, TableDifference, batches, differences, key_names
from neutrino.takeover.family import Family, Owned


@dataclass
class Counts:
    """Rows of objects that were written, or in a dry run would be."""

    read: int = 0
    created: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def written(self) -> int:
        return self.created + self.updated + self.deleted


Apply = Callable[[Family, Sequence[TableDifference]], None]


@dataclass
class Writer:
    db: Database
    dry_run: bool = False
    counts: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))

    def write(self, family: Family, objects: Objects, composed: Rows, *, counted: bool = True) -> None:
        """Make our rows of these objects equal to the composed ones."""
        found = self._applied(family, objects, composed, self._apply)
        if counted:
            self._count(family, found)

    def insert_objects(self, family: Family, objects: Objects, composed: Rows) -> None:
        """Insert new objects without their parts, which may refer to objects of later pages; count all that differs."""

        def apply(family: Family, found: Sequence[TableDifference]) -> None:
            self._apply(family, [replace(found[0], update=(), delete=(), owners=frozenset())])

        self._count(family, self._applied(family, objects, composed, apply))

    def _applied(self, family: Family, objects: Objects, composed: Rows, apply: Apply) -> list[TableDifference]:
        def attempt() -> list[TableDifference]:
            found = differences(self.db, family, objects, composed)
            if not self.dry_run and any(found):
                apply(family, found)
            return found

        try:
            return attempt()
        except (Stale, sa.exc.OperationalError):  # a race with another writer, or the database fails over
            return self.db.retrying(attempt)
        except sa.exc.IntegrityError:
            self._park(family, composed)
            return self.db.retrying(attempt)

    def _count(self, family: Family, found: Sequence[TableDifference]) -> None:
        counts = self.counts[family.name]
        counts.created += len(found[0].insert)
        counts.deleted += len(found[0].delete)
        counts.updated += len(_changed_objects(family, found))

    def delete(self, family: Family, keys: Sequence[object]) -> None:
        """Delete objects, and what of ours refers to them; references that may be empty are emptied."""
        table, owner = family.tables[0].table, family.tables[0].owner
        self.counts[family.name].deleted += len(keys)
        if self.dry_run:
            return

        def attempt() -> None:
            with self.db.transaction() as tx:
                for some in batches(list(keys)):
                    for owned in reversed(family.tables[1:]):
                        tx.execute(sa.delete(owned.table).where(owned.table.c[owned.owner].in_(some)))
                    _delete(tx, table, table.c[owner].in_(some))

        self.db.retrying(attempt)

    # --- one page -------------------------------------------------------------------------------------------------

    def _apply(self, family: Family, found: Sequence[TableDifference]) -> None:
        with self.db.transaction() as tx:
            for one in reversed(found):
                for key in one.delete:
                    condition = sa.and_(*(one.table.c[n] == v for n, v in zip(key_names(one.table), key, strict=True)))
                    _delete(tx, one.table, condition)
            for one in found:
                _insert(tx, one)
                for row in one.update:
                    _update(tx, one.table, row)
            self._log(tx, family, found)

    def _log(self, tx: Transaction, family: Family, found: Sequence[TableDifference]) -> None:
        """Change-log rows of the objects that differ, by which the feed and the history learn of them."""
        for one in found:
            history = t.history_of(one.table)
            if history is None:
                continue
            for row in one.insert:
                tx.record(history.kind, str(row["id"]), _project(row), created=True, feed=history.feed)
        table = family.tables[0].table
        history = t.history_of(table)
        kind = history.kind if history is not None else _FEED_KINDS.get(table.name)
        if kind is None:
            return
        feed = history.feed if history is not None else True
        created = {str(row[family.tables[0].owner]) for row in found[0].insert}
        for key in sorted(_changed_objects(family, found) - created, key=str):
            tx.record(kind, str(key), None, feed=feed)

    # --- values that another row of ours still has ----------------------------------------------------------------

    def _park(self, family: Family, composed: Rows) -> None:
        """Free unique values of the composed rows that rows of other objects have: these are compared later."""
        with self.db.transaction() as tx:
            for owned in reversed(family.tables):
                for names in unique_names(owned.table):
                    for row in composed.get(owned.table, ()):
                        if all(row.get(name) is not None for name in names):
                            self._free(tx, owned, names, row)

    def _free(self, tx: Transaction, owned: Owned, names: Sequence[str], row: Object) -> None:
        table, own = owned.table, row[owned.owner]
        same = sa.and_(*(table.c[name] == row[name] for name in names), table.c[owned.owner] != own)
        if tx.execute(sa.select(sa.literal(1)).where(same).limit(1)).first() is None:
            return
        if "id" not in table.c:  # a narrow table: its row is written again with the object that it belongs to
            tx.execute(sa.delete(table).where(same))
            return
        column = next((table.c[n] for n in names if table.c[n].nullable), None)
        if column is not None:
            tx.execute(sa.update(table).where(same).values({column.name: None}))
            return
        text = next(table.c[n] for n in names if isinstance(table.c[n].type, sa.String) and not table.c[n].foreign_keys)
        parked = sa.literal("~") + sa.func.substr(table.c.id, 1, 30)
        tx.execute(sa.update(table).where(same).values({text.name: parked}))


_FEED_KINDS: Final = {"agents": "agent"}  # tables without a history whose rows the feed reads


def _insert(tx: Transaction, difference: TableDifference) -> None:
    for rows in batches(difference.insert):
        tx.execute(sa.insert(difference.table), rows)


def _update(tx: Transaction, table: sa.Table, row: Object) -> None:
    names = key_names(table)
    values = {name: value for name, value in row.items() if name not in names}
    tx.execute(sa.update(table).where(*(table.c[name] == row[name] for name in names)).values(values))


def _delete(tx: Transaction, table: sa.Table, condition: sa.ColumnElement[bool]) -> None:
    """Delete rows with what refers to them, log it; a reference that may be empty is emptied."""
    history = t.history_of(table)
    if "id" in table.c:
        columns = [table.c[name] for name in ("id", "project_id") if name in table.c]
        rows = [dict(row) for row in tx.execute(sa.select(*columns).where(condition)).mappings()]
        ids = [row["id"] for row in rows]
        if not ids:
            return
        for column in referring(table):
            refers = column.in_(ids)
            if column.nullable:
                tx.execute(sa.update(column.table).where(refers).values({column.name: None}))
            elif column.table is not table:
                _delete(tx, column.table, refers)
        tx.execute(sa.delete(t.tags).where(t.tags.c.object_id.in_(ids)))
        if history is not None:
            for row in rows:
                tx.record(history.kind, str(row["id"]), _project(row), deleted=True, feed=history.feed)
        elif table.name in _FEED_KINDS:
            for row in rows:
                tx.record(_FEED_KINDS[table.name], str(row["id"]), deleted=True)
    tx.execute(sa.delete(table).where(condition))


def referring(table: sa.Table) -> Iterator[sa.Column[object]]:
    """Columns with a foreign key to the table."""
    for other in t.metadata.sorted_tables:
        for column in other.columns:
            if any(key.column.table is table for key in column.foreign_keys):
                yield column


def _changed_objects(family: Family, found: Sequence[TableDifference]) -> set[object]:
    """The keys of objects of which some row differs, but not those that are new or deleted."""
    main = found[0]
    gone = {key[0] for key in main.delete} | {row[family.tables[0].owner] for row in main.insert}
    return {owner for one in found for owner in one.owners} - gone


def unique_names(table: sa.Table) -> list[list[str]]:
    """The columns of each unique key, but for ids."""
    constraints = [c for c in table.constraints if isinstance(c, sa.UniqueConstraint | sa.PrimaryKeyConstraint)]
    names = [[column.name for column in one.columns] for one in constraints]
    single = [[column.name] for column in table.columns if column.unique]
    return [list(one) for one in dict.fromkeys(map(tuple, (*names, *single))) if one != ("id",)]


def _project(row: Object) -> str | None:
    value = row.get("project_id")
    return None if value is None else str(value)
