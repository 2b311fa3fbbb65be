"""The rtnetlink protocol: messages, attributes, dumps and requests.

Not by pyroute2: it forks a process to open a socket in a namespace, runs an event loop in each thread, and takes ten times
as long to read a namespace. The format is kernel ABI and does not change.
"""

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from neutrino.dataplane.netlink import constants as linux

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_TYPE_MASK = 0x3FFF
_NESTED = 0x8000
_BUFFER = 1 << 17
_TIMEOUT = 30.0
_MOST_ATTEMPTS = 20  # a dump that was interrupted by a change is repeated

Attributes = dict[int, bytes]


class Message(NamedTuple):
    type: int
    flags: int
    content: bytes


class Interrupted(Exception):
    """Objects changed during a dump, which may be incomplete."""


def attribute(type_: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(len(value) + 4, type_) + value + b"\0" * (-len(value) % 4)


def nested(type_: int, *attributes: bytes) -> bytes:
    return attribute(type_ | _NESTED, b"".join(attributes))


def number(type_: int, value: int) -> bytes:
    return attribute(type_, struct.pack("=I", value))


def text(type_: int, value: str) -> bytes:
    return attribute(type_, value.encode() + b"\0")


def read_attributes(content: bytes, offset: int) -> Attributes:
    return dict(_attributes(content, offset))


def find_attribute(content: bytes, offset: int, type_: int) -> bytes | None:
    """One attribute, without decoding those after it."""
    return next((value for found, value in _attributes(content, offset) if found == type_), None)


def _attributes(content: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    end = len(content)
    while offset + 4 <= end:
        length, type_ = _ATTRIBUTE.unpack_from(content, offset)
        if length < 4:
            break
        yield type_ & _TYPE_MASK, content[offset + 4 : offset + length]
        offset += (length + 3) & ~3


def as_number(value: bytes | None) -> int:
    return int.from_bytes(value, sys.byteorder) if value else 0


def as_text(value: bytes | None) -> str:
    return value.rstrip(b"\0").decode(errors="replace") if value else ""


class RouteSocket:
    """A netlink socket. It belongs to the namespace in which it was opened. For one thread at a time."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE)
        self._sequence = 0
        # Errors come with a text; filters in dump requests are applied, not ignored.
        for option in (linux.NETLINK_CAP_ACK, linux.NETLINK_EXT_ACK, linux.NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(linux.SOL_NETLINK, option, 1)
        self._socket.settimeout(_TIMEOUT)

    def close(self) -> None:
        self._socket.close()

    def list(self, type_: int, body: bytes) -> list[bytes]:
        """The payloads of a complete dump."""
        for _ in range(_MOST_ATTEMPTS):
            try:
                self._send(type_, linux.NLM_F_DUMP, body)
                return [message.content for message in self._answers()]
            except Interrupted:
                continue
        raise OSError(errno.EAGAIN, "objects change faster than they can be read")

    def get(self, type_: int, body: bytes) -> bytes:
        """The payload of the one reply."""
        self._send(type_, 0, body)
        return next(self._receive()).content

    def do(self, type_: int, flags: int, body: bytes) -> None:
        """Sends a request and waits for its acknowledgement; OSError with the kernel's reason if it is refused."""
        self._send(type_, linux.NLM_F_ACK | flags, body)
        for _ in self._answers():
            pass

    def _send(self, type_: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, type_, linux.NLM_F_REQUEST | flags, self._sequence, 0) + body)

    def _answers(self) -> Iterator[Message]:
        """Up to the end of a dump, or an acknowledgement."""
        interrupted = False
        for message in self._receive():
            interrupted = interrupted or bool(message.flags & linux.NLM_F_DUMP_INTR)
            if message.type in (linux.NLMSG_DONE, linux.NLMSG_ERROR):
                if interrupted:  # known only at the end: the rest still has to be received
                    raise Interrupted
                return
            yield message

    def _receive(self) -> Iterator[Message]:
        while True:
            data = self._socket.recv(_BUFFER)
            offset = 0
            while offset + _HEADER.size <= len(data):
                length, type_, flags, sequence, _ = _HEADER.unpack_from(data, offset)
                content = data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3
                if sequence != self._sequence:
                    continue  # a late reply to a request that timed out
                if type_ in (linux.NLMSG_ERROR, linux.NLMSG_DONE):
                    _check(content, flags, type_)
                yield Message(type_, flags, content)


def _check(content: bytes, flags: int, type_: int) -> None:
    code = -struct.unpack_from("=i", content)[0] if len(content) >= 4 else 0
    if code > 0:
        offset = 4 if type_ == linux.NLMSG_DONE else 4 + _HEADER.size
        texts = read_attributes(content, offset) if flags & linux.NLM_F_ACK_TLVS else {}
        reason = as_text(texts.get(linux.NLMSGERR_ATTR_MSG))
        raise OSError(code, f"{os.strerror(code)} ({reason.rstrip('.')})" if reason else os.strerror(code))
