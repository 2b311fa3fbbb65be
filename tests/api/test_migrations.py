"""The schema: new and upgraded databases have the tables of the code, upgrades keep data, one process upgrades."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from neutrino.server.db import collation, schema
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


@pytest.mark.parametrize("since", ["0001", "0020"])
def test_an_upgrade_converts_tables_that_ignore_case(db: Database, since: str) -> None:
    """On MariaDB; on the others there is nothing to convert."""
    create_first_schema(db)
    upgrade(db, since)
    with db.engine().connect() as connection:
        collation.convert(connection, "utf8mb4_general_ci")
    with db.engine().begin() as connection:
        connection.execute(sa.text("INSERT INTO tags (object_id, tag) VALUES ('x', 'a')"))
    schema.ensure(db)
    with db.transaction() as tx:
        for tag in ("A", "á", "a "):
            tx.execute(sa.insert(t.tags).values(object_id="x", tag=tag))
    with db.engine().connect() as connection:
        assert connection.execute(sa.select(t.tags.c.tag).where(t.tags.c.tag == "a")).scalars().all() == ["a"]
        assert collation.convert(connection) == []
        context = MigrationContext.configure(connection, opts={"compare_type": _differs})
        assert compare_metadata(context, t.metadata) == []
        with pytest.raises(sa.exc.IntegrityError):
            connection.execute(sa.insert(t.tags), {"object_id": "x", "tag": "a"})


def test_an_interrupted_conversion_is_completed(db: Database) -> None:
    """After any of its statements, which MariaDB commits at once; on the others there is nothing to convert."""
    schema.ensure(db)
    with db.engine().connect() as connection:
        for completed in (20, 200):
            is_converted = bool(collation.convert(connection, "utf8mb4_general_ci"))
            left = iter(range(completed))

            def interrupt(_: Any, __: Any, statement: str, *___: Any, left: Iterator[int] = left) -> None:
                if statement.startswith("ALTER TABLE") and next(left, None) is None:
                    raise InterruptedError

            sa.event.listen(connection, "before_cursor_execute", interrupt)
            with pytest.raises(InterruptedError) if is_converted else nullcontext():
                collation.convert(connection)
            sa.event.remove(connection, "before_cursor_execute", interrupt)
            connection.rollback()
            collation.convert(connection)
            context = MigrationContext.configure(connection, opts={"compare_type": _differs})
            assert compare_metadata(context, t.metadata) == []


def test_the_dialect_of_mariadb_has_the_same_tables(url: str) -> None:
    made = Database(url.replace("mysql+pymysql", "mariadb+pymysql"))
    create_first_schema(made)
    schema.ensure(made)
    with made.engine().connect() as connection:
        assert collation.convert(connection) == []
    made.close()


def test_a_router_that_lost_its_ha_network_references_none(db: Database) -> None:
    create_first_schema(db)
    upgrade(db, "0020")
    old = sa.MetaData()
    with db.engine().begin() as connection:
        old.reflect(connection, only=["routers", "networks"])
        common = {"project_id": "p", "name": "", "created_at": "", "updated_at": "", "revision_number": 0, "tags": "[]"}
        _insert_row(connection, old.tables["networks"], {**common, "id": "n"})
        for number, network in enumerate(("n", "gone")):
            row = {**common, "id": f"r{number}", "ha": True, "ha_network_id": network, "ha_vr_id": 1}
            _insert_row(connection, old.tables["routers"], row)
    schema.ensure(db)
    with db.read() as connection:
        assert [tuple(row) for row in connection.execute(sa.select(t.ha_router_networks))] == [("r0", "n")]
        found = sa.select(t.routers.c.ha_network_id, t.routers.c.ha_vr_id).order_by(t.routers.c.id)
        assert [tuple(row) for row in connection.execute(found)] == [("n", 1), (None, None)]


def _insert_row(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    """With a value for each column that must have one."""
    empty = {sa.Integer: 0, sa.Boolean: False}
    needed = [c for c in table.c if not c.nullable and c.name not in row]
    fill = {c.name: next((v for k, v in empty.items() if isinstance(c.type, k)), "") for c in needed}
    connection.execute(sa.insert(table).values({**fill, **row}))


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
