"""Reads: one statement, or several that are sent together, in one round trip.

    _LIMIT = Lookup(sa.select(…), scalar)              a statement that lives as long as the process: compiled once
    _LIMIT(project=project_id)                        a Read: the statement with its parameters
    limit = read(connection, _LIMIT(project=…))       its result
    limit, group = read_together(connection, …, …)    the results of several

What a request needs to decide is read at once where its statements are known beforehand: PostgreSQL gets a pipeline,
MariaDB a packet with several statements. SQLite is a library, and executes one after the other.
"""

import time
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Generic, TypeVar, overload

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPICursor

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.db.batch import Sender
from neutrino.server.db.compiled import Statements, Text, driver_cursor
from neutrino.server.db.failover import Outage, discard
from neutrino.server.db.failures import Failure, classify
from neutrino.server.db.sql import DriverParameters, NamedRow, Row, Selection

Select = Selection | sa.CompoundSelect[Any]
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T_co = TypeVar("T_co", covariant=True)
Result = Callable[[Sequence[Row]], T_co]  # makes the result of the rows


@dataclass(frozen=True, slots=True)
class Read(Generic[T_co]):
    """A statement with its parameters, and what its rows become."""

    statement: Select
    parameters: Values
    result: Result[T_co]

    def then(self, change: Callable[[T_co], T]) -> "Read[T]":
        """The same read with another result, made of this one's."""
        return Read(self.statement, self.parameters, lambda rows: change(self.result(rows)))


class Lookup(Generic[T]):
    """A statement that lives as long as the process, and is executed with parameters: it is compiled once."""

    def __init__(self, statement: Select, result: Result[T]) -> None:
        self.statement = statement
        self._result = result

    def __call__(self, **parameters: object) -> Read[T]:
        return Read(self.statement, parameters, self._result)


class RowsLookup(Lookup[list[NamedRow]]):
    """A query whose result is its rows, with the names of the columns."""

    def __init__(self, statement: Select) -> None:
        super().__init__(statement, self.named)

    @cached_property
    def _row(self) -> Any:  # mypy knows no named tuple whose names are computed
        return namedtuple("Row", self.statement.selected_columns.keys(), rename=True)

    def named(self, rows: Sequence[Row]) -> list[NamedRow]:
        return list(map(self._row._make, rows))


def scalar(rows: Sequence[Row]) -> Any:
    """The only value, or that of the first row; None without rows."""
    return rows[0][0] if rows else None


def scalars(rows: Sequence[Row]) -> list[Any]:
    """The values of the first column."""
    return [row[0] for row in rows]


def first(rows: Sequence[Row]) -> Row | None:
    """The first row; None without rows."""
    return rows[0] if rows else None


class ReadConnection(Connection):
    """A connection in autocommit that repeats what it reads if it is lost, until the outage has lasted too long."""

    def __init__(self, engine: Engine, statements: Statements, driver: Sender | None, outage: Outage) -> None:
        super().__init__(engine)
        self._statements = statements
        self._driver = driver
        self._outage = outage

    def execute(self, statement: Any, parameters: Any = None, **options: Any) -> Any:
        return self._repeated(partial(super().execute, statement, parameters, **options))

    def fetch(self, reads: Sequence[Read[object]]) -> list[Sequence[Row]]:
        """The rows of each."""
        return self._repeated(lambda: self._fetch(reads))

    def _fetch(self, reads: Sequence[Read[object]]) -> list[Sequence[Row]]:
        texts = [self._statements.get(read.statement, read.parameters) for read in reads]
        # Listeners hear of every statement, for which SQLAlchemy has to execute it.
        if None in texts or self.engine.dispatch.before_cursor_execute or self.dispatch.before_cursor_execute:
            return [super(ReadConnection, self).execute(read.statement, read.parameters).all() for read in reads]
        compiled: list[Text] = texts  # type: ignore[assignment]
        with driver_cursor(self, "; ".join(text.text for text in compiled)) as cursor:
            sent = [(text.text, text.parameters(read.parameters)) for text, read in zip(compiled, reads, strict=True)]
            if self._driver is None or len(sent) == 1:
                fetched = [_execute(cursor, *one) for one in sent]
            else:
                fetched = self._driver.fetch(cursor, sent)
        return [text.rows(rows) for text, rows in zip(compiled, fetched, strict=True)]

    def _repeated(self, attempt: Callable[[], T]) -> T:
        try:
            return attempt()
        except sa.exc.DBAPIError as error:
            failed = error
        tries, began = 0, time.monotonic()
        # A conflict of a read: Galera's node did not receive within wsrep_sync_wait what others have committed (1205).
        while (failure := classify(failed)) in (Failure.UNAVAILABLE, Failure.CONFLICT):
            self._outage.failed(failed.orig)
            discard(self)
            if not self._outage.wait(tries, began):
                break
            tries += 1
            try:
                result = attempt()
            except sa.exc.DBAPIError as error:
                failed = error
            else:
                self._outage.succeeded()
                return result
        if failure is Failure.CONFLICT:
            raise errors.DatabaseUnreachable() from failed
        raise failed


def _execute(cursor: DBAPICursor, text: str, parameters: DriverParameters) -> Sequence[Row]:
    cursor.execute(text, parameters)
    return cursor.fetchall()


def read(connection: Connection, wanted: Read[T]) -> T:
    """The result of one read."""
    return wanted.result(_rows(connection, [wanted])[0])


@overload
def read_together(connection: Connection, a: Read[T1], b: Read[T2], /) -> tuple[T1, T2]: ...
@overload
def read_together(connection: Connection, a: Read[T1], b: Read[T2], c: Read[T3], /) -> tuple[T1, T2, T3]: ...
@overload
def read_together(
    connection: Connection, a: Read[T1], b: Read[T2], c: Read[T3], d: Read[T4], /
) -> tuple[T1, T2, T3, T4]: ...
@overload
def read_together(
    connection: Connection, a: Read[T1], b: Read[T2], c: Read[T3], d: Read[T4], e: Read[T5], /
) -> tuple[T1, T2, T3, T4, T5]: ...
@overload
def read_together(connection: Connection, *wanted: Read[T]) -> tuple[T, ...]: ...
def read_together(connection: Connection, *wanted: Read[T]) -> tuple[T, ...]:
    """The results of several reads, which are sent together."""
    return tuple(one.result(rows) for one, rows in zip(wanted, _rows(connection, wanted), strict=True))


@overload
def read_lists(
    connection: Connection, a: Sequence[Read[T1]], b: Sequence[Read[T2]], c: Sequence[Read[T3]], /
) -> tuple[list[T1], list[T2], list[T3]]: ...
@overload
def read_lists(
    connection: Connection,
    a: Sequence[Read[T1]],
    b: Sequence[Read[T2]],
    c: Sequence[Read[T3]],
    d: Sequence[Read[T4]],
    /,
) -> tuple[list[T1], list[T2], list[T3], list[T4]]: ...
@overload
def read_lists(connection: Connection, *wanted: Sequence[Read[T]]) -> tuple[list[T], ...]: ...
def read_lists(connection: Connection, *wanted: Sequence[Read[Any]]) -> tuple[list[Any], ...]:
    """The results of several lists of reads, all of which are sent together."""
    results = iter(read_together(connection, *(one for some in wanted for one in some)))
    return tuple([next(results) for _ in some] for some in wanted)


def _rows(connection: Connection, wanted: Sequence[Read[object]]) -> list[Sequence[Row]]:
    if isinstance(connection, ReadConnection):
        return connection.fetch(wanted)
    # In a write transaction, whose deferred statements come first.
    return [connection.execute(one.statement, one.parameters).all() for one in wanted]
