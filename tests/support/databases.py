"""Databases of the tests: empty ones, and copies of one that has the schema, which is faster than to create the schema."""

from __future__ import annotations

import functools
import tempfile
import uuid
from pathlib import Path

import pytest

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
    name = f"test_{uuid.uuid4().hex}"
    if kind == "sqlite":
        return prepared_sqlite(directory / f"{name}.sqlite")
    template: str = request.getfixturevalue(f"{FIXTURES[kind]}_template")
    url: str = request.getfixturevalue(FIXTURES[kind]).create_database(name, template)
    return url


def prepared_sqlite(path: Path) -> str:
    path.touch(mode=0o600)  # as the server creates it
    path.write_bytes(_sqlite_file())
    return f"sqlite:///{path}"


def create_schema(url: str) -> None:
    from neutrino.server.db import schema  # here, as all tests import this module and many do without the server
    from neutrino.server.db.session import Database

    db = Database(url)
    schema.ensure(db)
    db.close()


@functools.cache
def _sqlite_file() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "template.sqlite"
        create_schema(f"sqlite:///{path}")
        return path.read_bytes()
