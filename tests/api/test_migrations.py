"""The schema: a new database has exactly the tables of the code, created by one process; other schemas are refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations

from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.securitygroups.checks import check_rule
from tests.api.conftest import configuration_text
from tests.support.commands import run_neutrino
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


def _differs(context: Any, inspected_column: Any, column: Any, inspected: Any, wanted: Any) -> bool | None:
    """MariaDB has several names for long texts and takes the one that is long enough; else Alembic compares."""
    both_texts = type(inspected).__name__.endswith("TEXT") and isinstance(wanted, sa.Text)
    return False if both_texts else None


def differences(db: Database) -> list[Any]:
    with db.engine().connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": _differs})
        found: list[Any] = compare_metadata(context, t.metadata)
    return found


def test_first_and_head_are_the_ends_of_the_revisions() -> None:
    assert (revisions()[0], revisions()[-1]) == (schema.FIRST, schema.HEAD)


def test_a_new_database_has_the_tables_of_the_code(db: Database) -> None:
    schema.ensure(db)
    assert schema.version(db) == schema.HEAD
    assert differences(db) == []
    with db.engine().connect() as connection:
        inspector = sa.inspect(connection)
        assert set(inspector.get_table_names()) == {*t.metadata.tables, "alembic_version"}
        for table in t.metadata.tables.values():
            # Not compared by Alembic: the order of columns, primary keys, ON DELETE.
            assert [column["name"] for column in inspector.get_columns(table.name)] == table.columns.keys()
            key = inspector.get_pk_constraint(table.name)["constrained_columns"]
            assert key == table.primary_key.columns.keys()
            rules = {each["constrained_columns"][0]: each["options"] for each in inspector.get_foreign_keys(table.name)}
            wanted = {each.parent.name: each.ondelete for each in table.foreign_keys}
            assert {name: options.get("ondelete") for name, options in rules.items()} == wanted
    schema.ensure(db)


def _remove_logs_of_firewall_groups(connection: sa.Connection) -> None:
    operations = Operations(MigrationContext.configure(connection))
    with operations.batch_alter_table("logs") as logs:
        logs.drop_constraint("fk_logs_firewall_group_id", type_="foreignkey")
        logs.drop_index("ix_logs_firewall_group_id")
        logs.drop_column("firewall_group_id")


def test_an_upgraded_database_is_as_a_new_one(db: Database) -> None:
    schema.ensure(db)
    with db.engine().begin() as connection:  # as it was in version 0100
        t.takeovers.drop(connection)
        connection.execute(sa.text("ALTER TABLE changes DROP COLUMN user_id"))
        connection.execute(sa.text("ALTER TABLE changes DROP COLUMN changed"))
        _remove_logs_of_firewall_groups(connection)
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0100'"))
    schema.ensure(db)
    assert schema.version(db) == schema.HEAD
    assert differences(db) == []


def test_a_new_database_has_the_templates_of_rules(db: Database) -> None:
    """They are unique by the identities of their rules."""
    schema.ensure(db)
    templates = t.default_security_group_rules
    with db.read() as connection:
        rows = connection.execute(sa.select(templates).order_by(templates.c.direction, templates.c.ethertype))
        found = [dict(row) for row in rows.mappings()]
    assert [(row["direction"], row["ethertype"], row["remote_group_id"]) for row in found] == [
        ("egress", "IPv4", None),
        ("egress", "IPv6", None),
        ("ingress", "IPv4", "PARENT"),
        ("ingress", "IPv6", "PARENT"),
    ]
    identities = [check_rule(row).identity for row in found]
    assert [row["in_default"] for row in found] == identities
    assert [row["in_others"] for row in found] == [*identities[:2], None, None]


def test_names_are_compared_byte_for_byte(db: Database) -> None:
    schema.ensure(db)
    with db.transaction() as tx:
        for tag in ("a", "A", "á", "a "):
            tx.execute(sa.insert(t.tags).values(object_id="x", tag=tag))
    with db.read() as connection:
        found = connection.execute(sa.select(t.tags.c.tag).where(t.tags.c.tag == "A")).scalars().all()
    assert found == ["A"]


def test_the_dialect_of_mariadb_compares_byte_for_byte(url: str) -> None:
    db = Database(url.replace("mysql+pymysql", "mariadb+pymysql"))
    schema.ensure(db)
    assert differences(db) == []
    with db.transaction() as tx:
        tx.execute(sa.insert(t.tags), [{"object_id": "x", "tag": tag} for tag in ("a", "A", "a ")])
    db.close()


def test_an_interrupted_creation_is_repeated(db: Database) -> None:
    """MariaDB commits every statement: an attempt finds what those before it did. The others roll all of it back."""
    commits_each = db.engine().dialect.name == "mysql"
    numbers = itertools.count(1, 7) if commits_each else (3**power for power in itertools.count())
    attempts = next(attempt for attempt, number in enumerate(numbers) if _upgrade_interrupted_after(db, number))
    assert attempts > 3
    assert schema.version(db) == schema.HEAD
    assert differences(db) == []


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


@pytest.mark.parametrize("upgrade", [True, False])
@pytest.mark.parametrize("revision", ["0001", "0022"])
def test_a_database_of_a_development_version_is_refused(db: Database, revision: str, upgrade: bool) -> None:
    """It is named, and nothing in the database is changed."""
    with db.engine().begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(sa.text(f"INSERT INTO alembic_version VALUES ('{revision}')"))
    with pytest.raises(
        schema.WrongSchema, match=rf"development version \(schema {revision}\), .*create a new database"
    ):
        schema.ensure(db, upgrade=upgrade)
    with db.engine().connect() as connection:
        assert sa.inspect(connection).get_table_names() == ["alembic_version"]
    assert schema.version(db) == revision


def test_an_empty_database_is_refused_when_it_must_not_be_changed(db: Database) -> None:
    with pytest.raises(schema.WrongSchema, match="none"):
        schema.ensure(db, upgrade=False)


def test_processes_that_start_together(url: str, tmp_path: Path) -> None:
    path = tmp_path / "neutrino.conf"
    path.write_text(configuration_text(url))
    with ThreadPoolExecutor(3) as pool:
        ended = [*pool.map(lambda _: run_neutrino(["db", "upgrade", "--config-file", str(path)]), range(3))]
    assert [done.status for done in ended] == [0, 0, 0], ended
    assert all(f"schema version: {schema.HEAD}" in done.out for done in ended)
