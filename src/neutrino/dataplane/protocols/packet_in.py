"""Packet-ins: copies of packets that flows send to one controller id, on a connection to the bridge that is held open.

The messages are those of OpenFlow 1.4 with the extension NXT_PACKET_IN2, which has the cookie and the table of the flow.
On the same connection packets are sent: out of a port, or into the tables as if they came from one.
"""

import asyncio
import contextlib
import dataclasses
import struct
from collections.abc import AsyncIterator, Iterator, Mapping

_VERSION = 5  # of the protocol: OpenFlow 1.4
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY, _EXPERIMENTER, _SET_CONFIG, _PACKET_OUT = 0, 1, 2, 3, 4, 9, 13
_OPENING, _SENDING = 1, 2  # transactions: an error about a packet, whose port may have gone, ends nothing
_HEADER = struct.Struct("!BBHI")  # version, type, length, transaction
_NICIRA = 0x00002320
_SUBTYPE = struct.Struct("!II")  # experimenter, message
_SET_PACKET_IN_FORMAT, _SET_CONTROLLER_ID, _PACKET_IN2 = 16, 20, 30
_FORMAT_PACKET_IN2 = 2
_PROPERTY = struct.Struct("!HH")  # type, length without padding
_PACKET, _TABLE, _COOKIE, _METADATA = 0, 3, 4, 6
_IN_PORT = 0x80000004  # header of the match field: class, field, length
_REGISTERS = {0x00010004 | number << 9: number for number in range(16)}  # numbers by header
_NO_BUFFER, _CONTROLLER_PORT, _SAME_PORT = 0xFFFFFFFF, 0xFFFFFFFD, 0xFFF8
_OUT = struct.Struct("!IIH6x")  # buffer, in_port, length of actions
_OUTPUT = struct.Struct("!HHIH6x")  # type, length, port, bytes for a controller
_RESUBMIT = struct.Struct("!HHIHHB3x")  # type, length, experimenter, subtype, in_port, table
_RESUBMIT_TABLE, _EXPERIMENTAL_ACTION = 14, 0xFFFF
_MAX_UNSENT = 1 << 16  # bytes, of a switch that does not read: what is more is not sent


class RejectedMessage(Exception):
    """An error of the switch about the opening messages."""


@dataclasses.dataclass(frozen=True)
class PacketIn:
    cookie: int
    table: int
    in_port: int
    data: bytes  # the packet, or its beginning
    registers: Mapping[int, int] = dataclasses.field(default_factory=dict)  # those that are not 0, by number


@dataclasses.dataclass(frozen=True)
class PacketOut:
    """A packet to send: out of `port`; or, with a table, into that table as if it came from `port`."""

    port: int
    data: bytes
    table: int | None = None


@dataclasses.dataclass(frozen=True)
class PacketIns:
    run_directory: str  # where ovs-vswitchd has its sockets
    controller_id: int

    @contextlib.asynccontextmanager
    async def connect(self, bridge: str) -> AsyncIterator["Channel"]:
        reader, writer = await asyncio.open_unix_connection(f"{self.run_directory}/{bridge}.mgmt")
        try:
            writer.write(self._opening())
            yield Channel(reader, writer)
        finally:
            writer.close()

    def _opening(self) -> bytes:
        return b"".join(
            (
                _message(_HELLO),
                # A connection that is no configured controller gets copies only with a length of misses.
                _message(_SET_CONFIG, struct.pack("!HH", 0, 0xFFFF)),
                _extension(_SET_PACKET_IN_FORMAT, struct.pack("!I", _FORMAT_PACKET_IN2)),
                _extension(_SET_CONTROLLER_ID, struct.pack("!6xH", self.controller_id)),
            )
        )


@dataclasses.dataclass(frozen=True)
class Channel:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def read(self) -> AsyncIterator[PacketIn]:
        """The copies of one connection. It ends with an error: OSError, IncompleteReadError, or RejectedMessage."""
        async for kind, transaction, body in _messages(self.reader):
            if kind == _ECHO_REQUEST:  # the switch closes a connection that does not answer
                self.writer.write(_message(_ECHO_REPLY, body, transaction))
                await self.writer.drain()
            elif kind == _EXPERIMENTER and (found := parse(body)) is not None:
                yield found

    def send(self, packet: PacketOut) -> None:
        if self.writer.transport.get_write_buffer_size() < _MAX_UNSENT:
            self.writer.write(packet_out(packet))


def packet_out(packet: PacketOut) -> bytes:
    """The message that sends a packet."""
    if packet.table is None:
        in_port, action = _CONTROLLER_PORT, _OUTPUT.pack(0, _OUTPUT.size, packet.port, 0)
    else:
        resubmitted = _EXPERIMENTAL_ACTION, _RESUBMIT.size, _NICIRA, _RESUBMIT_TABLE, _SAME_PORT, packet.table
        in_port, action = packet.port, _RESUBMIT.pack(*resubmitted)
    return _message(_PACKET_OUT, _OUT.pack(_NO_BUFFER, in_port, len(action)) + action + packet.data, _SENDING)


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, int, bytes]]:
    while True:
        _, kind, length, transaction = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        body = await reader.readexactly(max(length - _HEADER.size, 0))
        if kind == _ERROR and transaction == _SENDING:
            continue
        if kind == _ERROR:  # of the opening: without it there is nothing to read
            raise RejectedMessage(f"the switch rejected a message: {body.hex()}")
        yield kind, transaction, body


def _message(kind: int, body: bytes = b"", transaction: int = _OPENING) -> bytes:
    return _HEADER.pack(_VERSION, kind, _HEADER.size + len(body), transaction) + body


def _extension(subtype: int, body: bytes) -> bytes:
    return _message(_EXPERIMENTER, _SUBTYPE.pack(_NICIRA, subtype) + body)


def parse(body: bytes) -> PacketIn | None:
    """The packet-in of a message without its header; None for other messages."""
    if len(body) < _SUBTYPE.size or _SUBTYPE.unpack_from(body) != (_NICIRA, _PACKET_IN2):
        return None
    found = dict(_properties(body[_SUBTYPE.size :]))
    if not {_PACKET, _TABLE, _COOKIE} <= found.keys():
        return None
    fields = dict(_fields(found.get(_METADATA, b"")))
    return PacketIn(
        cookie=int.from_bytes(found[_COOKIE][-8:], "big"),  # after the padding to 8 bytes
        table=found[_TABLE][0],
        in_port=fields.get(_IN_PORT, 0),
        data=found[_PACKET],
        registers={number: fields[key] for key, number in _REGISTERS.items() if key in fields},
    )


def _properties(body: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _PROPERTY.size <= len(body):
        kind, length = _PROPERTY.unpack_from(body, start)
        if length < _PROPERTY.size:
            return
        yield kind, body[start + _PROPERTY.size : start + length]
        start += (length + 7) // 8 * 8


def _fields(metadata: bytes) -> Iterator[tuple[int, int]]:
    """Match fields by their headers."""
    start = 0
    while start + 4 <= len(metadata):
        header = int.from_bytes(metadata[start : start + 4], "big")
        length = header & 0xFF
        yield header, int.from_bytes(metadata[start + 4 : start + 4 + length], "big")
        start += 4 + length
