"""Sends the statements of a write transaction together: usually one round trip from BEGIN to COMMIT.

    tx.insert, tx.change, tx.write        deferred: compiled by SQLAlchemy, kept here
    tx.execute, or a read in the transaction   sends what is deferred along with itself, in one round trip
    commit                                sends what is deferred along with COMMIT, and with reads that come after it

So a statement always sees the ones before it, and a transaction that reads nothing is one round trip, whatever it writes.
PostgreSQL gets a pipeline, MariaDB one packet with several statements; both stop at the first statement that fails, so
COMMIT is not reached, and the error is that of the failed statement. SQLite is a library: nothing is deferred.

COMMIT is sent before the number of changed rows is known here, so the server has to check it: `rows` becomes a condition
that fails in SQL, which is reported as `Stale`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.engine.interfaces import DBAPICursor, ExecutionContext

from neutrino.model.objects import Values
from neutrino.server.db.compiled import Statements, driver_cursor
from neutrino.server.db.sql import DriverParameters, Parameters, Row

_OPTION = "neutrino_batch"  # the connection's execution option that has the batch of its transaction


class Stale(Exception):
    """What a write depends on has changed since it was read: read and decide again."""


class Statement(NamedTuple):
    """A deferred statement, as the driver takes it."""

    text: str
    parameters: Sequence[DriverParameters]  # of each execution
    many: bool  # executed by `executemany`
    rows: int | None  # it must change so many rows


COMMIT = "COMMIT"
SentText = tuple[str, DriverParameters]  # a statement with its parameters
Fetched = list[Sequence[Row]]  # of each of several statements


class Sender(Protocol):
    """How a driver sends several statements at once."""

    begin: str | None  # the statement that begins a transaction; None: the first statement does

    def send(self, cursor: DBAPICursor, before: Sequence[Statement], last: Statement) -> None:
        """Execute all; afterwards the cursor has the result of the last one."""

    def commit(self, cursor: DBAPICursor, before: Sequence[Statement], reads: Sequence[SentText]) -> Fetched | None:
        """Execute all, then COMMIT and these reads; their rows, or None if it is committed and a read has failed."""

    def fetch(self, cursor: DBAPICursor, texts: Sequence[SentText]) -> Fetched:
        """The rows of each statement."""

    def is_stale(self, error: sa.exc.DBAPIError) -> bool:
        """Whether a statement changed another number of rows than it had to."""


class Batch:
    """The deferred statements of one transaction; with a sender of None, each is executed at once."""

    def __init__(self, connection: Connection, sender: Sender | None, statements: Statements) -> None:
        self._connection = connection
        self._sender = sender
        self._statements = statements
        begin = None if sender is None else sender.begin
        self._deferred: list[Statement] = [] if begin is None else [Statement(begin, [None], False, None)]
        self._is_empty = True  # nothing but BEGIN is deferred
        self._rows: int | None = None
        self._reads: list[SentText] = []  # after the commit
        self._fetched: Fetched | None = None
        self._is_deferring = False
        if sender is not None:
            connection.execution_options(**{_OPTION: self})

    @property
    def defers(self) -> bool:
        return self._sender is not None

    def add(self, statement: sa.Executable, parameters: Parameters | None, rows: int | None = None) -> None:
        """Execute a statement without a result, now or with the next one that has one. Stale if it changes other rows."""
        if parameters is None or isinstance(parameters, Mapping):
            many, executions = False, [parameters or {}]
        else:
            many, executions = True, list(parameters)
        text = None
        if parameters:  # a statement with parameters is a template that lives long; others are made for one execution
            text = self._statements.get(statement, executions[0])
        if text is None:
            self._add_uncompiled(statement, parameters, rows)
            return
        values: Sequence[Any] = [text.parameters(one) for one in executions]
        if self._sender is not None:
            self._defer(Statement(text.text, values, many, rows))
            return
        with driver_cursor(self._connection, text.text) as cursor:
            (cursor.executemany if many else cursor.execute)(text.text, values if many else values[0])
            _check_changed(cursor.rowcount, rows)

    def _add_uncompiled(self, statement: sa.Executable, parameters: Parameters | None, rows: int | None) -> None:
        if self._sender is None:
            _check_changed(self._connection.execute(statement, parameters).rowcount, rows)
            return
        self._is_deferring, self._rows = True, rows
        try:
            self._connection.execute(statement, parameters)  # arrives in `execute`, as text with its parameters
        finally:
            self._is_deferring = False

    def _defer(self, statement: Statement) -> None:
        self._deferred.append(statement)
        self._is_empty = False

    def commit(self, reads: Sequence[tuple[sa.Executable, Values]]) -> Fetched | None:
        """Send what is deferred with COMMIT; without anything deferred the connection's commit does.

        Returns the rows of these reads, which see what others have committed as well; None if they were not sent.
        """
        if self._is_empty:
            return None
        texts = [self._statements.get(*read) for read in reads]
        compiled = [text for text in texts if text is not None]
        if len(compiled) == len(reads):
            self._reads = [(text.text, text.parameters(read[1])) for text, read in zip(compiled, reads, strict=True)]
        self._connection.exec_driver_sql(COMMIT)  # arrives in `execute`
        if self._fetched is None or len(self._fetched) < len(reads):
            return None
        return [text.rows(rows) for text, rows in zip(compiled, self._fetched, strict=True)]

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises Stale for the error of a statement that changed another number of rows than it had to."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            if self._sender is not None and self._sender.is_stale(error):
                raise Stale from error
            raise

    def execute(self, cursor: DBAPICursor, text: str, parameters: Sequence[DriverParameters], many: bool) -> bool:
        """Called by SQLAlchemy in place of the driver; False: nothing is deferred, the driver executes as usual."""
        assert self._sender is not None
        if self._is_deferring:
            self._defer(Statement(text, parameters, many, self._rows))
            return True
        if not self._deferred:
            return False
        before, self._deferred, self._is_empty = self._deferred, [], True
        if text == COMMIT:
            self._fetched = self._sender.commit(cursor, before, self._reads)
        else:
            self._sender.send(cursor, before, Statement(text, parameters, many, None))
        return True


def _check_changed(changed: int, rows: int | None) -> None:
    if rows is not None and changed != rows:
        raise Stale


def install(engine: Engine) -> Sender | None:
    """Prepare the engine of write transactions for batches; returns None if its driver cannot send several at once."""
    sender = _sender(engine.dialect.driver)
    if sender is None:
        return None

    def execute(cursor: DBAPICursor, text: str, parameters: DriverParameters, context: ExecutionContext) -> bool:
        batch: Batch | None = context.execution_options.get(_OPTION)
        return batch is not None and batch.execute(cursor, text, [parameters], False)

    def execute_many(
        cursor: DBAPICursor, text: str, parameters: Sequence[DriverParameters], context: ExecutionContext
    ) -> bool:
        batch: Batch | None = context.execution_options.get(_OPTION)
        return batch is not None and batch.execute(cursor, text, parameters, True)

    sa.event.listen(engine, "do_execute", execute)
    sa.event.listen(engine, "do_executemany", execute_many)
    return sender


def _sender(driver: str) -> Sender | None:
    # Imported here, as a server imports only the driver that it uses.
    if driver == "psycopg":
        from neutrino.server.db.postgresql import Pipeline

        return Pipeline()
    if driver == "pymysql":
        from neutrino.server.db.mariadb import Packets

        return Packets()
    return None


def isolation_level(url: sa.URL) -> str:
    """The isolation level of the engine of write transactions.

    psycopg sends the BEGIN of its own in a round trip, so in autocommit the batch sends one. REPEATABLE READ would add
    serialization failures, and conditions on revisions already detect conflicts.
    """
    return "AUTOCOMMIT" if url.get_driver_name() == "psycopg" else "READ COMMITTED"
