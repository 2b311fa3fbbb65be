"""`neutrino db check-upgrade`: databases of other schemas, with contradictory rows, and options that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino import __version__
from neutrino.cli import main
from neutrino.model import agents as words
from neutrino.model.agents import AgentState
from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import Registry, timestamp
from tests.api.conftest import configuration_text
from tests.support.databases import new_database

pytestmark = pytest.mark.every_database


@pytest.fixture
def url(request: pytest.FixtureRequest, database: str, tmp_path: Path) -> str:
    return new_database(request, database, tmp_path)


def checked(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str], status: int, **options: Any
) -> dict[str, list[tuple[str, str]]]:
    """The findings of a check, which must end with this status: severity and text by check."""
    path = tmp_path / "neutron.conf"
    path.write_text(configuration_text(url, {"DEFAULT": {"state_path": str(tmp_path)}, **options}))
    capsys.readouterr()
    assert main.main(["db", "check-upgrade", "--json", "--config-file", str(path)]) == status
    document = json.loads(capsys.readouterr().out)
    assert (document["release"], document["schema_needed"]) == (__version__, schema.HEAD)
    found: dict[str, list[tuple[str, str]]] = {
        "migrations": [(m["version"], m["what"]) for m in document["migrations"]]
    }
    for one in document["findings"]:
        found.setdefault(one["check"], []).append((one["severity"], one["what"]))
    return found


def stamp(db: Database, version: str) -> None:
    with db.engine().begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version})


def test_empty_present_and_other_schemas(tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = checked(tmp_path, url, capsys, 0)
    assert [severity for severity, _ in found["schema"]] == ["note"], "it is created"
    db = Database(url)
    try:
        schema.ensure(db)
        assert checked(tmp_path, url, capsys, 0) == {"migrations": []}
        with db.engine().begin() as connection:  # as it was in version 0101
            connection.execute(sa.text("ALTER TABLE changes DROP COLUMN user_id"))
            connection.execute(sa.text("ALTER TABLE changes DROP COLUMN changed"))
        stamp(db, "0101")
        found = checked(tmp_path, url, capsys, 0)
        assert [version for version, _ in found["migrations"]][:2] == ["0102", "0103"]
        assert all(what for _, what in found["migrations"])
        found = checked(tmp_path, url, capsys, 1, database={"auto_upgrade": "false", "connection": url})
        assert found["schema"] == [
            ("warning", "servers of this release do not start with schema 0101, as auto_upgrade is false")
        ]
        assert schema.version(db) == "0101", "nothing is upgraded"
        for version, text in (("9999", "newer release"), ("0007", "development version")):
            stamp(db, version)
            ((severity, what),) = checked(tmp_path, url, capsys, 1)["schema"]
            assert severity == "error"
            assert text in what
    finally:
        db.close()


def test_servers_agents_operations_and_takeovers(tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    db = Database(url)
    try:
        schema.ensure(db)
        registry = Registry(db)
        for host, versions in (("h1", dict(words.RESOURCE_VERSIONS)), ("h2", {"Port": "1.1"})):
            registry.report(AgentState(words.OVS, "b", host, "t", resource_versions=versions))
        with db.transaction() as tx:
            now = timestamp(registry.clock())
            process = {"id": "p1", "host": "s1", "kind": "api", "pid": 1, "release": "0.0.1", "started_at": now}
            tx.execute(sa.insert(t.server_processes).values(**process, seen_at=now))
            tx.execute(sa.insert(t.server_processes).values(**{**process, "id": "p2", "host": "gone"}, seen_at="2020"))
            tx.execute(sa.insert(t.journal).values(id="j1", operation="x", object_id="o1", at=1.0, owner="w"))
            takeover = {"id": "t1", "source": "neutron-db", "release": "2026.1", "started_at": now}
            tx.execute(sa.insert(t.takeovers).values(**takeover))
        found = checked(tmp_path, url, capsys, 1)
        assert found["servers"] == [("warning", f"servers of other releases run: s1 (0.0.1); this is {__version__}")]
        assert found["agents"] == [("warning", "agents of another version report: h2")]
        assert found["journal"] == [("warning", "1 operations of drivers were not completed")]
        assert found["takeover"] == [("warning", "the takeover of neutron-db is not completed: requests may not write")]
    finally:
        db.close()


def test_rows_whose_parent_is_missing(
    tmp_path: Path, url: str, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a restore with foreign keys switched off leaves them."""
    off = {
        "sqlite": "PRAGMA foreign_keys=OFF",
        "postgresql": "SET session_replication_role = replica",
        "mariadb": "SET foreign_key_checks = 0",
    }[database]
    db = Database(url)
    try:
        schema.ensure(db)
        with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
            connection.execute(sa.text(off))
            connection.execute(sa.insert(t.network_dhcp_agents).values(network_id="n1", agent_id="a1", requested=False))
        found = checked(tmp_path, url, capsys, 1)
        assert sorted(found["rows"]) == [
            ("error", "network_dhcp_agents.agent_id refers to agents that do not exist: a1"),
            ("error", "network_dhcp_agents.network_id refers to networks that do not exist: n1"),
        ]
    finally:
        db.close()


def test_options_that_are_refused_and_unknown(tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    quotas = {"quotas": {"quota_driver": "site.quotas.Driver"}}
    ((severity, what),) = checked(tmp_path, url, capsys, 1, **quotas)["configuration"]
    assert severity == "error"
    assert "[quotas] quota_driver = site.quotas.Driver is refused" in what
    ((severity, what),) = checked(tmp_path, url, capsys, 1, ml2={"type_driver": "vxlan"})["configuration"]
    assert severity == "warning"
    assert "[ml2] type_driver is not known" in what
    assert "type_drivers" in what


def test_a_database_that_cannot_be_read(
    tmp_path: Path, database: str, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    if database == "sqlite":
        broken = tmp_path / "broken.sqlite"
        broken.write_bytes(b"no database" * 100)
        url = f"sqlite:///{broken}"
    else:
        url = sa.engine.make_url(url).set(port=1).render_as_string(hide_password=False)
    ((severity, what),) = checked(tmp_path, url, capsys, 3)["database"]
    assert severity == "error"
    assert what
