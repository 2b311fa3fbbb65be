"""What the server does with private parts of PyMySQL, and nothing else: no other module uses them.

A connection that keeps the metadata of result sets, and reads rows without a call per value. Half of the time of a read is
the driver's; this does less work per result.

Private names may change with any release: `PRIVATE` lists those in use, and tests/unit/test_driver_internals.py fails if
the installed PyMySQL lacks one, or is not the version that they were checked with. Imported when a server uses the driver.
"""

from dataclasses import dataclass
from typing import Any, Final

import pymysql
from pymysql.connections import TEXT_TYPES, Connection, MySQLResult
from pymysql.constants import FIELD_TYPE
from pymysql.protocol import FieldDescriptorPacket

CHECKED_WITH: Final = "1.2.4"
PRIVATE: Final = {
    "pymysql.connections.Connection": (
        *("_force_close", "_next_seq_id", "_read_bytes", "_read_query_result", "_result", "_rfile"),
        *("decoders", "encoding", "use_unicode"),
    ),
    "pymysql.connections.MySQLResult": (
        *("_get_descriptions", "_read_row_from_packet", "converters", "description", "field_count", "fields"),
    ),
    "pymysql.protocol.MysqlPacket": ("_data", "_position"),
    "pymysql.protocol.FieldDescriptorPacket": ("charsetnr", "description", "type_code"),
}
MAX_DESCRIPTIONS: Final = 2000  # texts with lists of values are many
MAX_METADATA: Final = 400  # of two or three kilobytes
# MariaDB's protocol.
_NULL, _TWO_BYTES, _THREE_BYTES = 251, 252, 253  # first byte of a value in a row, if it is no length
_HEADER, _EOF = 4, 254  # of packets: bytes of the header (length, number), first byte of an EOF packet
_BINARY_CHARSET = 63

_Column = tuple[Any, str | None, Any]  # description, encoding of values, converter
_described: dict[tuple[bytes, str], _Column] = {}  # by a column's packet and the connection's encoding


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The result set metadata that precedes the rows, as it is sent and as the driver needs it."""

    packets: bytes  # the column definitions, and the EOF packet up to its status flags
    length: int  # of all of it, with the status flags
    converters: tuple[tuple[str | None, Any], ...]
    description: tuple[Any, ...]


# By the number of columns, sequence id and beginning of the first packet, and encoding. Statements can share a key, so the
# packets are compared as a whole.
_metadata: dict[tuple[int, int, bytes, str], _Metadata] = {}


class QuickConnection(Connection):  # type: ignore[misc]
    """A connection whose results are read by `QuickResult`.

    It sends no COMMIT if `is_committed` is set: a batch has sent one (`batch.py`), and unlike psycopg the driver does not
    look at the state.
    """

    is_committed = False

    def commit(self) -> None:
        if not self.is_committed:
            super().commit()
        self.is_committed = False

    def rollback(self) -> None:
        self.is_committed = False  # else the next transaction would not be committed
        super().rollback()

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered)
        self._result = None
        result = QuickResult(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows


class QuickResult(MySQLResult):  # type: ignore[misc]
    def _get_descriptions(self) -> None:
        connection = self.connection
        if not connection.use_unicode:
            super()._get_descriptions()
            return
        count, number, encoding = self.field_count, connection._next_seq_id, connection.encoding
        buffered = _peek(connection)
        first = buffered[: _HEADER + buffered[0]] if buffered else b""  # begins with the low byte of its length
        key = count, number, first, encoding
        metadata = _metadata.get(key)
        if metadata is not None and buffered.startswith(metadata.packets):  # the same statement again: nearly always
            connection._read_bytes(metadata.length)
            connection._next_seq_id = (number + count + 1) % 256
        else:
            metadata = _read_metadata(connection, count)
            if len(_metadata) >= MAX_METADATA:
                _metadata.clear()
            _metadata[key] = metadata
        self.fields: list[Any] = []
        self.converters, self.description = metadata.converters, metadata.description

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


def _peek(connection: Any) -> bytes:
    """What has arrived and is not read yet."""
    try:
        return bytes(connection._rfile.peek())
    except OSError:
        return b""  # the driver's next read reports it


def _read_metadata(connection: Any, count: int) -> _Metadata:
    """The packets with the column definitions, and the EOF packet after them.

    One read for a packet and the header of the next one, and no object for each, unlike the driver's `_read_packet`.
    """
    encoding, known, found = connection.encoding, _described.get, list[_Column]()
    header = connection._read_bytes(_HEADER)
    packets = [header]
    for _ in range(count):
        data = connection._read_bytes(int.from_bytes(header[:3], "little") + _HEADER)
        packets.append(data)
        column = data[:-_HEADER]
        found.append(known((column, encoding)) or _describe(column, connection))
        header = data[-_HEADER:]
    end = connection._read_bytes(int.from_bytes(header[:3], "little"))
    if header[3] != (connection._next_seq_id + count) % 256 or end[0] != _EOF:
        connection._force_close()
        raise pymysql.err.InternalError("the column definitions do not end with an EOF packet")
    connection._next_seq_id = (header[3] + 1) % 256
    return _Metadata(
        packets=b"".join((*packets, end[:1])),
        length=sum(map(len, packets)) + len(end),
        converters=tuple((encoding, converter) for _, encoding, converter in found),
        description=tuple(description for description, _, _ in found),
    )


def _describe(data: bytes, connection: Any) -> _Column:
    """A column definition that is seen for the first time."""
    if len(_described) >= MAX_DESCRIPTIONS:
        _described.clear()
    field = FieldDescriptorPacket(data, connection.encoding)
    found = field.description(), _encoding(field, connection), _converter(field, connection)
    _described[data, connection.encoding] = found
    return found


def _encoding(field: Any, connection: Any) -> str | None:
    """Of the values of a column; None if they are bytes."""
    if field.type_code == FIELD_TYPE.JSON:
        return str(connection.encoding)
    if field.type_code in TEXT_TYPES:
        return None if field.charsetnr == _BINARY_CHARSET else str(connection.encoding)
    return "ascii"


def _converter(field: Any, connection: Any) -> Any:
    found = connection.decoders.get(field.type_code)
    return None if found is pymysql.converters.through else found
