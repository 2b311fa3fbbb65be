"""TCP streams whose longest silence is measured: one side sends a little again and again, the other only receives."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType

SPACING = 0.02  # seconds between two pieces
PIECE = b"x" * 64


class Stream:
    """`with Stream(sender, receiver) as stream:` sends until the end; `stream.gap` is then the longest silence in seconds.

    A silence that lasts until the end counts up to there.
    """

    def __init__(self, sender: socket.socket, receiver: socket.socket) -> None:
        self._sender, self._receiver = sender, receiver
        self._stopped = threading.Event()
        self._last = time.monotonic()
        self.gap = 0.0
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._send, self._receive)]

    @property
    def silent(self) -> float:
        """For how long nothing has arrived."""
        return time.monotonic() - self._last

    def __enter__(self) -> Stream:
        for each in (self._sender, self._receiver):
            each.settimeout(SPACING)
        self._last = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        self.gap = max(self.gap, self.silent)

    def _send(self) -> None:
        while not self._stopped.wait(SPACING):
            with contextlib.suppress(OSError):  # a full buffer, or a reset: the gap shows it
                self._sender.sendall(PIECE)

    def _receive(self) -> None:
        while not self._stopped.is_set():
            try:
                arrived = self._receiver.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                return
            if not arrived:
                return
            now = time.monotonic()
            self.gap, self._last = max(self.gap, now - self._last), now
