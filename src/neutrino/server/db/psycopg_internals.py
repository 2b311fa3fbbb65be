"""What the server does with private parts of psycopg, and nothing else: no other module uses them.

A cursor that keeps the descriptions of columns, and statements that are sent in one packet: half of the time of a read is
the driver's, and this does less work per result. A connection that does not wait for an answer without end.

Private names may change with any release: `PRIVATE` lists those in use, and tests/unit/test_driver_internals.py fails if
the installed psycopg lacks one, or is not the version that they were checked with. Imported when a server uses the driver.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import psycopg
from psycopg.generators import send

from neutrino.server.db.connection_options import READ_SECONDS
from neutrino.server.db.read_ahead import Queued

CHECKED_WITH: Final = "3.3.8"
PRIVATE: Final = {
    "psycopg.Cursor": ("_convert_query", "_last_query", "_maybe_prepare_gen", "_start_query"),
    "psycopg.Connection": ("_pipeline", "_prepared"),
    "psycopg.Pipeline": ("_conn", "_enqueue_sync", "_enter_gen", "_exit", "_fetch_gen", "command_queue"),
    "psycopg._preparing.PrepareManager": ("maintain_gen",),
    "psycopg.errors": ("_WaitTimeout",),
}
MAX_DESCRIPTIONS: Final = 2000  # texts with lists of values are many

_descriptions: dict[Any, Any] = {}  # by the text of the statement, which names all columns


class Cursor(psycopg.Cursor[Any]):
    """A cursor that keeps the descriptions of columns."""

    @property
    def description(self) -> Any:
        key = self._last_query  # not `_query`, which a prepared statement does not set
        if key is None or self.pgresult is None:
            return super().description
        if key not in _descriptions:
            if len(_descriptions) >= MAX_DESCRIPTIONS:
                _descriptions.clear()
            _descriptions[key] = super().description
        return _descriptions[key]


class LimitedConnection(psycopg.Connection[Any]):
    """A connection whose statements fail if the database does not answer within `READ_SECONDS`."""

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout or READ_SECONDS)
        except psycopg.errors._WaitTimeout:
            self.pgconn.finish()  # an answer that comes later must not be taken for that of the next statement
            raise psycopg.OperationalError(f"no answer within {timeout or READ_SECONDS} s") from None


def send_together(connection: Any, statements: Sequence[Queued]) -> None:
    """Execute statements in one packet, and wait for all results; the error is that of the first that fails.

    The driver's own pipeline sends the last statement, its end and a request for the results one by one, and the database
    server wakes up for each. The steps are the driver's, without that.
    """
    with connection.lock:
        pipeline = connection._pipeline = psycopg.Pipeline(connection)
        try:
            connection.wait(_pipeline_steps(pipeline, statements))
        finally:
            connection._pipeline = None


def _pipeline_steps(pipeline: Any, statements: Sequence[Queued]) -> Iterator[Any]:
    converted = []
    for cursor, text, parameters in statements:  # all of them first: one that cannot be converted leaves nothing behind
        yield from cursor._start_query(text)
        cursor._last_query = text
        converted.append((cursor, cursor._convert_query(text, parameters)))
    yield from pipeline._enter_gen()
    try:
        for cursor, query in converted:
            yield from cursor._maybe_prepare_gen(query)
        # With which the driver drops prepared statements that were not used for long.
        yield from pipeline._conn._prepared.maintain_gen(pipeline._conn)
        pipeline._enqueue_sync()
        while pipeline.command_queue:
            pipeline.command_queue.popleft()()  # into libpq's buffer; the last one sends it
        yield from send(pipeline.pgconn)
        yield from pipeline._fetch_gen(flush=False)
    finally:
        pipeline._exit(None)
