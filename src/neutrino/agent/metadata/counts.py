"""The number of metadata requests, which the proxy process counts: a client of its socket gets them as one JSON object.

The socket is beside the control socket, and as that one only for the agent's user: it is created before the proxy drops its
privileges. An agent that finds no such socket, as of an older proxy, has no counts.
"""

import contextlib
import os
import socket
from collections.abc import Mapping
from typing import Final

import msgspec

from neutrino.feed.address import short_path

SUFFIX: Final = ".counts"
SECONDS: Final = 1.0
MAX_BYTES: Final = 1 << 16


def listen(control: str) -> socket.socket:
    """`control`: the path of the control socket."""
    path = f"{control}{SUFFIX}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        with short_path(path) as short:
            made.bind(short)
    finally:
        os.umask(before)
    made.setblocking(False)
    made.listen(16)
    return made


def answer(listening: socket.socket, counts: Mapping[str, int]) -> None:
    """Answer one client. Few bytes, which the socket's buffer holds: the proxy's loop does not wait for the client."""
    with contextlib.suppress(OSError):
        connection, _ = listening.accept()
        with connection:
            connection.setblocking(False)
            connection.send(msgspec.json.encode(dict(counts)))


def read(control: str) -> dict[str, int]:
    """Read the number of requests by class of their status, such as 2xx; empty if no proxy runs."""
    try:
        with socket.socket(socket.AF_UNIX) as connection, short_path(f"{control}{SUFFIX}") as short:
            connection.settimeout(SECONDS)
            connection.connect(short)
            return msgspec.json.decode(connection.recv(MAX_BYTES), type=dict[str, int])
    except (OSError, msgspec.MsgspecError):
        return {}
