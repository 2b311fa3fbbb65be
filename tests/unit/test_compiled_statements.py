"""Compiled statements are shared by the engines of databases of one kind and version, and by no others."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles

from neutrino.server.db.compiled import Statements
from neutrino.server.db.reads import Lookup, first, read
from neutrino.server.db.session import Database

_THINGS = sa.table("things", sa.column("id", sa.Integer), sa.column("name", sa.String))


class Counted(sa.ColumnElement[int]):
    """The number of times that it has been compiled so far."""

    inherit_cache = False
    type = sa.Integer()
    times = 0


@compiles(Counted)
def _compile_counted(_element: Counted, _compiler: object, **_more: object) -> str:
    Counted.times += 1
    return str(Counted.times)


def of(dialect: sa.Dialect, *version: int) -> Statements:
    """Those of an engine that has connected to a server of this version."""
    dialect.server_version_info = version
    return Statements(dialect)


def test_engines_of_one_version_share_a_statement() -> None:
    statement = sa.select(_THINGS).where(_THINGS.c.id == sa.bindparam("id"))
    once = of(postgresql.dialect(), 15, 4).get(statement, ["id"])
    assert of(postgresql.dialect(), 15, 4).get(statement, ["id"]) is once
    assert of(postgresql.dialect(), 16, 0).get(statement, ["id"]) is not once
    assert of(mysql.dialect(), 15, 4).get(statement, ["id"]) is not once


def test_the_version_counts_that_the_engine_has_when_it_is_used() -> None:
    """It is made before the first connection."""
    statement, dialect = sa.select(_THINGS), postgresql.dialect()
    statements = Statements(dialect)
    dialect.server_version_info = (15, 4)
    assert statements.get(statement, []) is of(postgresql.dialect(), 15, 4).get(statement, [])


def test_databases_that_share_a_statement_read_their_own_rows(tmp_path: Path) -> None:
    wanted = Lookup(sa.select(_THINGS.c.name, Counted()), first)
    found = []
    for name in ("blue", "green"):
        db = Database(f"sqlite:///{tmp_path / name}")
        with db.transaction() as tx:
            tx.execute(sa.text("CREATE TABLE things (id integer, name text)"))
            tx.execute(sa.insert(_THINGS), {"id": 1, "name": name})
        with db.read() as connection:
            found.append(read(connection, wanted()))
        db.close()
    assert found == [("blue", 1), ("green", 1)]
