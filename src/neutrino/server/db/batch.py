"""Sends the statements of a write transaction together: usually one round trip from BEGIN to COMMIT.

    tx.insert, tx.change, tx.write        deferred: compiled by SQLAlchemy, kept here
    tx.execute, or a read in the transaction   sends what is deferred along with itself, in one round trip
    commit                                sends what is deferred along with COMMIT, and what is read right after it

So a statement always sees the ones before it, and a transaction that reads nothing is one round trip, whatever it writes.
PostgreSQL gets a pipeline, MariaDB one packet with several statements; both stop at the first statement that fails, so
COMMIT is not reached, and the error is that of the failed statement. SQLite is a library: nothing is deferred.

COMMIT is sent before the number of changed rows is known here, so the server has to check it: `rows` becomes a condition
that fails in SQL, which is reported as `Stale`.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from neutrino.server.db.compiled import Statements, driver_cursor
from neutrino.server.db.read_ahead import Captured, Queued, Rows

_OPTION = "neutrino_batch"  # the connection's execution option that has the batch of its transaction
_PSYCOPG = ("postgresql", "psycopg")
_PACKET_BYTES = 1_000_000  # below MariaDB's max_allowed_packet, 16 MB by default, with room for the last statement
_MAX_TOGETHER = 8
_STALE_MARIADB = 31999  # error number of ours: MariaDB's own end far below
_STALE_POSTGRESQL = "22012"  # division by zero: no other statement of ours divides


class Stale(Exception):
    """What a write depends on has changed since it was read: read and decide again."""


class Statement(NamedTuple):
    """A deferred statement, as the driver takes it."""

    text: str
    parameters: Any
    many: bool  # parameters of several executions
    rows: int | None  # it must change so many rows


_COMMIT = Statement("COMMIT", None, False, None)


class Sender(Protocol):
    """How a driver sends several statements at once."""

    begin: str | None  # the statement that begins a transaction; None: the first statement does
    statements: Statements

    def send(
        self, cursor: Any, before: Sequence[Statement], last: Statement, reads: Sequence[Captured] = ()
    ) -> Sequence[Any]:
        """Execute all; afterwards the cursor has the result of the last one.

        `reads` follow COMMIT. Returns their results, as cursors; nothing if one of them fails.
        """

    def is_stale(self, error: sa.exc.DBAPIError) -> bool:
        """Whether a statement changed another number of rows than it had to."""


class Batch:
    """The deferred statements of one transaction; with a sender of None, each is executed at once.

    `statements`: compiled statements that the driver of such a connection executes directly.
    """

    def __init__(self, connection: Connection, sender: Sender | None, statements: Statements | None = None) -> None:
        self._connection = connection
        self._sender = sender
        self._statements = statements
        begin = None if sender is None else sender.begin
        self._deferred: list[Statement] = [] if begin is None else [Statement(begin, None, False, None)]
        self._is_empty = True  # nothing but BEGIN is deferred
        self._rows: int | None = None
        self._is_deferring = False
        self.results: Sequence[Any] = ()  # of the reads that were sent with COMMIT; empty: they were not, or failed
        if sender is not None:
            connection.execution_options(**{_OPTION: self})

    @property
    def defers(self) -> bool:
        return self._sender is not None

    def add(self, statement: sa.Executable, parameters: Any, rows: int | None = None) -> None:
        """Execute a statement without a result, now or with the next one that has one. Stale if it changes other rows."""
        if self._sender is None:
            if self._execute_now(statement, parameters) != rows and rows is not None:
                raise Stale
            return
        # A statement with parameters is a template that lives long; others are made for one execution.
        if parameters and self._defer_compiled(statement, parameters, rows):
            return
        self._is_deferring, self._rows = True, rows
        try:
            self._connection.execute(statement, parameters)  # arrives in `execute`, as text with its parameters
        finally:
            self._is_deferring = False

    def _execute_now(self, statement: sa.Executable, parameters: Any) -> int:
        """Execute a statement at once; returns the number of changed rows."""
        many = isinstance(parameters, list)
        text = None
        if self._statements is not None and parameters:
            text = self._statements.get(statement, parameters[0] if many else parameters)
        if text is None:
            return self._connection.execute(statement, parameters).rowcount
        cursor = self._connection.connection.cursor()
        try:
            if many:
                cursor.executemany(text.text, [text.parameters(one) for one in parameters])
            else:
                cursor.execute(text.text, text.parameters(parameters))
            return cursor.rowcount
        except sqlite3.Error as error:
            raise sa.exc.DBAPIError.instance(
                text.text, None, error, sqlite3.Error, dialect=self._connection.dialect
            ) from error
        finally:
            cursor.close()

    def _defer_compiled(self, statement: sa.Executable, parameters: Any, rows: int | None) -> bool:
        assert self._sender is not None
        many = isinstance(parameters, list)
        text = self._sender.statements.get(statement, parameters[0] if many else parameters)
        if text is None:
            return False
        values = [text.parameters(one) for one in parameters] if many else text.parameters(parameters)
        self._deferred.append(Statement(text.text, values, many, rows))
        self._is_empty = False
        return True

    def commit(self, reads: Sequence[Captured] = ()) -> None:
        """Send what is deferred with COMMIT and these reads; without anything deferred the connection's commit does."""
        if self._is_empty:
            return
        assert self._sender is not None
        with driver_cursor(self._connection, _COMMIT.text) as cursor:
            before, self._deferred, self._is_empty = self._deferred, [], True
            self.results = self._sender.send(cursor, before, _COMMIT, reads)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises Stale for the error of a statement that changed another number of rows than it had to."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            if self._sender is not None and self._sender.is_stale(error):
                raise Stale from error
            raise

    def execute(self, cursor: Any, text: str, parameters: Any, many: bool) -> bool:
        """Called by SQLAlchemy in place of the driver; False: nothing is deferred, the driver executes as usual."""
        assert self._sender is not None
        statement = Statement(text, parameters, many, self._rows if self._is_deferring else None)
        if self._is_deferring:
            self._deferred.append(statement)
            self._is_empty = False
            return True
        if not self._deferred:
            return False
        before, self._deferred, self._is_empty = self._deferred, [], True
        self._sender.send(cursor, before, statement, ())
        return True


def install(engine: Engine) -> Sender | None:
    """Prepare the engine of write transactions for batches; returns None if its driver cannot send several at once."""
    factory = _SENDERS.get((engine.dialect.name, engine.dialect.driver))
    if factory is None:
        return None
    sender = factory(engine)

    def execute(cursor: Any, text: str, parameters: Any, context: Any) -> bool:
        batch = context.execution_options.get(_OPTION)
        return batch is not None and batch.execute(cursor, text, parameters, False)

    def execute_many(cursor: Any, text: str, parameters: Any, context: Any) -> bool:
        batch = context.execution_options.get(_OPTION)
        return batch is not None and batch.execute(cursor, text, parameters, True)

    sa.event.listen(engine, "do_execute", execute)
    sa.event.listen(engine, "do_executemany", execute_many)
    return sender


def isolation_level(url: sa.URL) -> str:
    """The isolation level of the engine of write transactions.

    psycopg sends the BEGIN of its own in a round trip, so in autocommit the batch sends one. REPEATABLE READ would add
    serialization failures, and conditions on revisions already detect conflicts.
    """
    return "AUTOCOMMIT" if (url.get_backend_name(), url.get_driver_name()) == _PSYCOPG else "READ COMMITTED"


class _PostgresPipeline:
    """psycopg's pipeline mode."""

    begin: str | None = "BEGIN ISOLATION LEVEL READ COMMITTED"

    def __init__(self, engine: Engine) -> None:
        import psycopg

        from neutrino.server.db.psycopg_internals import send_together

        self.statements = Statements(engine.dialect)
        self._error = psycopg.Error
        self._send_together = send_together

    def send(
        self, cursor: Any, before: Sequence[Statement], last: Statement, reads: Sequence[Captured] = ()
    ) -> Sequence[Any]:
        connection = cursor.connection
        found = [connection.cursor() for _ in reads]
        others = connection.cursor()  # for all: their results are not needed
        statements = [queued for one in before for queued in _queued(others, one)]
        statements += _queued(cursor, last)
        statements += [Queued(result, *read) for result, read in zip(found, reads, strict=True)]
        try:
            self._send_together(connection, statements)
        except self._error:
            if reads and cursor.pgresult is not None and cursor.statusmessage == "COMMIT":  # a read failed, after it
                return ()
            raise
        return found

    def is_stale(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) == _STALE_POSTGRESQL


def _queued(cursor: Any, statement: Statement) -> list[Queued]:
    if statement.many:
        rows = statement.parameters
        # A few rows in one statement, as of the change log; each number of rows is a statement that is prepared.
        together = _insert_of(statement.text, len(rows)) if len(rows) <= _MAX_TOGETHER else None
        if together is None:
            return [Queued(cursor, statement.text, row) for row in rows]
        numbered = {f"{name}_{i}": value for i, row in enumerate(rows) for name, value in row.items()}
        return [Queued(cursor, together, numbered)]
    text = statement.text if statement.rows is None else _checked(statement.text, statement.rows)
    return [Queued(cursor, text, statement.parameters)]


@lru_cache(1000)
def _insert_of(text: str, rows: int) -> str | None:
    """An INSERT of psycopg for so many rows, with the row's number in the names of parameters; None: it is another."""
    insert, values, row = text.partition(" VALUES ")
    if not values or not row.endswith(")"):
        return None
    return insert + values + ", ".join(row.replace(")s", f"_{i})s") for i in range(rows))


@lru_cache(1000)
def _checked(text: str, rows: int) -> str:
    """A statement of PostgreSQL that fails unless it changes so many rows."""
    return f"WITH changed AS ({text} RETURNING 1) SELECT 1 / (count(*) = {rows:d})::integer FROM changed"  # noqa: S608


class _MariaPackets:
    """Several statements in one packet (CLIENT_MULTI_STATEMENTS): the server ends at the first that fails.

    Those without a result are one compound statement, which the server answers once and not for each of them.
    """

    begin: str | None = None

    def __init__(self, engine: Engine) -> None:
        self.statements = Statements(engine.dialect)

    def send(
        self, cursor: Any, before: Sequence[Statement], last: Statement, reads: Sequence[Captured] = ()
    ) -> Sequence[Any]:
        texts: list[str] = []
        size = 0
        for one in before:
            several = _with_parameters(cursor, one)
            length = sum(map(len, several))
            if size + length > _PACKET_BYTES and texts:
                _run_packet(cursor, [_block(texts)])
                texts, size = [], 0
            texts += several
            size += length
            if one.rows is not None:
                texts.append(_check(one.rows))
        if last is _COMMIT:
            statements = [_block([*texts, last.text])]
        else:
            statements = [*([_block(texts)] if texts else ()), *_with_parameters(cursor, last)]
        found = _run_packet(cursor, statements, [cursor.mogrify(read.text, read.parameters) for read in reads])
        # See `QuickConnection`. A read that failed has left the transaction of the reads open: the driver's COMMIT ends it.
        cursor.connection.is_committed = last is _COMMIT and len(found) == len(reads)
        return found

    def is_stale(self, error: sa.exc.DBAPIError) -> bool:
        return bool(error.orig is not None and error.orig.args and error.orig.args[0] == _STALE_MARIADB)


def _run_packet(cursor: Any, texts: Sequence[str], reads: Sequence[str] = ()) -> Sequence[Any]:
    """The results of the reads, which follow the others; nothing if one of them fails.

    Autocommit is off, so the reads begin a transaction. It has to end with them: an idle connection in a transaction holds
    metadata locks, for which ALTER TABLE waits, and everything else behind that.
    """
    found: list[Rows] = []
    ended = 0
    try:
        cursor.execute(";".join((*texts, *reads, *([_COMMIT.text] if reads else ()))))
        while True:
            if len(texts) <= ended < len(texts) + len(reads):
                found.append(Rows(cursor.description, cursor.fetchall()))
            ended += 1
            if not cursor.nextset():  # raises the error of the statement that failed
                return found
    except cursor.connection.Error:
        if ended < len(texts):
            raise
        return ()


def _with_parameters(cursor: Any, statement: Statement) -> list[str]:
    """The text with its parameters, as the driver writes them: it has no others to send. Several, if it has no VALUES."""
    if not statement.many:
        return [cursor.mogrify(statement.text, statement.parameters)]
    insert, values, row = statement.text.partition(" VALUES ")
    if not values:
        return [cursor.mogrify(statement.text, one) for one in statement.parameters]
    return [insert + values + ",".join(cursor.mogrify(row, one) for one in statement.parameters)]


@cache
def _check(rows: int) -> str:
    """A statement of a block of MariaDB that fails unless the one before it has changed so many rows."""
    signal = f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {_STALE_MARIADB:d}, MESSAGE_TEXT = 'stale'"
    return f"IF ROW_COUNT() <> {rows:d} THEN {signal}; END IF"


def _block(texts: Sequence[str]) -> str:
    return f"BEGIN NOT ATOMIC {';'.join(texts)}; END"


_SENDERS: dict[tuple[str, str], Callable[[Engine], Sender]] = {
    _PSYCOPG: _PostgresPipeline,
    ("mysql", "pymysql"): _MariaPackets,
    ("mariadb", "pymysql"): _MariaPackets,
}
