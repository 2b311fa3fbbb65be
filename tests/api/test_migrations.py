"""The schema: new and upgraded databases have the tables of the code, upgrades keep data, one process upgrades."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from tests.api.conftest import configuration_text
from tests.support import schema_0001
from tests.support.databases import new_database

VERSIONS = Path(schema.__file__).parent / "migrations" / "versions"


@pytest.fixture
def url(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> str:
    return new_database(request, database, tmp_path)


@pytest.fixture
def db(url: str) -> Iterator[Database]:
    made = Database(url)
    yield made
    made.close()


def revisions() -> list[str]:
    """All of them, the oldest first."""
    after: dict[str | None, str] = {}
    for path in VERSIONS.glob("[0-9]*.py"):
        text = path.read_text()
        revision = re.search(r'^revision = "(\w+)"', text, re.M)
        down = re.search(r'^down_revision = (?:None|"(\w+)")', text, re.M)
        assert revision
        assert down
        after[down[1]] = revision[1]
    out: list[str] = []
    while (following := after.get(out[-1] if out else None)) is not None:
        out.append(following)
    assert len(out) == len(after), "the revisions are not one line"
    return out


def create_first_schema(db: Database) -> None:
    with db.engine().begin() as connection:
        schema_0001.create(connection)
        command.stamp(schema.alembic_config(connection), schema_0001.REVISION)


def upgrade(db: Database, revision: str) -> None:
    with db.engine().begin() as connection:
        command.upgrade(schema.alembic_config(connection), revision)


def _differs(context: Any, inspected_column: Any, column: Any, inspected: Any, wanted: Any) -> bool | None:
    """MariaDB has several names for long texts and takes the one that is long enough; else Alembic compares."""
    both_texts = type(inspected).__name__.endswith("TEXT") and isinstance(wanted, sa.Text)
    return False if both_texts else None


def test_head_is_the_newest_revision() -> None:
    assert revisions()[-1] == schema.HEAD


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "upgraded"])
def test_new_and_upgraded_databases_have_the_tables_of_the_code(db: Database, is_new: bool) -> None:
    if not is_new:
        create_first_schema(db)
    schema.ensure(db)
    assert schema.version(db) == schema.HEAD
    with db.engine().connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": _differs})
        assert compare_metadata(context, t.metadata) == []
        found = set(sa.inspect(connection).get_table_names())
    assert found == {*t.metadata.tables, "alembic_version"}
    schema.ensure(db)


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "upgraded"])
def test_new_and_upgraded_databases_have_the_initial_rows(db: Database, is_new: bool) -> None:
    if not is_new:
        create_first_schema(db)
    schema.ensure(db)
    with db.read() as connection:
        found = [dict(row) for row in connection.execute(sa.select(t.default_security_group_rules)).mappings()]
    wanted = [{**dict.fromkeys(found[0]), **row} for row in t.initial_default_rules()]
    by_identity = [sorted(({**row, "id": ""} for row in rows), key=str) for rows in (found, wanted)]
    assert by_identity[0] == by_identity[1]


def test_names_are_compared_byte_for_byte(db: Database) -> None:
    schema.ensure(db)
    with db.transaction() as tx:
        for tag in ("a", "A", "á", "a "):
            tx.execute(sa.insert(t.tags).values(object_id="x", tag=tag))
    with db.read() as connection:
        found = connection.execute(sa.select(t.tags.c.tag).where(t.tags.c.tag == "A")).scalars().all()
    assert found == ["A"]


def test_every_upgrade_keeps_the_rows(db: Database) -> None:
    create_first_schema(db)
    for previous, revision in itertools.pairwise(revisions()):
        assert schema.version(db) == previous
        _insert(db, previous)
        upgrade(db, revision)
        assert _found(db, previous)
    schema.ensure(db)
    assert all(_found(db, previous) for previous in revisions()[:-1])


def test_an_interrupted_upgrade_is_repeated(db: Database) -> None:
    """MariaDB commits every statement: an attempt finds what those before it did. The others roll all of it back."""
    create_first_schema(db)
    commits_each = db.engine().dialect.name == "mysql"
    numbers = itertools.count(1) if commits_each else (3**power for power in itertools.count())
    attempts = next(attempt for attempt, number in enumerate(numbers) if _upgrade_interrupted_after(db, number))
    assert attempts > 3
    assert schema.version(db) == schema.HEAD
    with db.engine().connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": _differs})
        assert compare_metadata(context, t.metadata) == []


class _Interrupted(Exception):
    pass


def _upgrade_interrupted_after(db: Database, statements: int) -> bool:
    """Whether an upgrade ends before it has changed the schema by more than a number of statements."""
    left = iter(range(statements))

    def interrupt(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.strip().startswith(("CREATE", "ALTER", "DROP")) and next(left, None) is None:
            raise _Interrupted

    sa.event.listen(db.engine(), "before_cursor_execute", interrupt)
    try:
        schema.ensure(db)
    except _Interrupted:
        return False
    finally:
        sa.event.remove(db.engine(), "before_cursor_execute", interrupt)
    return True


# As it is in every revision: the code's own table may have columns that an older database has not.
_TAGS = sa.table("tags", sa.column("object_id"), sa.column("tag"))


def _insert(db: Database, key: str) -> None:
    with db.engine().begin() as connection:
        connection.execute(sa.insert(_TAGS).values(object_id=key, tag="kept"))


def _found(db: Database, key: str) -> bool:
    with db.read() as connection:
        return connection.execute(sa.select(_TAGS).where(_TAGS.c.object_id == key)).first() is not None


def test_an_old_database_is_refused_when_it_must_not_be_changed(db: Database) -> None:
    with pytest.raises(schema.WrongSchema, match="none"):
        schema.ensure(db, upgrade=False)


def test_processes_that_start_together(url: str, tmp_path: Path) -> None:
    path = tmp_path / "neutrino.conf"
    path.write_text(configuration_text(url))
    program = Path(sys.executable).with_name("neutrino")
    argv = [str(program), "db", "upgrade", "--config-file", str(path)]
    started = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(3)]
    ended = [(process.communicate(timeout=180)[0].decode(), process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0], ended
    assert all(f"schema version: {schema.HEAD}" in text for text, _ in ended)
