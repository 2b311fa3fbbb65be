"""`graceful_shutdown_timeout`: a stop completes requests that are in progress, and waits no longer than that."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator

import pytest

from tests.support.memory import alive, tree
from tests.support.neutrino import Neutrino
from tests.support.process import wait_until

BODY = b'{"network": {"name": "late"}}'
HEAD = (
    b"POST /v2.0/networks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)


@contextlib.contextmanager
def request_in_progress(server: Neutrino) -> Iterator[tuple[socket.socket, sqlite3.Connection]]:
    """A worker has read a request and waits for the database, until the transaction of the other connection ends."""
    database = sqlite3.connect(server.database.removeprefix("sqlite:///"), isolation_level=None)
    with contextlib.closing(database), socket.create_connection(("127.0.0.1", server.port), timeout=60) as client:
        database.execute("BEGIN IMMEDIATE")
        client.sendall(HEAD % len(BODY) + BODY)
        (worker,) = (pid for first in server.pids for pid in tree(first) if pid != first)
        wait_until(lambda: has_read(worker, client), timeout=30, what="the request is not read", failed=lambda: None)
        yield client, database


def has_read(worker: int, client: socket.socket) -> bool:
    """Whether nothing waits in the receive queue of the server's end."""
    ours = f"{client.getsockname()[1]:04X}"
    with open(f"/proc/{worker}/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return any(row[2].endswith(f":{ours}") and row[4].endswith(":00000000") and row[3] == "01" for row in rows[1:])


def ends(server: Neutrino, within: float) -> bool:
    give_up = time.monotonic() + within
    while any(alive(pid) for pid in server.pids):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(("seconds", "is_completed"), [("30", True), ("1", False)])
def test_requests_in_progress(seconds: str, is_completed: bool) -> None:
    server = Neutrino({"DEFAULT": {"graceful_shutdown_timeout": seconds}})
    # RuntimeError: it has ended by itself, as it should.
    with contextlib.suppress(RuntimeError), server, request_in_progress(server) as (client, database):
        os.kill(server.pids[0], signal.SIGTERM)
        if is_completed:
            assert not ends(server, 4), "it does not wait for the request"
            database.execute("ROLLBACK")
            assert client.recv(65536).startswith(b"HTTP/1.1 201"), "the request is not completed"
        assert ends(server, 20), "the stop takes longer than the option says"
