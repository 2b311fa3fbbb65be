"""Neutron's database as it is written by an export: rows of objects, their differences, and one transaction for all.

A row of a table with standard attributes is read and written together with them and with its tags, as `inverse` has it.
"""

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.errors import OperatorError
from neutrino.model.objects import Object, Values
from neutrino.server.db.connection_options import connect_args
from neutrino.takeover.inverse import BATCH, BLOCKS, STANDARD_PREFIX, TAGS, Theirs, grouped
from neutrino.takeover.source import STANDARD, UNREACHABLE, shown

STANDARD_ID: Final = "standard_attr_id"
# Parts of standard attributes that are rows of their own: the table and its column.
_PARTS: Final = {TAGS: ("tags", "tag"), BLOCKS: ("provisioningblocks", "entity")}
Key = tuple[object, ...]


class TargetError(OperatorError):
    """Neutron's database cannot be written."""

    exit_status = UNREACHABLE


@dataclass(frozen=True)
class RowDifference:
    """The difference of one table of Neutron's for some objects."""

    theirs: Theirs
    insert: Sequence[Object]
    update: Sequence[tuple[Object, Object]]  # the row as it is, and the values that differ
    delete: Sequence[Object]

    @property
    def owners(self) -> set[object]:
        """The objects that these rows belong to."""
        rows = (*self.insert, *self.delete, *(before for before, _ in self.update))
        return {row[self.theirs.owner] for row in rows}


class Target:
    def __init__(self, connection: Connection, tables: Collection[str]) -> None:
        self.connection = connection
        self._metadata = sa.MetaData()
        existing = set(sa.inspect(connection).get_table_names())
        names = {*tables, STANDARD, *(name for name, _ in _PARTS.values())} & existing
        self._metadata.reflect(connection, only=sorted(names), resolve_fks=False)

    def has(self, name: str) -> bool:
        return name in self._metadata.tables

    def table(self, name: str) -> sa.Table:
        return self._metadata.tables[name]

    # --- reading --------------------------------------------------------------------------------------------------

    def rows(self, theirs: Theirs, keys: Collection[object]) -> list[Object]:
        """Neutron's rows of some objects, with their standard attributes and what belongs to these."""
        table = self.table(theirs.table)
        rows = self.among(table, theirs.owner, keys)
        if STANDARD_ID not in table.c:
            return rows
        ids = {row[STANDARD_ID] for row in rows}
        standard = {one["id"]: one for one in self.among(self.table(STANDARD), "id", ids)}
        parts: dict[str, dict[object, list[Object]]] = {
            name: grouped(self.among(self.table(part), STANDARD_ID, ids), STANDARD_ID)
            for name, (part, _) in _PARTS.items()
        }
        for row in rows:
            own = standard.get(row[STANDARD_ID], {})
            row |= {f"{STANDARD_PREFIX}{name}": value for name, value in own.items()}
            for name, (_, column) in _PARTS.items():
                row[name] = [one[column] for one in parts[name].get(row[STANDARD_ID], ())]
        return rows

    def among(self, table: sa.Table, column: str, keys: Collection[object]) -> list[Object]:
        wanted = sorted({key for key in keys if key is not None}, key=str)
        rows: list[Object] = []
        for start in range(0, len(wanted), BATCH):
            condition = table.c[column].in_(wanted[start : start + BATCH])
            rows += [dict(row) for row in self.connection.execute(sa.select(table).where(condition)).mappings()]
        return rows

    def difference(self, theirs: Theirs, keys: Collection[object], wanted: Sequence[Object]) -> RowDifference:
        """What makes Neutron's rows of these objects equal to the wanted ones."""
        names = self.key_names(theirs)
        current = {_key(row, names): row for row in self.rows(theirs, keys)}
        rows = {_key(row, names): row for row in wanted}
        has_standard = STANDARD_ID in self.table(theirs.table).c
        columns = {column.name for column in self.table(theirs.table).columns}
        insert, update = [], []
        for key, row in rows.items():
            own = {n: v for n, v in row.items() if n in columns or (has_standard and _is_standard(n))}
            if key not in current:
                insert.append(own)
                continue
            before = current[key]
            compared = {name: value for name, value in own.items() if name not in theirs.once}
            if changed := {n: v for n, v in compared.items() if not same(before.get(n), v)}:
                update.append((before, changed))
        if theirs.numbered:
            insert = list(_numbered(theirs, insert, current.values()))
        return RowDifference(theirs, insert, update, [row for key, row in current.items() if key not in rows])

    def key_names(self, theirs: Theirs) -> Sequence[str]:
        return theirs.identity or [column.name for column in self.table(theirs.table).primary_key.columns]

    # --- writing --------------------------------------------------------------------------------------------------

    def insert(self, theirs: Theirs, rows: Sequence[Object]) -> None:
        table = self.table(theirs.table)
        for row in rows:
            values = {name: value for name, value in row.items() if name in table.c}
            if "id" in table.c and "id" not in values:
                values["id"] = str(uuid.uuid4())
            if STANDARD_ID in table.c:
                values[STANDARD_ID] = self._insert_standard(theirs.table, row)
            self.connection.execute(sa.insert(table).values(values))

    def update(self, theirs: Theirs, before: Object, changed: Object) -> None:
        table = self.table(theirs.table)
        values = {name: value for name, value in changed.items() if name in table.c}
        number = before.get(STANDARD_ID)
        of_standard = {name: value for name, value in changed.items() if name not in values}
        if of_standard and before.get(f"{STANDARD_PREFIX}id") is None:  # a row without standard attributes is dirty
            number = values[STANDARD_ID] = self._insert_standard(theirs.table, changed)
        elif of_standard:
            self._update_standard(number, before, of_standard)
        if values:
            self.connection.execute(sa.update(table).where(self._is(theirs, before)).values(values))

    def delete(self, theirs: Theirs, rows: Sequence[Object]) -> None:
        table = self.table(theirs.table)
        for row in rows:
            self.connection.execute(sa.delete(table).where(self._is(theirs, row)))
        numbers = [row[STANDARD_ID] for row in rows if row.get(STANDARD_ID) is not None]
        for start in range(0, len(numbers), BATCH):
            some = numbers[start : start + BATCH]
            for part, _ in _PARTS.values():
                own = self.table(part)
                self.connection.execute(sa.delete(own).where(own.c[STANDARD_ID].in_(some)))
            standard = self.table(STANDARD)
            self.connection.execute(sa.delete(standard).where(standard.c.id.in_(some)))

    def _is(self, theirs: Theirs, row: Object) -> sa.ColumnElement[bool]:
        table = self.table(theirs.table)
        return sa.and_(*(table.c[name] == row[name] for name in self.key_names(theirs)))

    def _insert_standard(self, table: str, row: Values) -> object:
        now = datetime.now(UTC).replace(tzinfo=None, microsecond=0)
        values = {
            "resource_type": table,
            "revision_number": 0,
            "created_at": now,
            "updated_at": now,
            **{name.removeprefix(STANDARD_PREFIX): row[name] for name in row if name.startswith(STANDARD_PREFIX)},
        }
        standard = self.table(STANDARD)
        done = self.connection.execute(sa.insert(standard).values(values))
        key = done.inserted_primary_key
        number = key[0] if key is not None else None
        for name, (part, column) in _PARTS.items():
            for value in row.get(name) or ():
                self.connection.execute(sa.insert(self.table(part)).values({STANDARD_ID: number, column: value}))
        return number

    def _update_standard(self, number: object, before: Object, changed: Object) -> None:
        values = {n.removeprefix(STANDARD_PREFIX): v for n, v in changed.items() if n.startswith(STANDARD_PREFIX)}
        standard = self.table(STANDARD)
        if values:
            self.connection.execute(sa.update(standard).where(standard.c.id == number).values(values))
        for name, (part, column) in _PARTS.items():
            if name in changed:
                table = self.table(part)
                for value in set(before[name]) - set(changed[name]):
                    same_part = sa.and_(table.c[STANDARD_ID] == number, table.c[column] == value)
                    self.connection.execute(sa.delete(table).where(same_part))
                for value in set(changed[name]) - set(before[name]):
                    self.connection.execute(sa.insert(table).values({STANDARD_ID: number, column: value}))


def _is_standard(name: str) -> bool:
    return name.startswith(STANDARD_PREFIX) or name in _PARTS


def same(current: object, wanted: object) -> bool:
    """Whether two values of a column mean the same: Neutron has NULL where a default is meant, and JSON as text."""
    if current == wanted:
        return True
    if isinstance(wanted, list):
        return sorted(map(str, wanted)) == sorted(map(str, current if isinstance(current, list) else ()))
    if current in _EMPTY and wanted in _EMPTY and not _is_number(current, wanted):
        return True
    if isinstance(current, str) and isinstance(wanted, str) and wanted[:1] in ("{", "["):
        try:
            return bool(msgspec.json.decode(current) == msgspec.json.decode(wanted))
        except msgspec.DecodeError:
            return False
    return False


_EMPTY: Final = (None, "", False, "{}", "[]")  # what the import reads alike


def _is_number(*values: object) -> bool:
    """Whether NULL is compared with the number 0: as the type of ICMP, it is not the same."""
    return None in values and any(type(value) is int for value in values)


def _numbered(theirs: Theirs, rows: Sequence[Object], current: Collection[Object]) -> Iterator[Object]:
    """New rows with the lowest numbers that no other row of their object has."""
    taken: Mapping[object, set[int]] = defaultdict(set)
    for row in current:
        taken[row[theirs.owner]].add(row[theirs.numbered])
    for row in rows:
        own = taken[row[theirs.owner]]
        number = next(n for n in range(1, len(own) + 2) if n not in own)
        own.add(number)
        yield {**row, theirs.numbered: number}


def _key(row: Object, names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


@contextmanager
def opened(url: sa.URL, tables: Collection[str], *, dry_run: bool) -> Iterator[Target]:
    """Neutron's database for one transaction: all of it is written, or nothing."""
    arguments = {} if url.get_backend_name() == "sqlite" else connect_args(url)
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool, hide_parameters=True, connect_args=arguments)
    try:
        with engine.connect() as connection, connection.begin() as transaction:
            yield Target(connection, tables)
            if dry_run:
                transaction.rollback()
    except sa.exc.DBAPIError as error:
        cause = " ".join(str(error.orig).split())
        raise TargetError(f"Neutron's database {shown(url)} cannot be written: {cause}; nothing was changed") from None
    finally:
        engine.dispose()
