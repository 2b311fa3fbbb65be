"""Connections and cursors of the drivers that do less work per result: half of the time of a read is the driver's."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

MAX_DESCRIPTIONS = 2000  # texts with lists of values are many
_NULL, _TWO_BYTES, _THREE_BYTES = 251, 252, 253  # first byte of a value in a row of MariaDB, if it is no length
_HEADER, _EOF = 4, 254  # of packets of MariaDB: bytes of the header (length, number), first byte of an EOF packet


def postgres_cursor() -> type[Any]:
    """psycopg's cursor, which keeps the descriptions of columns. Imported here: not every server uses the driver."""
    import psycopg

    descriptions: dict[Any, Any] = {}  # by the text of the statement, which names all columns

    class Cursor(psycopg.Cursor[Any]):
        @property
        def description(self) -> Any:
            key = self._last_query  # not `_query`, which a prepared statement does not set
            if key is None or self.pgresult is None:
                return super().description
            if key not in descriptions:
                if len(descriptions) >= MAX_DESCRIPTIONS:
                    descriptions.clear()
                descriptions[key] = super().description
            return descriptions[key]

    return Cursor


class Queued(NamedTuple):
    """A statement of PostgreSQL, with the cursor that gets its result."""

    cursor: Any
    text: str
    parameters: Any


def send_together(connection: Any, statements: Sequence[Queued]) -> None:
    """Execute statements of PostgreSQL in one packet, and wait for all results; the error is that of the first that fails.

    The driver's own pipeline sends the last statement, its end and a request for the results one by one, and the database
    server wakes up for each. The steps are the driver's, without that.
    """
    from psycopg import Pipeline

    with connection.lock:
        pipeline = connection._pipeline = Pipeline(connection)
        try:
            connection.wait(_pipeline_steps(pipeline, statements))
        finally:
            connection._pipeline = None


def _pipeline_steps(pipeline: Any, statements: Sequence[Queued]) -> Iterator[Any]:
    from psycopg.generators import send

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


def mariadb_connection() -> type[Any]:
    """PyMySQL's connection, which keeps the descriptions of columns, and reads rows without a call per value.

    It sends no COMMIT if `is_committed` is set: a batch has sent one (`batch.py`), and unlike psycopg the driver does not
    look at the state.
    """
    import pymysql
    from pymysql.connections import Connection, MySQLResult
    from pymysql.protocol import FieldDescriptorPacket

    described: dict[tuple[bytes, str], tuple[Any, Any, Any]] = {}  # by a column's packet and the connection's encoding

    class Result(MySQLResult):  # type: ignore[misc]
        def _get_descriptions(self) -> None:
            connection = self.connection
            if not connection.use_unicode:
                super()._get_descriptions()
                return
            found = []
            for data in _column_packets(connection, self.field_count):
                key = (data, connection.encoding)
                if key not in described:
                    if len(described) >= MAX_DESCRIPTIONS:
                        described.clear()
                    field = FieldDescriptorPacket(data, connection.encoding)
                    described[key] = field.description(), _encoding(field, connection), _converter(field, connection)
                found.append(described[key])
            self.fields: list[Any] = []
            self.converters = [(encoding, converter) for _, encoding, converter in found]
            self.description = tuple([description for description, _, _ in found])

        def _read_row_from_packet(self, packet: Any) -> tuple[Any, ...]:
            data, at = packet._data, packet._position
            row: list[Any] = []
            for encoding, converter in self.converters:
                length = data[at]
                at += 1
                if length == _NULL:
                    row.append(None)
                    continue
                if length > _NULL:
                    size = 2 if length == _TWO_BYTES else 3 if length == _THREE_BYTES else 8
                    length = int.from_bytes(data[at : at + size], "little")
                    at += size
                value = data[at : at + length]
                at += length
                if encoding is not None:
                    value = value.decode(encoding)
                row.append(value if converter is None else converter(value))
            return tuple(row)

    def _column_packets(connection: Any, count: int) -> list[bytes]:
        """The packets that describe the columns of a result; reads the EOF packet after them too.

        One read for a packet and the header of the next one, and no object for each, unlike the driver's `_read_packet`.
        """
        found = []
        header = connection._read_bytes(_HEADER)
        for _ in range(count):
            data = connection._read_bytes(int.from_bytes(header[:3], "little") + _HEADER)
            found.append(data[:-_HEADER])
            header = data[-_HEADER:]
        end = connection._read_bytes(int.from_bytes(header[:3], "little"))
        if header[3] != (connection._next_seq_id + count) % 256 or end[0] != _EOF:
            connection._force_close()
            raise pymysql.err.InternalError("the descriptions of columns do not end with an EOF packet")
        connection._next_seq_id = (header[3] + 1) % 256
        return found

    def _encoding(field: Any, connection: Any) -> str | None:
        """Of the values of a column; None if they are bytes."""
        if field.type_code == pymysql.constants.FIELD_TYPE.JSON:
            return str(connection.encoding)
        if field.type_code in pymysql.connections.TEXT_TYPES:
            return None if field.charsetnr == _BINARY_CHARSET else str(connection.encoding)
        return "ascii"

    def _converter(field: Any, connection: Any) -> Any:
        found = connection.decoders.get(field.type_code)
        return None if found is pymysql.converters.through else found

    class QuickConnection(Connection):  # type: ignore[misc]
        is_committed = False

        def commit(self) -> None:
            if not self.is_committed:
                super().commit()
            self.is_committed = False

        def _read_query_result(self, unbuffered: bool = False) -> Any:
            if unbuffered:
                return super()._read_query_result(unbuffered)
            self._result = None
            result = Result(self)
            result.read()
            self._result = result
            if result.server_status is not None:
                self.server_status = result.server_status
            return result.affected_rows

    return QuickConnection


_BINARY_CHARSET = 63
