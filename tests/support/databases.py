"""Databases of the tests: empty ones, and copies of templates, which are faster than to create tables and rows again."""

from __future__ import annotations

import fcntl
import functools
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres

DATABASES = [
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.postgres),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
]
FIXTURES = {"postgresql": "postgres", "mariadb": "mariadb"}


def new_database(request: pytest.FixtureRequest, kind: str, directory: Path) -> str:
    """The URL of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    if kind == "sqlite":
        return f"sqlite:///{directory}/{name}.sqlite"
    url: str = request.getfixturevalue(FIXTURES[kind]).create_database(name)
    return url


def prepared_database(request: pytest.FixtureRequest, kind: str, directory: Path) -> str:
    """The URL of a new database with the schema."""
    return copied_database(request, kind, directory, create_schema)


def prepared_sqlite(path: Path) -> str:
    path.touch(mode=0o600)  # as the server creates it
    path.write_bytes(_sqlite_file(create_schema))
    return f"sqlite:///{path}"


def copied_database(request: pytest.FixtureRequest, kind: str, directory: Path, fill: Callable[[str], None]) -> str:
    """The URL of a copy of the database that `fill`, a function of a module, makes of an empty one, once for all tests."""
    name = f"test_{uuid.uuid4().hex}"
    if kind == "sqlite":
        path = directory / f"{name}.sqlite"
        path.touch(mode=0o600)
        path.write_bytes(_sqlite_file(fill))
        return f"sqlite:///{path}"
    server: Postgres | MariaDB = request.getfixturevalue(FIXTURES[kind])
    return server.create_database(name, _template(server, fill))


def create_schema(url: str) -> None:
    from neutrino.server.db import schema  # here, as all tests import this module and many do without the server
    from neutrino.server.db.session import Database

    db = Database(url)
    schema.ensure(db)
    db.close()


def _template(server: Postgres | MariaDB, fill: Callable[[str], None]) -> str:
    """The name of the template; the first worker that needs it creates it."""
    name = f"template_{fill.__module__}_{fill.__name__}".replace(".", "_")
    with (server.directory / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = server.directory / f"{name}.done"
        if not done.exists():
            fill(server.create_database(name))
            done.touch()
    return name


@functools.cache
def _sqlite_file(fill: Callable[[str], None]) -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "template.sqlite"
        fill(f"sqlite:///{path}")
        return path.read_bytes()
