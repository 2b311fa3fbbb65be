"""Reads ahead: sends the reads that a request is going to make together, in one round trip.

A request reads what its decision needs with one statement after the other: clear to read, but each is a round trip to the
database server. Where the statements are known beforehand, the request announces them (`Database.read_ahead`): they are
sent at once, and each result is handed out when the code executes that statement with those parameters. An announcement
changes no result, so one that is wrong or missing costs time only.

A result is handed out once, only to the request that announced it, and not after its transaction or a lost race: then
everything is read again. What a request reads after its transaction is announced to that (`Transaction.read_after_commit`)
and sent along with COMMIT. SQLite is a library: nothing is read ahead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, IteratorResult

from neutrino import request_ids
from neutrino.server.db.compiled import Statements, driver_cursor

_OPTION = "neutrino_read_ahead"  # the connection's execution option with its ReadAhead
Key = tuple[Any, ...]  # text and parameters of a statement


class Read(NamedTuple):
    """A statement and its parameters."""

    statement: sa.Executable
    parameters: dict[str, Any]


class Captured(NamedTuple):
    """A statement as the driver takes it."""

    text: str
    parameters: Any

    @property
    def key(self) -> Key:
        values = self.parameters.values() if isinstance(self.parameters, dict) else self.parameters
        return (self.text, *values)


class Queued(NamedTuple):
    """A statement of PostgreSQL, with the cursor that gets its result."""

    cursor: Any
    text: str
    parameters: Any


class Fetch(Protocol):
    def __call__(self, cursor: Any, reads: Sequence[Captured]) -> Sequence[Any]:
        """The results of all, as cursors; sent together."""


class ReadAhead:
    """The results that one connection has read ahead."""

    def __init__(self, fetch: Fetch, statements: Statements) -> None:
        self._fetch = fetch
        self._statements = statements
        self._results: dict[Key, Any] = {}
        self._request = ""
        self._captured: dict[Key, Captured] | None = None  # None: statements are executed

    def read(self, connection: Connection, reads: Sequence[Read]) -> None:
        """Send these together. What an earlier announcement of the request has read stays."""
        if not self._is_for_request():
            return
        captured = self.capture(connection, reads)
        if len(captured) < 2:  # a single one need not be sent ahead
            return
        with driver_cursor(connection, "READ AHEAD") as cursor:
            self._results |= zip(captured, self._fetch(cursor, list(captured.values())), strict=True)

    def capture(self, connection: Connection, reads: Sequence[Read]) -> dict[Key, Captured]:
        """The statements as the driver takes them, without those that have a result already."""
        self._captured = {}
        try:
            for one in reads:
                text = self._statements.get(one.statement, one.parameters)
                if text is not None:
                    self._capture(Captured(text.text, text.parameters(one.parameters)))
                else:
                    connection.execute(one.statement, one.parameters)  # arrives in `execute`
            return self._captured
        finally:
            self._captured = None

    def put(self, captured: Iterable[Key], results: Iterable[Any]) -> None:
        """Keep results that were read elsewhere for this request."""
        if self._is_for_request():
            self._results |= zip(captured, results, strict=True)

    def _is_for_request(self) -> bool:
        """Whether there is a request; results of an earlier one are dropped."""
        request = request_ids.get()
        if request != self._request:
            self._results, self._request = {}, request
        return bool(request)

    def _capture(self, read: Captured) -> None:
        assert self._captured is not None
        if read.key not in self._results:
            self._captured[read.key] = read

    def clear(self) -> None:
        self._results = {}

    def take(self, statement: sa.Executable, parameters: Mapping[str, Any]) -> sa.Result[Any] | None:
        """The result of an announced statement; None if SQLAlchemy has to execute it, which is more work."""
        if not self._results or self._request != request_ids.get():
            return None
        text = self._statements.known(statement, parameters)
        if text is None or text.columns is None:
            return None
        cursor = self._results.pop(Captured(text.text, text.parameters(parameters)).key, None)
        return None if cursor is None else IteratorResult(text.columns, iter(cursor.fetchall()))

    def execute(self, cursor: Any, text: str, parameters: Any, context: Any) -> bool:
        """Called by SQLAlchemy in place of the driver; False: the driver executes as usual."""
        if self._captured is not None:
            self._capture(Captured(text, parameters))
            return True
        if not self._results or self._request != request_ids.get():
            return False
        try:
            result = self._results.pop(Captured(text, parameters).key, None)
        except TypeError:  # a parameter that cannot be a key
            return False
        if result is None:
            return False
        context.cursor = result  # SQLAlchemy fetches from it, as if it had executed the statement
        cursor.close()
        return True


def install(engine: Engine) -> Callable[[Connection], Connection]:
    """Prepare the engine of reads; returns what to call with each of its connections."""
    fetching = _FETCHES.get((engine.dialect.name, engine.dialect.driver))
    if fetching is None:
        return lambda connection: connection
    fetch = fetching()

    def execute(cursor: Any, text: str, parameters: Any, context: Any) -> bool:
        ahead = context.execution_options.get(_OPTION)
        return ahead is not None and ahead.execute(cursor, text, parameters, context)

    sa.event.listen(engine, "do_execute", execute)
    statements: Statements = engine.statements  # type: ignore[attr-defined]
    return lambda connection: connection.execution_options(**{_OPTION: ReadAhead(fetch, statements)})


def of(connection: Connection) -> ReadAhead | None:
    """What the connection has read ahead; None if its driver cannot send several statements at once."""
    found: ReadAhead | None = connection.get_execution_options().get(_OPTION)
    return found


def _from_postgresql() -> Fetch:
    from neutrino.server.db.psycopg_internals import send_together

    def fetch(cursor: Any, reads: Sequence[Captured]) -> Sequence[Any]:
        found = [cursor.connection.cursor() for _ in reads]
        send_together(cursor.connection, [Queued(one, *read) for one, read in zip(found, reads, strict=True)])
        return found

    return fetch


class Rows:
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


def _fetch_from_mariadb(cursor: Any, reads: Sequence[Captured]) -> Sequence[Any]:
    cursor.execute(";".join(cursor.mogrify(read.text, read.parameters) for read in reads))
    found = [Rows(cursor.description, cursor.fetchall())]
    while cursor.nextset():
        found.append(Rows(cursor.description, cursor.fetchall()))
    return found


# Functions, as a server imports only the driver that it uses.
_FETCHES: dict[tuple[str, str], Callable[[], Fetch]] = {
    ("postgresql", "psycopg"): _from_postgresql,
    ("mysql", "pymysql"): lambda: _fetch_from_mariadb,
    ("mariadb", "pymysql"): lambda: _fetch_from_mariadb,
}
