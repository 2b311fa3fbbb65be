"""The databases to measure on, each a real one of its own that is gone afterwards."""

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
    """What is used of the database servers that the tests start."""

    def create_database(self, name: str) -> Any: ...

    def url(self, name: str) -> str: ...


@contextmanager
def database(name: str, directory: Path) -> Iterator[str]:
    """The connection URL of an empty database."""
    if name == "sqlite":
        yield f"sqlite:///{directory.absolute() / 'bench.sqlite'}"
        return
    module, factory = _SERVERS[name]
    with _started(getattr(importlib.import_module(module), factory)) as server:
        server.create_database(_DATABASE)
        yield server.url(_DATABASE)


def _started(factory: Callable[..., AbstractContextManager[DatabaseServer]]) -> AbstractContextManager[DatabaseServer]:
    """A server that waits for the disk on every commit, as one in use does; tests may start it without."""
    if "durable" in inspect.signature(factory).parameters:
        return factory(durable=True)
    return factory()
