"""Packet-ins: copies of packets that flows send to one controller id, on a connection to the bridge that is held open.

The messages are those of OpenFlow 1.4 with the extension NXT_PACKET_IN2, which has the cookie and the table of the flow.
"""

import asyncio
import dataclasses
import struct
from collections.abc import AsyncIterator, Iterator

_VERSION = 5  # of the protocol: OpenFlow 1.4
_HELLO, _ERROR, _ECHO_REQUEST, _ECHO_REPLY, _EXPERIMENTER, _SET_CONFIG = 0, 1, 2, 3, 4, 9
_HEADER = struct.Struct("!BBHI")  # version, type, length, transaction
_NICIRA = 0x00002320
_SUBTYPE = struct.Struct("!II")  # experimenter, message
_SET_PACKET_IN_FORMAT, _SET_CONTROLLER_ID, _PACKET_IN2 = 16, 20, 30
_FORMAT_PACKET_IN2 = 2
_PROPERTY = struct.Struct("!HH")  # type, length without padding
_PACKET, _TABLE, _COOKIE, _METADATA = 0, 3, 4, 6
_IN_PORT = 0x80000004  # header of the match field: class, field, length


class RejectedMessage(Exception):
    """An error of the switch about the opening messages."""


@dataclasses.dataclass(frozen=True)
class PacketIn:
    cookie: int
    table: int
    in_port: int
    data: bytes  # the packet, or its beginning


@dataclasses.dataclass(frozen=True)
class PacketIns:
    run_directory: str  # where ovs-vswitchd has its sockets
    controller_id: int

    async def read(self, bridge: str) -> AsyncIterator[PacketIn]:
        """The copies of one connection. It ends with an error: OSError, IncompleteReadError, or RejectedMessage."""
        reader, writer = await asyncio.open_unix_connection(f"{self.run_directory}/{bridge}.mgmt")
        try:
            writer.write(self._opening())
            async for kind, transaction, body in _messages(reader):
                if kind == _ECHO_REQUEST:  # the switch closes a connection that does not answer
                    writer.write(_message(_ECHO_REPLY, body, transaction))
                    await writer.drain()
                elif kind == _EXPERIMENTER and (found := parse(body)) is not None:
                    yield found
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


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, int, bytes]]:
    while True:
        _, kind, length, transaction = _HEADER.unpack(await reader.readexactly(_HEADER.size))
        body = await reader.readexactly(max(length - _HEADER.size, 0))
        if kind == _ERROR:  # of the opening: without it there is nothing to read
            raise RejectedMessage(f"the switch rejected a message: {body.hex()}")
        yield kind, transaction, body


def _message(kind: int, body: bytes = b"", transaction: int = 1) -> bytes:
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
    return PacketIn(
        cookie=int.from_bytes(found[_COOKIE][-8:], "big"),  # after the padding to 8 bytes
        table=found[_TABLE][0],
        in_port=_in_port(found.get(_METADATA, b"")),
        data=found[_PACKET],
    )


def _properties(body: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _PROPERTY.size <= len(body):
        kind, length = _PROPERTY.unpack_from(body, start)
        if length < _PROPERTY.size:
            return
        yield kind, body[start + _PROPERTY.size : start + length]
        start += (length + 7) // 8 * 8


def _in_port(metadata: bytes) -> int:
    """The in_port among the match fields; 0 if it is not there."""
    start = 0
    while start + 4 <= len(metadata):
        header = int.from_bytes(metadata[start : start + 4], "big")
        length = header & 0xFF
        if header == _IN_PORT:
            return int.from_bytes(metadata[start + 4 : start + 4 + length], "big")
        start += 4 + length
    return 0
