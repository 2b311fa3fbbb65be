"""Neutron's database, read only, in one consistent snapshot.

Rows are read in pages by key, and rows of other tables for the keys of a page, so that memory does not grow with the
database: MariaDB allows one streaming cursor per connection, and one connection is one snapshot. Which references exist
is looked up in hashes of all keys of a table, about 65 bytes each.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, CursorResult
from sqlalchemy.engine.interfaces import ReflectedColumn

from neutrino.errors import OperatorError
from neutrino.model.objects import Object
from neutrino.server.db.connection_options import connect_args
from neutrino.server.db.sql import Selection
from neutrino.takeover.packed import Packed, packed

UNREACHABLE: Final = 3  # exit status
PAGE: Final = 1000
KEYS: Final = 10_000  # of a table, read at once
SMALL: Final = 1000  # rows of a table that is kept in memory
Bounds = tuple[object, object]
STANDARD: Final = "standardattributes"
_DRIVERS: Final = {"mysql": "mysql+pymysql", "mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg"}
_SNAPSHOT: Final = {
    "mysql": (
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
    "postgresql": ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",),
    "sqlite": ("BEGIN",),
}


class SourceError(OperatorError):
    """Neutron's database cannot be read."""

    exit_status = UNREACHABLE


class WrongAddress(OperatorError):
    """The address of Neutron's database is none."""

    exit_status = 2


def parse_url(address: str) -> sa.URL:
    """The address as in Neutron's configuration, with the driver of ours."""
    try:
        url = sa.make_url(address.strip())
    except sa.exc.ArgumentError:
        raise WrongAddress(
            "the address of Neutron's database is no URL, as mysql+pymysql://USER@HOST/neutron"
        ) from None
    backend = url.get_backend_name()
    if backend not in _DRIVERS:
        raise WrongAddress(f"Neutron's database: {backend} is not supported, only MariaDB, MySQL and PostgreSQL")
    return url.set(drivername=_DRIVERS[backend])


def shown(url: sa.URL) -> str:
    return url.set(query={}).render_as_string(hide_password=True)


class Source:
    """A snapshot of a database. Tables and columns that a release does not have read as empty, and as None."""

    def __init__(self, connection: Connection, name: str = "") -> None:
        self.connection = connection
        self.name = name  # for reports, without the password
        self._tables: dict[str, sa.Table] = {}
        self._statements: dict[str, Packed] = {}
        self._rows: dict[str, list[Object] | None] = {}  # of small tables; None: the table is large
        self._hashes: dict[tuple[str, str], set[int]] = {}  # of the keys of tables

    @cached_property
    def tables(self) -> frozenset[str]:
        return frozenset(self._columns)

    @cached_property
    def _columns(self) -> dict[str, list[ReflectedColumn]]:
        """The columns of all tables, in few statements."""
        with readable(self.name):
            return {name: found for (_, name), found in sa.inspect(self.connection).get_multi_columns().items()}

    def table(self, name: str) -> sa.Table:
        if name not in self._tables:
            columns = [sa.Column(one["name"], one["type"]) for one in self._columns[name]]
            self._tables[name] = sa.Table(name, sa.MetaData(), *columns)
        return self._tables[name]

    def columns(self, name: str) -> frozenset[str]:
        return frozenset(one["name"] for one in self._columns.get(name, ()))

    def count(self, name: str) -> int:
        if name not in self.tables:
            return 0
        return int(self.execute(sa.select(sa.func.count()).select_from(self.table(name))).scalar_one())

    def rows(self, name: str) -> list[Object]:
        """All rows of a small table."""
        return self._select(name) if name in self.tables else []

    def pages(self, name: str, key: str) -> Iterator[list[Object]]:
        """All rows in pages, in the order of a unique key; with the standard attributes, if the table has them."""
        if name not in self.tables:
            return
        column = self.table(name).c[key]
        last: object = None
        while True:
            condition = [] if last is None else [column > last]
            page = self._select(name, *condition, order=column, limit=PAGE)
            if page:
                yield page
            if len(page) < PAGE:
                return
            last = page[-1][key]

    def between(self, name: str, column: str, bounds: Bounds) -> list[Object]:
        """The rows whose column is within bounds, in the order of the column."""
        own = self.table(name).c[column]
        return self._select(name, own.between(*bounds), order=own)

    def among(self, name: str, column: str, keys: Collection[object]) -> list[Object]:
        """The rows whose column has one of the keys."""
        if column not in self.columns(name):
            return []
        small = self._small(name)
        if small is not None:
            return [row for row in small if row[column] in keys]
        wanted = sorted({key for key in keys if key is not None}, key=str)
        found: list[Object] = []
        for start in range(0, len(wanted), PAGE):
            found += self._select(name, self.table(name).c[column].in_(wanted[start : start + PAGE]))
        return found

    def children(
        self, name: str, column: str, keys: Collection[object], bounds: Bounds | None = None
    ) -> dict[object, list[Object]]:
        """The same by key. With `bounds`, the first and the last key of a page: a range, which is faster than a list.

        Rows of one key are always in the same order: lists that are made of them are compared with those of ours.
        """
        if bounds is None or self._small(name) is not None or column not in self.columns(name):
            rows = self.among(name, column, keys)
        else:
            rows = self.between(name, column, bounds)
        out: dict[object, list[Object]] = defaultdict(list)
        for row in rows:
            out[row[column]].append(row)
        for several in out.values():
            if len(several) > 1:
                several.sort(key=_in_order)
        return out

    def _small(self, name: str) -> list[Object] | None:
        """All rows of a small table, read once: most tables beside those of ports and rules have few rows or none."""
        if name not in self._rows:
            rows = self._select(name, limit=SMALL + 1) if name in self.tables else []
            self._rows[name] = rows if len(rows) <= SMALL else None
        return self._rows[name]

    def existing(self, name: str, column: str, keys: Collection[object]) -> set[object]:
        """Those of the keys that a table has."""
        if (name, column) not in self._hashes:
            self._hashes[name, column] = {hash(key) for page in self._keys(name, column) for key in page}
        hashes = self._hashes[name, column]
        return {key for key in keys if hash(key) in hashes}

    def _keys(self, name: str, column: str) -> Iterator[Sequence[object]]:
        """All keys of a table, in pages; the column is unique."""
        if name not in self.tables:
            return
        own = self.table(name).c[column]
        page = self.execute(sa.select(own).order_by(own).limit(KEYS)).scalars().all()
        while page:
            yield page
            page = self.execute(sa.select(own).where(own > page[-1]).order_by(own).limit(KEYS)).scalars().all()

    def _select(
        self,
        name: str,
        *conditions: sa.ColumnElement[bool],
        order: sa.ColumnElement[object] | None = None,
        limit: int | None = None,
    ) -> list[Object]:
        of_table = self._rows_of(name)
        statement = of_table.statement.where(*conditions)
        if order is not None:
            statement = statement.order_by(order)
        if limit is not None:
            statement = statement.limit(limit)
        return [dict(zip(of_table.names, row, strict=True)) for row in of_table.values(self.execute(statement))]

    def _rows_of(self, name: str) -> Packed:
        """Statement of a table, joined with the standard attributes if it has them."""
        if name not in self._statements:
            table = self.table(name)
            columns: list[sa.ColumnElement[Any]] = list(table.c)
            tables: sa.FromClause = table
            if "standard_attr_id" in table.c and name != STANDARD and STANDARD in self.tables:
                # Outer: a row without standard attributes is dirty, and must not disappear.
                standard = self.table(STANDARD)
                columns += [standard.c[one].label(f"standard_{one}") for one in _STANDARD if one in standard.c]
                tables = table.outerjoin(standard, standard.c.id == table.c.standard_attr_id)
            self._statements[name] = packed(sa.select(*columns).select_from(tables), self.connection.dialect)
        return self._statements[name]

    def execute(self, statement: Selection) -> CursorResult[Any]:
        with readable(self.name):
            return self.connection.execute(statement)


def _in_order(row: Object) -> list[str]:
    return list(map(str, row.values()))


_STANDARD: Final[Sequence[str]] = ("created_at", "updated_at", "description", "revision_number", "resource_type")


@contextmanager
def opened(url: sa.URL) -> Iterator[Source]:
    """A snapshot of the database for the duration of the block; nothing is written to it."""
    # The connection is used by one thread after another.
    arguments = {"check_same_thread": False} if url.get_backend_name() == "sqlite" else connect_args(url)
    engine = sa.create_engine(
        url, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT", hide_parameters=True, connect_args=arguments
    )
    try:
        with readable(shown(url)):
            connection = engine.connect()
        with connection:
            with readable(shown(url)):
                for statement in _SNAPSHOT[url.get_backend_name()]:
                    connection.exec_driver_sql(statement)
            yield Source(connection, shown(url))
    finally:
        engine.dispose()


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Say that it is Neutron's database that fails, and not ours."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        cause = " ".join(str(error.orig).split())
        raise SourceError(f"Neutron's database {name} cannot be read: {cause}") from None
