"""TCP connections on many paths from one thread: a small message every 20 ms, and the gaps between those received."""

from __future__ import annotations

import selectors
import socket
import time

from qa.takeover.lab.meters.measurements import INTERVAL, SHORTEST_STALL, Stream, StreamPath

_MESSAGE = b"x" * 512


class Streamer:
    """One connection, whose receiver is in another namespace."""

    def __init__(self, path: StreamPath, sender: socket.socket, listener: socket.socket) -> None:
        self.path = path
        self._sender, self._listener = sender, listener
        self._receiver: socket.socket | None = None
        self._last = 0.0  # when the receiver got data
        self._received = 0
        self._stalls: list[tuple[float, float]] = []
        self._errors: list[tuple[float, str]] = []

    def register(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._sender.connect_ex((self.path.target, self.path.port))

    def send(self) -> None:
        try:
            self._sender.send(_MESSAGE)
        except (BlockingIOError, BrokenPipeError):
            return  # full, or not connected yet
        except OSError as error:
            self._fail(f"sender: {error}")

    def _accept(self) -> None:
        self._receiver, _ = self._listener.accept()
        self._receiver.setblocking(False)
        self._selector.unregister(self._listener)
        self._selector.register(self._receiver, selectors.EVENT_READ, self._receive)

    def _receive(self) -> None:
        now = time.monotonic()
        assert self._receiver is not None
        try:
            size = len(self._receiver.recv(1 << 16))
        except OSError as error:
            self._fail(f"receiver: {error}")
            size = 0
        if not size:
            self._selector.unregister(self._receiver)
            return
        self._received += size
        self._note_gap(now)
        self._last = now

    def _note_gap(self, now: float) -> None:
        gap = now - self._last - INTERVAL
        if self._last and gap > SHORTEST_STALL:
            self._stalls.append((self._last, gap))

    def _fail(self, text: str) -> None:
        if not self._errors or self._errors[-1][1] != text:
            self._errors.append((time.monotonic(), text))

    def result(self) -> Stream:
        now = time.monotonic()
        errors = list(self._errors)
        if not self._received:
            errors.append((now, "no connection"))
        stalls = list(self._stalls)
        if self._last and now - self._last - INTERVAL > SHORTEST_STALL:
            stalls.append((self._last, now - self._last))
        return Stream(self._received // len(_MESSAGE), stalls, errors)


def open_sender(target: str) -> socket.socket:
    link = socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setblocking(False)
    return link


def open_listener(target: str, port: int) -> socket.socket:
    if ":" in target:
        return socket.create_server(("::", port), family=socket.AF_INET6)
    return socket.create_server(("0.0.0.0", port))
