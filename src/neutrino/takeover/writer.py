"""Writes composed rows: per page of objects, the difference to our rows in one transaction, with the change log.

A killed run leaves whole pages; the next one writes what is still different. Deletions come first, so that unique values
are free; a value that another row of ours still has, and is going to lose, is parked.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.transaction import Transaction
from neutrino.takeover.family import Family, Owned

BATCH: Final = 500
Key = tuple[object, ...]
Item = TypeVar("Item")
Rows = Mapping[sa.Table, Sequence[Object]]


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


@dataclass(frozen=True)
class TableDifference:
    """The difference of one table within a page."""

    table: sa.Table
    insert: Sequence[Object]
    update: Sequence[Object]  # the key, and the columns that differ
    delete: Sequence[Key]
    owners: frozenset[object]  # the objects that these rows belong to

    def __bool__(self) -> bool:
        return bool(self.insert or self.update or self.delete)


@dataclass
class Writer:
    db: Database
    dry_run: bool = False
    counts: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))

    def write(self, family: Family, keys: Collection[object] | None, composed: Rows) -> None:
        """Make our rows of these objects equal to the composed ones; of all objects if `keys` is None."""

        def attempt() -> list[TableDifference]:
            found = differences(self.db, family, keys, composed)
            if not self.dry_run and any(found):
                self._apply(family, found)
            return found

        try:
            found = attempt()
        except (Stale, sa.exc.OperationalError):  # a race with another writer, or the database fails over
            found = self.db.retrying(attempt)
        except sa.exc.IntegrityError:
            self._park(family, keys, composed)
            found = self.db.retrying(attempt)
        main = found[0]
        counts = self.counts[family.name]
        counts.created += len(main.insert)
        counts.deleted += len(main.delete)
        counts.updated += len(_changed_objects(family, found))

    def delete(self, family: Family, keys: Sequence[object]) -> None:
        """Delete objects, and what of ours refers to them; references that may be empty are emptied."""
        table, owner = family.tables[0].table, family.tables[0].owner
        self.counts[family.name].deleted += len(keys)
        if self.dry_run:
            return

        def attempt() -> None:
            with self.db.transaction() as tx:
                for some in _batches(list(keys)):
                    for owned in reversed(family.tables[1:]):
                        tx.execute(sa.delete(owned.table).where(owned.table.c[owned.owner].in_(some)))
                    _delete(tx, table, table.c[owner].in_(some))

        self.db.retrying(attempt)

    # --- one page -------------------------------------------------------------------------------------------------

    def _apply(self, family: Family, found: Sequence[TableDifference]) -> None:
        with self.db.transaction() as tx:
            for one in reversed(found):
                for key in one.delete:
                    condition = sa.and_(*(one.table.c[n] == v for n, v in zip(_key_names(one.table), key, strict=True)))
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

    def _park(self, family: Family, keys: Collection[object] | None, composed: Rows) -> None:
        """Free unique values of the composed rows that rows of other objects have: these are compared later."""
        with self.db.transaction() as tx:
            for owned in reversed(family.tables):
                for names in unique_names(owned.table):
                    for row in composed.get(owned.table, ()):
                        if all(row.get(name) is not None for name in names):
                            self._free(tx, owned, names, row, keys)

    def _free(
        self, tx: Transaction, owned: Owned, names: Sequence[str], row: Object, keys: Collection[object] | None
    ) -> None:
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


def differences(db: Database, family: Family, keys: Collection[object] | None, composed: Rows) -> list[TableDifference]:
    """What a write of the composed rows would change, by table of the family; of all objects if `keys` is None."""
    with db.read() as connection:
        return [_difference(connection, owned, keys, composed) for owned in family.tables]


def _difference(
    connection: Connection, owned: Owned, keys: Collection[object] | None, composed: Rows
) -> TableDifference:
    table, key_names = owned.table, _key_names(owned.table)
    wanted = {_key(row, key_names): row for row in composed.get(table, ())}
    names = dict.fromkeys((*key_names, owned.owner, *_compared(composed.get(table, ()), key_names)))
    statement = sa.select(*(table.c[name] for name in names))
    current: dict[Key, Object] = {}
    for condition in _owned_by(owned, keys):
        for row in connection.execute(statement.where(condition)).mappings():
            current[_key(row, key_names)] = dict(row)
    insert = [row for key, row in wanted.items() if key not in current]
    changes = {
        key: changed for key, row in wanted.items() if key in current and (changed := _changed(row, current[key]))
    }
    update = [{**{name: wanted[key][name] for name in key_names}, **changed} for key, changed in changes.items()]
    delete = [key for key in current if key not in wanted]
    owners = {row[owned.owner] for row in insert} | {current[key][owned.owner] for key in (*changes, *delete)}
    return TableDifference(table, insert, update, delete, frozenset(owners))


_FEED_KINDS: Final = {"agents": "agent"}  # tables without a history whose rows the feed reads


def _insert(tx: Transaction, difference: TableDifference) -> None:
    for rows in _batches(difference.insert):
        tx.execute(sa.insert(difference.table), rows)


def _update(tx: Transaction, table: sa.Table, row: Object) -> None:
    names = _key_names(table)
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


def _owned_by(owned: Owned, keys: Collection[object] | None) -> Iterator[sa.ColumnElement[bool]]:
    if keys is None:
        yield sa.true()
        return
    for some in _batches(sorted(keys, key=str)):
        yield owned.table.c[owned.owner].in_(some)


def _changed(wanted: Object, current: Object) -> Object:
    return {name: value for name, value in wanted.items() if current[name] != value}


def _compared(rows: Sequence[Object], key_names: Sequence[str]) -> list[str]:
    return [name for name in rows[0] if name not in key_names] if rows else []


def _key_names(table: sa.Table) -> list[str]:
    return [column.name for column in table.primary_key.columns]


def unique_names(table: sa.Table) -> list[list[str]]:
    """The columns of each unique key, but for ids."""
    constraints = [c for c in table.constraints if isinstance(c, sa.UniqueConstraint | sa.PrimaryKeyConstraint)]
    names = [[column.name for column in one.columns] for one in constraints]
    single = [[column.name] for column in table.columns if column.unique]
    return [list(one) for one in dict.fromkeys(map(tuple, (*names, *single))) if one != ("id",)]


def _key(row: Mapping[str, object] | sa.RowMapping, names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


def _project(row: Object) -> str | None:
    value = row.get("project_id")
    return None if value is None else str(value)


def _batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), BATCH):
        yield list(items[start : start + BATCH])
