"""Differences between composed rows and ours.

Most objects are equal, so `differing` only finds out which are not: rows of a page become sets of tuples. `differences`
says what to write.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.objects import Object
from neutrino.server.db.session import Database
from neutrino.takeover.family import Family, Owned
from neutrino.takeover.packed import packed

BATCH: Final = 500
Key = tuple[object, ...]
Item = TypeVar("Item")
Rows = Mapping[sa.Table, Sequence[Object]]
_is_uuid: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch


@dataclass(frozen=True)
class Objects:
    """Some objects of a family, by their keys."""

    keys: Collection[object] | None = None  # None: all
    is_range: bool = False  # those of a page: between the first and the last key there are few others

    def __contains__(self, key: object) -> bool:
        return self.keys is None or key in self.keys

    @cached_property
    def bounds(self) -> tuple[object, object] | None:
        """The first and the last key, if these are in the same order for every collation: a range is faster than a list."""
        if self.keys and self.is_range and all(isinstance(key, str) and _is_uuid(key) for key in self.keys):
            return min(self.keys, key=str), max(self.keys, key=str)
        return None


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


def is_empty(db: Database, family: Family) -> bool:
    """Whether we have no object of the family, so that all of Neutron's differ."""
    with db.read() as connection:
        return connection.execute(sa.select(sa.literal(1)).select_from(family.tables[0].table).limit(1)).first() is None


def differing(db: Database, family: Family, objects: Objects, composed: Rows) -> set[object]:
    """The objects whose composed rows are not ours."""
    found: set[object] = set()
    with db.read() as connection:
        for owned in family.tables:
            rows = composed.get(owned.table, ())
            names = _names(owned, rows)
            wanted = set(map(values_of(names), rows))
            current = set(map(tuple, _current(connection, owned, objects, names)))
            found |= {row[0] for row in wanted ^ current}
    return found


def differences(db: Database, family: Family, objects: Objects, composed: Rows) -> list[TableDifference]:
    """What a write of the composed rows would change, by table of the family."""
    with db.read() as connection:
        return [_difference(connection, owned, objects, composed.get(owned.table, ())) for owned in family.tables]


def _difference(connection: Connection, owned: Owned, objects: Objects, rows: Sequence[Object]) -> TableDifference:
    table, of_key, names = owned.table, key_names(owned.table), _names(owned, rows)
    wanted = {_key(row, of_key): row for row in rows}
    current = {
        _key(row, of_key): row
        for values in _current(connection, owned, objects, names)
        for row in (dict(zip(names, values, strict=True)),)
    }
    insert = [row for key, row in wanted.items() if key not in current]
    changes = {
        key: changed for key, row in wanted.items() if key in current and (changed := _changed(row, current[key]))
    }
    update = [{**{name: wanted[key][name] for name in of_key}, **changed} for key, changed in changes.items()]
    delete = [key for key in current if key not in wanted]
    owners = {row[owned.owner] for row in insert} | {current[key][owned.owner] for key in (*changes, *delete)}
    return TableDifference(table, insert, update, delete, frozenset(owners))


def _names(owned: Owned, rows: Sequence[Object]) -> list[str]:
    """The columns to compare, that of the object first: those that are composed, and the key."""
    return [*dict.fromkeys((owned.owner, *key_names(owned.table), *(rows[0] if rows else ())))]


def _current(
    connection: Connection, owned: Owned, objects: Objects, names: Sequence[str]
) -> Iterator[Sequence[object]]:
    """Our rows of these objects."""
    of_table = packed(sa.select(*(owned.table.c[name] for name in names)), connection.dialect)
    for condition in _owned_by(owned, objects):
        for values in of_table.values(connection.execute(of_table.statement.where(condition))):
            if values[0] in objects:
                yield values


def _owned_by(owned: Owned, objects: Objects) -> Iterator[sa.ColumnElement[bool]]:
    """Conditions for the rows of these objects, and of few others."""
    column, keys = owned.table.c[owned.owner], objects.keys
    if keys is None:
        yield sa.true()
    elif objects.bounds is not None:
        yield column.between(*objects.bounds)
    else:
        for some in batches(sorted(keys, key=str)):
            yield column.in_(some)


def _changed(wanted: Object, current: Object) -> Object:
    return {name: value for name, value in wanted.items() if current[name] != value}


def key_names(table: sa.Table) -> list[str]:
    return [column.name for column in table.primary_key.columns]


def _key(row: Object, names: Iterable[str]) -> Key:
    return tuple(row[name] for name in names)


def values_of(names: Sequence[str]) -> Callable[[Object], tuple[object, ...]]:
    """A function that gives the values of a row, which has all of these columns."""
    getter = itemgetter(*names)
    return getter if len(names) > 1 else lambda row: (getter(row),)


def batches(items: Sequence[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), BATCH):
        yield list(items[start : start + BATCH])
