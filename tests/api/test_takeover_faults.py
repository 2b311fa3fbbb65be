"""Faults during an import: databases that are lost, full or not the right ones; rights; releases that are not known."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.cli.takeover.report_file import ReportFile
from neutrino.errors import OperatorError
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.takeover import checks, heads, importer, opening, run, schema
from neutrino.takeover import source as sources
from neutrino.takeover.deviations import Action
from neutrino.takeover.families import families
from neutrino.takeover.report import Report
from neutrino.takeover.source import SourceError
from tests.api.conftest import configuration_text
from tests.api.test_takeover import OPTIONS, db, execute, imported, imported_db, rows, some_id, source
from tests.functional.test_full_disk import fill, small_disk
from tests.support.commands import run_neutrino
from tests.support.databases import copied_database, prepared_database, prepared_sqlite
from tests.support.neutron_database import load

__all__ = ["db", "imported_db", "source"]  # fixtures
ACCEPTING = run.Options(OPTIONS.dns_domain, accept_unknown=True)
_KILL = {
    "mariadb": "SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE db = :name AND id <> CONNECTION_ID()",
    "postgresql": "SELECT 'SELECT pg_terminate_backend(' || pid || ')' FROM pg_stat_activity "
    "WHERE datname = :name AND pid <> pg_backend_pid()",
}


def on_servers(test: Any) -> Any:
    """On the kinds of databases that are servers."""
    kinds = [pytest.param("postgresql", marks=pytest.mark.postgres), pytest.param("mariadb", marks=pytest.mark.mariadb)]
    return pytest.mark.every_database(pytest.mark.parametrize("database", kinds, indirect=True, scope="module")(test))


def at(step: str, call: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Progress that calls this once, when the step begins."""
    pending = [call]

    def progress(shown: str, done: int, total: int) -> None:
        if shown.startswith(step) and pending:
            pending.pop()()

    return progress


def lose(url: sa.URL, kind: str) -> None:
    """End all connections to a database."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in connection.execute(sa.text(_KILL[kind]), {"name": url.database}).scalars().all():
            connection.exec_driver_sql(statement)
    engine.dispose()


# --- lost and full databases ------------------------------------------------------------------------------------------


@on_servers
@pytest.mark.parametrize("step", ["check: ports", "write: "])
def test_neutrons_database_is_lost(
    source: sa.Engine, db: Database, imported_db: Database, database: str, step: str
) -> None:
    source.dispose()
    with pytest.raises(SourceError, match="cannot be read") as caught:
        imported(source, db, progress=at(step, lambda: lose(source.url, database)))
    assert caught.value.exit_status == 3
    assert imported(source, db).written > 0
    assert rows(db) == rows(imported_db)


@on_servers
def test_our_database_is_lost(source: sa.Engine, db: Database, database: str) -> None:
    ours = Database(db.url.render_as_string(hide_password=False), failover_seconds=0)  # as commands have it
    db.close()
    with pytest.raises((errors.DatabaseUnreachable, sa.exc.DBAPIError)):
        imported(source, ours, progress=at("write: subnets", lambda: lose(db.url, database)))
    ours.close()
    assert opening.read_state(db).imports[-1].finished_at is None
    assert imported(source, db).written > 0
    assert opening.read_state(db).imports[-1].finished_at is not None
    assert imported(source, db).written == 0


def test_our_disk_is_full(source: sa.Engine, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        ours = Database(prepared_sqlite(disk / "ours.sqlite"))
        with pytest.raises(errors.DatabaseNotWritable):
            imported(source, ours, progress=at("write: ports", lambda: fill(disk / "filler")))
        (disk / "filler").unlink()
        assert imported(source, ours).written > 0
        assert imported(source, ours).written == 0
        ours.close()


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_report_that_cannot_be_written_is_refused_before_the_first_write(
    source: sa.Engine, db: Database, tmp_path: Path
) -> None:
    before = rows(db)
    with small_disk(tmp_path / "disk") as disk:
        file = ReportFile(disk / "report.json")
        fill(disk / "filler")
        with pytest.raises(OperatorError, match=r"report\.json: No space left on device; nothing was changed"):
            run.run(source.url, db, OPTIONS, before_writing=file.reserve)
        file.close()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(OperatorError, match="Read-only file system"):
            ReportFile(disk / "other.json")
    assert rows(db) == before


def test_a_report_has_its_place_before_the_disk_is_full(source: sa.Engine, db: Database, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        file = ReportFile(disk / "report.txt")

        def reserve(report: Report) -> None:
            file.reserve(report)
            fill(disk / "filler")

        report = run.run(source.url, db, OPTIONS, before_writing=reserve)
        assert file.write(report)
        file.close()
        assert (disk / "report.txt").read_text() == report.to_text() + "".join(f"{one}\n" for one in report.deviations)
        assert report.written > 0


# --- rights -----------------------------------------------------------------------------------------------------------


@on_servers
def test_a_table_that_may_not_be_read_is_named(source: sa.Engine, db: Database, database: str) -> None:
    user = f"u{uuid.uuid4().hex[:12]}"
    with source.begin() as connection:
        names = sa.inspect(connection).get_table_names()
        if database == "postgresql":
            connection.exec_driver_sql(f"CREATE ROLE {user} LOGIN PASSWORD 'secret'")
            connection.exec_driver_sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {user}")
            connection.exec_driver_sql(f"REVOKE SELECT ON ml2_port_bindings FROM {user}")
        else:
            connection.exec_driver_sql(f"CREATE USER {user} IDENTIFIED BY 'secret'")
            right = sa.text(
                "INSERT INTO mysql.tables_priv (Host, Db, User, Table_name, Grantor, Table_priv) "
                "VALUES ('%', :db, :user, :name, '', 'Select')"
            )
            own = [
                {"db": source.url.database, "user": user, "name": name} for name in names if name != "ml2_port_bindings"
            ]
            connection.execute(right, own)
            connection.exec_driver_sql("FLUSH PRIVILEGES")
    url = source.url.set(username=user, password="secret")
    before = rows(db)
    try:
        with pytest.raises(SourceError, match=r"SELECT from ml2_port_bindings\. GRANT SELECT ON ") as caught:
            run.run(url, db, OPTIONS)
        assert user in str(caught.value)
        assert "secret" not in str(caught.value)
    finally:
        with source.begin() as connection:
            if database == "postgresql":
                connection.exec_driver_sql(f"DROP OWNED BY {user}")
            connection.exec_driver_sql(f"DROP {'ROLE' if database == 'postgresql' else 'USER'} {user}")
    assert rows(db) == before


# --- wrong databases --------------------------------------------------------------------------------------------------


def test_an_empty_database_is_refused(db: Database, tmp_path: Path) -> None:
    with pytest.raises(checks.Refused, match="it is empty"):
        run.run(sa.make_url(f"sqlite:///{tmp_path}/empty.sqlite"), db, OPTIONS)


def test_our_own_database_is_refused(db: Database) -> None:
    with pytest.raises(checks.Refused, match="but of neutrino"):
        run.run(db.url, db, OPTIONS)


def test_novas_database_is_refused(db: Database, tmp_path: Path) -> None:
    url = sa.make_url(f"sqlite:///{tmp_path}/nova.sqlite")
    engine = sa.create_engine(url)
    execute(
        engine,
        "CREATE TABLE alembic_version (version_num VARCHAR(32))",
        "CREATE TABLE instances (id INTEGER)",
        "CREATE TABLE block_device_mapping (id INTEGER)",
    )
    engine.dispose()
    with pytest.raises(checks.Refused, match="but of Nova"):
        run.run(url, db, OPTIONS)


# --- releases that are not known --------------------------------------------------------------------------------------

_NEWER = f"UPDATE alembic_version SET version_num = 'abcdef' WHERE version_num <> '{heads.CONTRACT}'"


def test_an_unknown_release_is_accepted_if_it_has_all_that_is_read(source: sa.Engine, db: Database) -> None:
    execute(source, _NEWER, "ALTER TABLE ports ADD COLUMN colour VARCHAR(20)")
    with pytest.raises(checks.Refused, match="--accept-unknown-release"):
        imported(source, db)
    report = imported(source, db, run.Options(OPTIONS.dns_domain, accept_unknown=True, final=True))
    assert report.release == heads.UNKNOWN
    noted = {(one.kind, one.object_id) for one in report.deviations if one.action is Action.NOTED}
    assert noted == {("alembic_version", "abcdef"), ("ports", "colour")}
    assert imported(source, db, ACCEPTING).written == 0


def test_an_unknown_release_without_a_column_is_refused(source: sa.Engine, db: Database) -> None:
    execute(source, _NEWER, "ALTER TABLE subnets DROP COLUMN gateway_ip", "DROP TABLE porthints")
    before = rows(db)
    with pytest.raises(checks.Refused, match=r"lacks what is read: porthints, subnets\.gateway_ip\."):
        imported(source, db, ACCEPTING)
    assert rows(db) == before


def test_an_unknown_revision_of_a_plugin_is_accepted(source: sa.Engine, db: Database) -> None:
    execute(source, "INSERT INTO alembic_version_taas (version_num) VALUES ('abcdef')")
    with pytest.raises(checks.Refused, match="--accept-unknown-release"):
        imported(source, db)
    assert imported(source, db, ACCEPTING).written > 0


def test_nothing_is_exported_into_an_unknown_release(source: sa.Engine, db: Database) -> None:
    execute(source, _NEWER)
    imported(source, db, run.Options(OPTIONS.dns_domain, accept_unknown=True, final=True))
    opening.open_writes(db, ("compute-1", "compute-2", "network-1", "network-2"))
    with pytest.raises(checks.Refused, match="an export is refused"):
        run.export(source.url, db, OPTIONS)


def test_all_that_is_read_is_in_the_schema(source: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that families read of the recorded database, and tables that they name."""
    used: set[tuple[str, str]] = set()

    class Row(dict[str, Any]):
        table = ""

        def __getitem__(self, name: str) -> Any:
            used.add((self.table, name))
            return super().__getitem__(name)

        def get(self, name: str, default: Any = None) -> Any:
            used.add((self.table, name))
            return super().get(name, default)

    select = sources.Source._select

    def tracked(self: sources.Source, name: str, *conditions: Any, **options: Any) -> list[Any]:
        found = [Row(row) for row in select(self, name, *conditions, **options)]
        for row in found:
            row.table = name
        return found

    monkeypatch.setattr(sources.Source, "_select", tracked)
    run.check(source.url, OPTIONS)
    with source.connect() as connection:
        inspector = sa.inspect(connection)
        there = {
            (name, column["name"]) for name in inspector.get_table_names() for column in inspector.get_columns(name)
        }
    required = schema.required(frozenset({name for name, _ in there}))
    declared = {(name, column) for name, columns in required.items() for column in columns}
    assert len(used) > 300
    assert declared <= there
    assert {one for one in used & there if not one[0].startswith(heads.VERSION_TABLE)} <= declared
    assert {name for one in families() for name in (one.source, *one.reads)} <= set(required)


# --- what an import compares ------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_small_pages_give_the_same_rows(
    source: sa.Engine,
    db: Database,
    request: pytest.FixtureRequest,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rules of security groups refer to groups of later pages."""
    first = some_id(source, "securitygroups")
    with source.connect() as connection:
        last = connection.execute(sa.text("SELECT MAX(id) FROM securitygroups")).scalar_one()
    execute(source, f"UPDATE securitygrouprules SET remote_group_id = '{last}' WHERE security_group_id = '{first}'")
    other = Database(prepared_database(request, database, tmp_path))
    wanted = imported(source, other)
    for module in (sources, importer):
        monkeypatch.setattr(module, "PAGE", 2)
    found = imported(source, db)
    assert rows(db) == rows(other)
    assert {name: vars(one) for name, one in found.counts.items()} == {
        name: vars(one) for name, one in wanted.counts.items()
    }
    other.close()


@pytest.mark.every_database
@pytest.mark.parametrize("page", [1000, 4])
def test_what_differs_in_our_rows_is_written_again(
    source: sa.Engine, imported_db: Database, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sources, importer):
        monkeypatch.setattr(module, "PAGE", page)
    db = imported_db
    before = rows(db)
    with db.transaction() as tx:
        tx.execute(sa.update(t.ports).where(t.ports.c.name == "vm1").values(name="other"))
        tx.execute(sa.delete(t.ip_allocations))
        tx.execute(sa.delete(t.port_security_groups))
        tx.execute(sa.insert(t.tags).values(object_id=some_id(source, "subnets"), tag="ours"))
        tx.execute(sa.delete(t.quotas))
    report = imported(source, db)
    assert report.counts["ports"].updated > 1
    assert (report.counts["subnets"].updated, report.counts["networks"].written) == (1, 0)
    assert rows(db) == before
    assert imported(source, db).written == 0


@pytest.mark.mariadb
@pytest.mark.postgres
def test_from_mariadb_to_postgresql(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Booleans are numbers in the one, and no numbers in the other."""
    url = copied_database(request, "mariadb", tmp_path, load)
    ours = Database(prepared_database(request, "postgresql", tmp_path))
    assert run.run(sa.make_url(url), ours, OPTIONS).written > 100
    assert run.run(sa.make_url(url), ours, OPTIONS).written == 0
    ours.close()


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.mariadb
def test_command_needs_a_place_for_its_report(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = copied_database(request, "mariadb", tmp_path, load)
    (tmp_path / "source").write_text(url)
    configuration = tmp_path / "neutrino.conf"
    configuration.write_text(configuration_text(f"sqlite:///{tmp_path}/ours.sqlite"))
    common = ("--config-file", str(configuration), "--from-file", str(tmp_path / "source"))
    done = run_neutrino(["takeover", "import", *common, "--report", "/dev/full"])
    assert (done.status, "No space left on device; nothing was changed" in done.error) == (2, True), done.error
    assert "nothing was imported" in run_neutrino(["takeover", "status", "--config-file", str(configuration)]).out
    done = run_neutrino(["takeover", "import", *common, "--report", str(tmp_path / "no-such" / "report")])
    assert (done.status, "No such file or directory" in done.error) == (2, True)
