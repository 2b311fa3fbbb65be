"""A TCP proxy in front of a database server: counts round trips and statements of all connections through it.

A round trip is counted when a client sends after the server has answered: statements sent together, without waiting in
between, are one. Statements are read from the protocol: Execute and Query of PostgreSQL, COM_QUERY of MariaDB. Requests do
not wait for the feed process, nor for the thread that notifies it: their connections are not counted.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_STARTUP_REQUESTS = {80877103, 80877104}  # SSLRequest, GSSENCRequest: another startup message follows
_FLUSH = b"H\0\0\0\4"  # libpq sends it while the answers arrive, and waits for nothing
_COM_QUERY = 3


@dataclass
class Observed:
    """What passed the proxy since the last `clear`."""

    trips: int = 0
    bytes: int = 0
    statements: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.trips, self.bytes, self.statements = 0, 0, []


class PostgresDecoder:
    """The statements in what a client of PostgreSQL sends."""

    def __init__(self) -> None:
        self._buffer = b""
        self._started = False
        self._prepared: dict[bytes, str] = {}
        self._bound = ""

    def feed(self, data: bytes) -> Iterator[str]:
        self._buffer += data
        while len(self._buffer) >= 8 and not self._started:  # messages without a type: length, version or request
            length, code = struct.unpack("!ii", self._buffer[:8])
            self._started = code not in _STARTUP_REQUESTS
            self._buffer = self._buffer[length:]
        while self._started and len(self._buffer) >= 5:
            (length,) = struct.unpack("!i", self._buffer[1:5])
            if len(self._buffer) < length + 1:
                return
            kind, content = self._buffer[:1], self._buffer[5 : length + 1]
            self._buffer = self._buffer[length + 1 :]
            yield from self._message(kind, content)

    def _message(self, kind: bytes, content: bytes) -> Iterator[str]:
        if kind == b"P":
            name, text, _ = content.split(b"\0", 2)
            self._prepared[name] = text.decode(errors="replace")
        elif kind == b"B":
            _, name, _ = content.split(b"\0", 2)
            self._bound = self._prepared.get(name, "?")
        elif kind == b"E":
            yield self._bound
        elif kind == b"Q":
            yield content.rstrip(b"\0").decode(errors="replace")


class MariaDecoder:
    """The statements in what a client of MariaDB sends: several in one packet are one text."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> Iterator[str]:
        self._buffer += data
        while len(self._buffer) >= 5:
            length = int.from_bytes(self._buffer[:3], "little")
            if len(self._buffer) < length + 4:
                return
            sequence, content = self._buffer[3], self._buffer[4 : length + 4]
            self._buffer = self._buffer[length + 4 :]
            if sequence == 0 and content[:1] == bytes([_COM_QUERY]):
                yield content[1:].decode(errors="replace")


Decoder = PostgresDecoder | MariaDecoder


def is_of_feed(ports: tuple[int, int]) -> bool:
    """Whether the process that has connected from the first to the second local port is the feed, by its title."""
    rows = (row for row in _rows("/proc/net/tcp") if tuple(int(row[i].rpartition(":")[2], 16) for i in (1, 2)) == ports)
    inode = next((row[9] for row in rows), None)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # processes end meanwhile
            if not (process / "cmdline").read_bytes().startswith(b"neutrino-server feed"):
                continue
            if any(str(link.readlink()) == f"socket:[{inode}]" for link in (process / "fd").iterdir()):
                return True
    return False


def _rows(path: str) -> list[list[str]]:
    return [line.split() for line in Path(path).read_text().splitlines()[1:]]


@contextmanager
def observed(port: int, decoder: Callable[[], Decoder]) -> Iterator[tuple[int, Observed]]:
    """A proxy to a local port: its own port, and what passes it."""
    counts, lock = Observed(), threading.Lock()
    listener = socket.create_server(("127.0.0.1", 0))
    open_sockets: list[socket.socket] = [listener]

    own_port: int = listener.getsockname()[1]

    def serve() -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                client, (_, client_port) = listener.accept()
                server = socket.create_connection(("127.0.0.1", port))
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                open_sockets.extend((client, server))
                connection = _Connection(Observed() if is_of_feed((client_port, own_port)) else counts, lock, decoder())
                threading.Thread(target=connection.pump, args=(client, server, True), daemon=True).start()
                threading.Thread(target=connection.pump, args=(server, client, False), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield own_port, counts
    finally:
        for one in open_sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class _Connection:
    def __init__(self, counts: Observed, lock: threading.Lock, decoder: Decoder) -> None:
        self._counts = counts
        self._lock = lock
        self._decoder = decoder
        self._answered = True

    def pump(self, source: socket.socket, target: socket.socket, from_client: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._lock:
                    self._counts.bytes += len(data)
                    if from_client:
                        statements = list(self._decoder.feed(data))
                        if any(text.startswith("NOTIFY") for text in statements):
                            self._counts = Observed()
                        self._counts.trips += self._answered and data != _FLUSH
                        self._counts.statements += statements
                    if data != _FLUSH:
                        self._answered = not from_client
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
