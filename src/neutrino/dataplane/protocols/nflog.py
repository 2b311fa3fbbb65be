"""Netfilter's log: copies of packets that rules with the target NFLOG send to a group, on a socket that is held open.

A copy of a bridged packet names the ports of the bridge that it came from and leaves through, by their indexes.
"""

import asyncio
import dataclasses
import errno
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping

_NETFILTER = 12  # netlink protocol
_SUBSYSTEM = 4 << 8
_PACKET, _CONFIG = _SUBSYSTEM, _SUBSYSTEM | 1  # types of messages
_ERROR = 2
_REQUEST, _ACK = 1, 4
_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_FAMILY = struct.Struct("!BBH")  # family, version, group
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_COMMAND, _MODE, _TIMEOUT = 1, 2, 4  # attributes of a configuration
_BIND, _COPY_PACKETS = 1, 2
_PHYSICAL_IN, _PHYSICAL_OUT, _PAYLOAD, _PREFIX, _LINK_HEADER = 6, 7, 9, 10, 16  # attributes of a packet
_ADDRESSES, _IPV4, _IPV6 = 12, b"\x08\x00", b"\x86\xdd"  # of an Ethernet header
_HUNDREDTHS = 10  # of a second, for which the kernel gathers packets
_BUFFER = 1 << 16


@dataclasses.dataclass(frozen=True)
class LoggedPacket:
    prefix: str  # of the rule
    device_in: int  # index of the bridge's port that it came from; 0: of none
    device_out: int
    data: bytes  # the frame, or its beginning


def netfilter_socket() -> socket.socket:
    """A socket for the log of the namespace that the calling thread is in."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETFILTER)


@dataclasses.dataclass(frozen=True)
class Nflog:
    group: int
    size: int  # bytes of each packet after its link-layer header
    connect: Callable[[], socket.socket] = netfilter_socket  # it may block

    async def read(self) -> AsyncIterator[LoggedPacket]:
        """Never ends. OSError: the kernel has no such log, or another process reads the group."""
        with await asyncio.to_thread(self.connect) as connection:
            connection.bind((0, 0))
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(connection, configuration(self.group, self.size))
            while True:
                try:
                    data = await loop.sock_recv(connection, _BUFFER)
                except OSError as error:
                    if error.errno == errno.ENOBUFS:  # packets were lost: there are more than are read
                        continue
                    raise
                for packet in parse(data):
                    yield packet


def configuration(group: int, size: int) -> bytes:
    """The messages that ask for the packets of a group."""
    commands = (
        (_COMMAND, struct.pack("=B", _BIND)),
        (_MODE, struct.pack("!IBx", size, _COPY_PACKETS)),
        (_TIMEOUT, struct.pack("!I", _HUNDREDTHS)),
    )
    return b"".join(_message(number, group, *each) for number, each in enumerate(commands, 1))


def _message(sequence: int, group: int, kind: int, value: bytes) -> bytes:
    attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value
    body = _FAMILY.pack(socket.AF_UNSPEC, 0, group) + _padded(attribute)
    return _HEADER.pack(_HEADER.size + len(body), _CONFIG, _REQUEST | _ACK, sequence, 0) + body


def parse(data: bytes) -> Iterator[LoggedPacket]:
    """The packets of what was received. OSError: the kernel has refused a configuration."""
    start = 0
    while start + _HEADER.size <= len(data):
        length, kind, *_ = _HEADER.unpack_from(data, start)
        if length < _HEADER.size:
            return
        body = data[start + _HEADER.size : start + length]
        start += _aligned(length)
        if kind == _ERROR and (code := -struct.unpack_from("=i", body)[0]):  # 0: acknowledged
            raise OSError(code, os.strerror(code))
        if kind == _PACKET:
            found = dict(_attributes(body[_FAMILY.size :]))
            yield LoggedPacket(
                prefix=found.get(_PREFIX, b"").rstrip(b"\0").decode("ascii", "replace"),
                device_in=int.from_bytes(found.get(_PHYSICAL_IN, b""), "big"),
                device_out=int.from_bytes(found.get(_PHYSICAL_OUT, b""), "big"),
                data=_frame(found),
            )


def _frame(found: Mapping[int, bytes]) -> bytes:
    """The packet as a frame: the kernel has no link-layer header of one that came from a tunnel's device."""
    header, payload = found.get(_LINK_HEADER, b""), found.get(_PAYLOAD, b"")
    if not header and payload:
        header = bytes(_ADDRESSES) + (_IPV6 if payload[0] >> 4 == 6 else _IPV4)
    return header + payload


def _attributes(body: bytes) -> Iterator[tuple[int, bytes]]:
    start = 0
    while start + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, start)
        if length < _ATTRIBUTE.size:
            return
        yield kind, body[start + _ATTRIBUTE.size : start + length]
        start += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _padded(data: bytes) -> bytes:
    return data.ljust(_aligned(len(data)), b"\0")
