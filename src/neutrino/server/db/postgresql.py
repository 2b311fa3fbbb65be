"""psycopg: several statements in its pipeline mode, and connections that do not wait for an answer without end."""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPICursor

from neutrino.server.db.batch import COMMIT, Fetched, SentText, Statement
from neutrino.server.db.connection_options import READ_SECONDS
from neutrino.server.db.sql import DriverParameters, Row

_STALE: Final = "22012"  # division by zero: no other statement of ours divides
_MAX_TOGETHER: Final = 8


class LimitedConnection(psycopg.Connection[Row]):
    """A connection whose statements fail if the database does not answer within `READ_SECONDS`."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        limit, began = timeout or READ_SECONDS, time.monotonic()
        try:
            return super().wait(gen, interval, limit)
        except psycopg.OperationalError:
            if time.monotonic() - began < limit:
                raise
            self.close()  # an answer that comes later must not be taken for that of the next statement
            raise psycopg.OperationalError(f"no answer within {limit} s") from None


class Pipeline:
    """psycopg's pipeline mode."""

    # psycopg sends the BEGIN of its own in a round trip, so the engine is in autocommit, and the batch sends one.
    begin: str | None = "BEGIN ISOLATION LEVEL READ COMMITTED"

    def send(self, cursor: DBAPICursor, before: Sequence[Statement], last: Statement) -> None:
        others = cursor.connection.cursor()  # for all: their results are not needed
        sent = [(others, *execution) for statement in before for execution in _executions(statement)]
        _run(cursor.connection, [*sent, *((cursor, *execution) for execution in _executions(last))])

    def commit(self, cursor: DBAPICursor, before: Sequence[Statement], reads: Sequence[SentText]) -> Fetched | None:
        connection = cursor.connection
        others, cursors = connection.cursor(), [connection.cursor() for _ in reads]
        sent = [(others, *execution) for statement in before for execution in _executions(statement)]
        try:
            _run(
                connection,
                [*sent, (cursor, COMMIT, None), *((c, *read) for c, read in zip(cursors, reads, strict=True))],
            )
        except psycopg.Error:
            if cursor.statusmessage == COMMIT and not connection.closed:
                return None
            raise
        return [one.fetchall() for one in cursors]

    def fetch(self, cursor: DBAPICursor, texts: Sequence[SentText]) -> Fetched:
        cursors = [cursor.connection.cursor() for _ in texts]
        _run(cursor.connection, [(one, *text) for one, text in zip(cursors, texts, strict=True)])
        return [one.fetchall() for one in cursors]

    def is_stale(self, error: sa.exc.DBAPIError) -> bool:
        return getattr(error.orig, "sqlstate", None) == _STALE


def _run(connection: psycopg.Connection[Row], executions: Sequence[tuple[DBAPICursor, str, DriverParameters]]) -> None:
    """Execute these in a pipeline: cursor, text and parameters of each. The error is that of the first that fails."""
    failure: psycopg.Error | None = None
    try:
        with connection.pipeline():
            try:
                for cursor, text, parameters in executions:
                    cursor.execute(text, parameters)
            except psycopg.Error as error:  # not raised here: the driver would log its consequences, at the end
                failure = error
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure


def _executions(statement: Statement) -> Iterator[tuple[str, DriverParameters]]:
    if not statement.many:
        text = statement.text if statement.rows is None else _checked(statement.text, statement.rows)
        yield text, statement.parameters[0]
        return
    rows: Sequence[Any] = statement.parameters
    # A few rows in one statement, as of the change log; each number of rows is a statement that is prepared.
    together = _insert_of(statement.text, len(rows)) if len(rows) <= _MAX_TOGETHER else None
    if together is None:
        for row in rows:
            yield statement.text, row
    else:
        yield together, {f"{name}_{i}": value for i, row in enumerate(rows) for name, value in row.items()}


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
