"""WebSocket frames of a client, for thousands of connections in one process. Pure.

The library that agents use costs a simulating process more than the host behind it. Only what the feed uses is here: text
frames and fragments of them, ping, pong and close (RFC 6455).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_NO_MASK = b"\0\0\0\0"  # a client has to mask; with this key masking changes nothing and costs the client nothing


class Broken(ValueError):
    """What arrived is not a WebSocket connection."""


def request(headers: Mapping[str, str]) -> bytes:
    """The HTTP request that starts a connection."""
    lines = [
        "GET / HTTP/1.1",
        "Host: localhost",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def frame(payload: bytes, opcode: int = TEXT) -> bytes:
    """A whole message in one frame of a client."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8)
    return head + _NO_MASK + payload


class Reader:
    """Bytes from the server → whole messages, with their opcodes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._is_open = False

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        self._buffer += data
        if not self._is_open and not self._open():
            return
        start = 0
        while (found := self._next(start)) is not None:
            is_final, opcode, payload, start = found
            if opcode >= CLOSE or (
                is_final and not self._parts
            ):  # control frames may come between the fragments of a message
                yield opcode, payload
            else:
                self._parts.append(payload)
                if is_final:
                    whole, self._parts = b"".join(self._parts), []
                    yield TEXT, whole
        del self._buffer[:start]

    def _open(self) -> bool:
        """Take the response to the request, once it has arrived."""
        head, end, _ = self._buffer.partition(b"\r\n\r\n")
        if not end:
            return False
        if not head.startswith(b"HTTP/1.1 101"):
            raise Broken(head.partition(b"\r\n")[0].decode(errors="replace"))
        del self._buffer[: len(head) + 4]
        self._is_open = True
        return True

    def _next(self, start: int) -> tuple[bool, int, bytes, int] | None:
        """Whether it is the last frame of a message, opcode, payload and end of the frame at `start`."""
        buffer = self._buffer
        if len(buffer) - start < 2:
            return None
        first, size, at = buffer[start], buffer[start + 1], start + 2
        if size & 0x80:
            raise Broken("a server must not mask its frames")
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(buffer) - at < width:
                return None
            size = int.from_bytes(buffer[at : at + width])
            at += width
        if len(buffer) - at < size:
            return None
        return bool(first & 0x80), first & 0x0F, bytes(memoryview(buffer)[at : at + size]), at + size
