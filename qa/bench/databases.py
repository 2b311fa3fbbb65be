"""The databases to benchmark, each a temporary real server."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

NAMES = ("sqlite", "postgresql", "mariadb")

_SERVERS = {"postgresql": ("tests.support.postgres", "Postgres"), "mariadb": ("tests.support.mariadb", "MariaDB")}
_DATABASE = "bench"


class DatabaseServer(Protocol):
    """The interface of the tests' database servers."""

    def create_database(self, name: str) -> Any: ...

    def url(self, name: str) -> str: ...

    @property
    def pids(self) -> list[int]: ...


@contextmanager
def running(name: str) -> Iterator[DatabaseServer]:
    """A server of this kind without databases of ours; not for SQLite, which has none."""
    module, factory = _SERVERS[name]
    with _started(getattr(importlib.import_module(module), factory)) as server:
        yield server


@contextmanager
def database(name: str, directory: Path) -> Iterator[str]:
    """The connection URL of an empty database."""
    if name == "sqlite":
        yield f"sqlite:///{directory.absolute() / 'bench.sqlite'}"
        return
    with running(name) as server:
        server.create_database(_DATABASE)
        yield server.url(_DATABASE)


def _started(factory: Callable[..., AbstractContextManager[DatabaseServer]]) -> AbstractContextManager[DatabaseServer]:
    """A durable server, which syncs every commit as in production; tests may start it without."""
    if "durable" in inspect.signature(factory).parameters:
        return factory(durable=True)
    return factory()
