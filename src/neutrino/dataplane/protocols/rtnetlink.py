"""The netlink protocol: messages, attributes, dumps and requests.

Not by pyroute2: it forks a process to open a socket in a namespace, runs an event loop in each thread, and takes ten times
as long to read a namespace. The format is kernel ABI and does not change.
"""

import builtins
import contextlib
import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator

from neutrino.dataplane.protocols import linux

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_TYPE_MASK = 0x3FFF
_NESTED = 0x8000
_BUFFER = 1 << 17  # recv cuts off what does not fit; the kernel sends at most 32 KiB at once
_TIMEOUT = 30.0
_MOST_ATTEMPTS = 20  # a dump that was interrupted by a change is repeated
_LAST = (linux.NLMSG_DONE, linux.NLMSG_ERROR)  # an acknowledgement is an error with code 0


# --- encoding: an attribute with an empty text is left out ---


def attribute(type_: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(len(value) + 4, type_) + value + b"\0" * (-len(value) % 4)


def nested(type_: int, *attributes: bytes) -> bytes:
    return attribute(type_ | _NESTED, b"".join(attributes))


def number(type_: int, value: int) -> bytes:
    return attribute(type_, struct.pack("=I", value))


def text(type_: int, value: str) -> bytes:
    return attribute(type_, value.encode() + b"\0") if value else b""


def ip(type_: int, value: str) -> bytes:
    """An address, or the first one of a prefix."""
    family = socket.AF_INET6 if ":" in value else socket.AF_INET
    return attribute(type_, socket.inet_pton(family, value.partition("/")[0])) if value else b""


def mac(type_: int, value: str) -> bytes:
    return attribute(type_, bytes.fromhex(value.replace(":", ""))) if value else b""


# --- decoding ---


class Attributes(dict[int, bytes]):
    """The attributes of a message by type; a missing one is 0 or empty."""

    def number(self, type_: int) -> int:
        return int.from_bytes(self.get(type_, b""), sys.byteorder)

    def text(self, type_: int) -> str:
        return self.get(type_, b"").rstrip(b"\0").decode(errors="replace")

    def ip(self, type_: int) -> str:
        packed = self.get(type_)
        return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed) if packed else ""

    def prefix(self, type_: int, length: int) -> str:
        """The length of a prefix is not in its attribute, but in the head of the message."""
        return f"{self.ip(type_)}/{length}" if type_ in self else ""

    def mac(self, type_: int) -> str:
        return self.get(type_, b"").hex(":")

    def nested(self, type_: int) -> "Attributes":
        return read_attributes(self.get(type_, b""), 0)


def read_attributes(content: bytes, offset: int, *, until: int | None = None) -> Attributes:
    """All attributes after the head of a message, or those up to one type: messages about devices have dozens."""
    found, end = Attributes(), len(content)
    while offset + 4 <= end and until not in found:
        length, type_ = _ATTRIBUTE.unpack_from(content, offset)
        if length < 4:  # not an attribute: it would never end
            break
        found[type_ & _TYPE_MASK] = content[offset + 4 : offset + length]
        offset += (length + 3) & ~3
    return found


def read_list(content: bytes) -> Iterator[bytes]:
    """The values of attributes of one type, as of a list: `Attributes` would have the last one alone."""
    offset = 0
    while offset + 4 <= len(content):
        length, _ = _ATTRIBUTE.unpack_from(content, offset)
        if length < 4:
            return
        yield content[offset + 4 : offset + length]
        offset += (length + 3) & ~3


# --- the socket ---


@contextlib.contextmanager
def tolerated(*numbers: int) -> Iterator[None]:
    """Ignores errors that mean that a change is in force already."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


class NetlinkSocket:
    """A netlink socket. It belongs to the namespace in which it was opened. For one thread at a time."""

    def __init__(self, protocol: int = linux.NETLINK_ROUTE) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        self._sequence = 0
        # Errors come with a text; filters in dump requests are applied, not ignored.
        for option in (linux.NETLINK_CAP_ACK, linux.NETLINK_EXT_ACK, linux.NETLINK_GET_STRICT_CHK):
            self._socket.setsockopt(linux.SOL_NETLINK, option, 1)
        self._socket.settimeout(_TIMEOUT)

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def list(self, type_: int, body: bytes) -> builtins.list[bytes]:
        """The payloads of a complete dump."""
        for _ in range(_MOST_ATTEMPTS):
            self._send(type_, linux.NLM_F_DUMP, body)
            # Objects that change during a dump may be missing from it: the kernel flags such a dump, at the latest in its
            # last message. A plan from an incomplete dump would create again what exists.
            *messages, last = self._receive()
            if not any(flags & linux.NLM_F_DUMP_INTR for flags, _ in (*messages, last)):
                return [content for _, content in messages]
        raise OSError(errno.EAGAIN, "objects change faster than they can be read")

    def get(self, type_: int, body: bytes) -> bytes:
        """The payload of the one reply."""
        self._send(type_, 0, body)
        return next(self._receive())[1]

    def do(self, type_: int, flags: int, body: bytes) -> None:
        """Sends a request and waits for its acknowledgement; OSError with the kernel's reason if it is refused."""
        self._send(type_, linux.NLM_F_ACK | flags, body)
        for _ in self._receive():
            pass

    def _send(self, type_: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        length = _HEADER.size + len(body)
        self._socket.send(_HEADER.pack(length, type_, linux.NLM_F_REQUEST | flags, self._sequence, 0) + body)

    def _receive(self) -> Iterator[tuple[int, bytes]]:
        """Flags and payloads of a reply, up to and with the end of a dump or an acknowledgement."""
        while True:
            data = self._socket.recv(_BUFFER)
            offset = 0
            while offset + _HEADER.size <= len(data):
                length, type_, flags, sequence, _ = _HEADER.unpack_from(data, offset)
                content = data[offset + _HEADER.size : offset + length]
                offset += (length + 3) & ~3
                # Without this check, the answer to an earlier request would be taken for that of this one.
                if sequence != self._sequence:
                    continue  # a late reply to a request that timed out
                if type_ in _LAST:
                    _check(content, flags, type_)
                yield flags, content
                if type_ in _LAST:
                    return


def _check(content: bytes, flags: int, type_: int) -> None:
    code = -struct.unpack_from("=i", content)[0] if len(content) >= 4 else 0
    if code > 0:
        # After the code follows the head of the refused request (an end of a dump has none), then the kernel's reason.
        offset = 4 if type_ == linux.NLMSG_DONE else 4 + _HEADER.size
        texts = read_attributes(content, offset) if flags & linux.NLM_F_ACK_TLVS else Attributes()
        reason = texts.text(linux.NLMSGERR_ATTR_MSG)
        raise OSError(code, f"{os.strerror(code)} ({reason.rstrip('.')})" if reason else os.strerror(code))
