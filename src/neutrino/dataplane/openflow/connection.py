"""Messages of OpenFlow 1.4 on a connection to a bridge, for what is asked often: `ovs-ofctl` costs 5 ms to start."""

import contextlib
import socket
import struct
from collections.abc import Iterator

_VERSION = 5  # of the protocol: OpenFlow 1.4
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY, METER_MOD = 18, 19, 20, 21, 29
_HEADER = struct.Struct("!BBHI")  # version, type, length, transaction


@contextlib.contextmanager
def connected(address: str, seconds: float) -> Iterator[socket.socket]:
    """A connection to the socket of a bridge. OSError if the switch cannot be reached."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        connection.connect(address)
        connection.sendall(message(HELLO, 0))
        yield connection


def message(kind: int, transaction: int, body: bytes = b"") -> bytes:
    return _HEADER.pack(_VERSION, kind, _HEADER.size + len(body), transaction) + body


def received(connection: socket.socket) -> Iterator[tuple[int, int, bytes]]:
    """Messages of the switch: type, transaction and body. Its probes are answered."""
    while True:
        _, kind, length, transaction = _HEADER.unpack(_read(connection, _HEADER.size))
        body = _read(connection, length - _HEADER.size)
        if kind == ECHO_REQUEST:
            connection.sendall(message(ECHO_REPLY, transaction, body))
        else:
            yield kind, transaction, body


def _read(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = connection.recv(size - len(found))
        if not part:
            raise OSError("the switch has ended the connection")
        found += part
    return found
