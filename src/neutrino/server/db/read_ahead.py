"""Reads ahead: sends the reads that a request is going to make together, in one round trip.

A request reads what its decision needs with one statement after the other: clear to read, but each is a round trip to the
database server. Where the statements are known beforehand, the request announces them (`Database.read_ahead`): they are
sent at once, and each result is handed out when the code executes that statement with those parameters. An announcement
changes no result, so one that is wrong or missing costs time only.

A result is handed out once, only to the request that announced it, and not after its transaction or a lost race: then
everything is read again. SQLite is a library: nothing is read ahead.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from neutrino import request_ids

_OPTION = "neutrino_read_ahead"  # the connection's execution option with its ReadAhead


class Read(NamedTuple):
    """A statement and its parameters."""

    statement: sa.Executable
    parameters: dict[str, Any]


class _Captured(NamedTuple):
    """A statement as the driver takes it."""

    text: str
    parameters: Any

    @property
    def key(self) -> tuple[Any, ...]:
        values = self.parameters.values() if isinstance(self.parameters, dict) else self.parameters
        return (self.text, *values)


class Fetch(Protocol):
    def __call__(self, cursor: Any, reads: Sequence[_Captured]) -> Sequence[Any]:
        """The results of all, as cursors; sent together."""


class ReadAhead:
    """The results that one connection has read ahead."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch
        self._results: dict[tuple[Any, ...], Any] = {}
        self._request = ""
        self._captured: dict[tuple[Any, ...], _Captured] | None = None  # None: statements are executed
        self._is_last = False

    def read(self, connection: Connection, reads: Sequence[Read]) -> None:
        """Send these together. What an earlier announcement of the request has read stays."""
        request = request_ids.get()
        if not request:
            return
        if request != self._request:
            self._results, self._request = {}, request
        self._captured = {}
        try:
            for i, one in enumerate(reads, 1):
                self._is_last = i == len(reads)
                connection.execute(one.statement, one.parameters)  # arrives in `execute`; the last one sends all
        finally:
            self._captured = None

    def clear(self) -> None:
        self._results = {}

    def execute(self, cursor: Any, text: str, parameters: Any, context: Any) -> bool:
        """Called by SQLAlchemy in place of the driver; False: the driver executes as usual."""
        if self._captured is not None:
            read = _Captured(text, parameters)
            if read.key not in self._results:
                self._captured[read.key] = read
            if self._is_last and self._captured:
                found = self._fetch(cursor, list(self._captured.values()))
                self._results |= zip(self._captured, found, strict=True)
            return True
        if not self._results or self._request != request_ids.get():
            return False
        try:
            result = self._results.pop(_Captured(text, parameters).key, None)
        except TypeError:  # a parameter that cannot be a key
            return False
        if result is None:
            return False
        context.cursor = result  # SQLAlchemy fetches from it, as if it had executed the statement
        cursor.close()
        return True


def install(engine: Engine) -> Callable[[Connection], Connection]:
    """Prepare the engine of reads; returns what to call with each of its connections."""
    fetch = _FETCHES.get((engine.dialect.name, engine.dialect.driver))
    if fetch is None:
        return lambda connection: connection
    if engine.dialect.driver == "pymysql":
        sa.event.listen(engine, "do_connect", _allow_several_statements)

    def execute(cursor: Any, text: str, parameters: Any, context: Any) -> bool:
        ahead = context.execution_options.get(_OPTION)
        return ahead is not None and ahead.execute(cursor, text, parameters, context)

    sa.event.listen(engine, "do_execute", execute)
    return lambda connection: connection.execution_options(**{_OPTION: ReadAhead(fetch)})


def of(connection: Connection) -> ReadAhead | None:
    """What the connection has read ahead; None if its driver cannot send several statements at once."""
    found: ReadAhead | None = connection.get_execution_options().get(_OPTION)
    return found


def _fetch_from_postgresql(cursor: Any, reads: Sequence[_Captured]) -> Sequence[Any]:
    connection = cursor.connection
    found = [connection.cursor() for _ in reads]
    with connection.pipeline():
        for one, read in zip(found, reads, strict=True):
            one.execute(read.text, read.parameters)
    return found


class _Rows:
    """A result of MariaDB after the next one was read, with what SQLAlchemy needs of a cursor."""

    arraysize = 1
    lastrowid = None

    def __init__(self, description: Any, rows: Sequence[Any]) -> None:
        self.description = description
        self.rowcount = len(rows)
        self._rows = list(rows)

    def fetchone(self) -> Any:
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        found, self._rows = self._rows[:size], self._rows[size:]
        return found

    def fetchall(self) -> list[Any]:
        found, self._rows = self._rows, []
        return found

    def close(self) -> None:
        self._rows = []


def _fetch_from_mariadb(cursor: Any, reads: Sequence[_Captured]) -> Sequence[Any]:
    cursor.execute(";".join(cursor.mogrify(read.text, read.parameters) for read in reads))
    found = [_Rows(cursor.description, cursor.fetchall())]
    while cursor.nextset():
        found.append(_Rows(cursor.description, cursor.fetchall()))
    return found


def _allow_several_statements(_dialect: object, _record: object, _arguments: Any, options: dict[str, Any]) -> None:
    from pymysql.constants import CLIENT

    options["client_flag"] = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS


_FETCHES: dict[tuple[str, str], Fetch] = {
    ("postgresql", "psycopg"): _fetch_from_postgresql,
    ("mysql", "pymysql"): _fetch_from_mariadb,
    ("mariadb", "pymysql"): _fetch_from_mariadb,
}
