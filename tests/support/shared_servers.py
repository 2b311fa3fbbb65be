"""Servers that all workers of a run share, started by the process that hands out the tests when a worker first asks.

Workers are isolated from each other by names: a database, a virtual host of the broker, a region of Keystone's catalog.
Tests that stop or reconfigure a server start one of their own.
"""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TypeVar

from tests.support.isolation import HUB
from tests.support.keystone import Keystone
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres
from tests.support.rabbitmq import RabbitMQ

Shared = Postgres | MariaDB | RabbitMQ | Keystone
Server = TypeVar("Server", Postgres, MariaDB, RabbitMQ, Keystone)
KINDS: dict[str, type[Shared]] = {kind.name: kind for kind in (Postgres, MariaDB, RabbitMQ, Keystone)}


class SharedServers:
    """Starts servers for workers that ask at `address`, until `close`."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="neutrino-shared-")
        self.address = str(Path(self._directory.name) / "socket")
        self._listener = Listener(self.address, "AF_UNIX", backlog=64)
        # The kernel ends a server with the thread that has started it: those of a pool stay.
        self._pool = ThreadPoolExecutor(len(KINDS))
        self._servers: dict[str, Future[Shared]] = {}
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        for server in self._servers.values():
            if server.exception() is None:
                server.result().stop()
        self._pool.shutdown()
        self._listener.close()
        self._directory.cleanup()

    def _serve(self) -> None:
        while True:
            connection = self._listener.accept()
            name = connection.recv()
            if name not in self._servers:
                self._servers[name] = self._pool.submit(_start, name)
            self._servers[name].add_done_callback(partial(_send, connection))


def _start(name: str) -> Shared:
    return KINDS[name](host=HUB).__enter__()


def _send(connection: Connection, server: Future[Shared]) -> None:
    with connection:
        connection.send(server.exception() or server.result())


def shared_server(address: str, kind: type[Server]) -> Server:
    """The shared server of a kind: a copy that knows how to reach it, and must not be stopped."""
    with Client(address, "AF_UNIX") as connection:
        connection.send(kind.name)
        server = connection.recv()
    if isinstance(server, BaseException):
        raise server
    assert isinstance(server, kind)
    return server
