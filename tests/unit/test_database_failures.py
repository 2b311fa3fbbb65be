"""Classes of database errors, and how long requests wait for a database that fails over."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest
import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.connection_options import GALERA, connect_args, psycopg_arguments
from neutrino.server.db.engines import WriterQueue
from neutrino.server.db.failover import Outage
from neutrino.server.db.failures import Failure, classify, not_writable
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import assign_ids


def of_mysql(number: int, kind: type[Exception] = pymysql.err.OperationalError) -> sa.exc.DBAPIError:
    return sa.exc.OperationalError("COMMIT", {}, kind(number, "text"))


def of_postgres(state: str | None) -> sa.exc.DBAPIError:
    kind: type[psycopg.Error] = psycopg.OperationalError if state is None else psycopg.errors.lookup(state)
    return sa.exc.OperationalError("COMMIT", {}, kind("text"))


@pytest.mark.parametrize("number", [1213, 1205, 1020, 1317])
def test_a_rolled_back_transaction_of_mariadb_is_a_conflict(number: int) -> None:
    assert classify(of_mysql(number)) is Failure.CONFLICT


@pytest.mark.parametrize("number", [1047, 1053, 1180, 1290, 1927, 2003, 2006, 2013])
def test_a_node_of_mariadb_that_executes_nothing_is_unavailable(number: int) -> None:
    assert classify(of_mysql(number)) is Failure.UNAVAILABLE


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03"])
def test_a_rolled_back_transaction_of_postgresql_is_a_conflict(state: str) -> None:
    assert classify(of_postgres(state)) is Failure.CONFLICT


@pytest.mark.parametrize("state", [None, "57P01", "57P03", "25006", "08006", "53300"])
def test_a_postgresql_that_executes_nothing_is_unavailable(state: str | None) -> None:
    assert classify(of_postgres(state)) is Failure.UNAVAILABLE


def of_sqlite(code: int) -> sa.exc.DBAPIError:
    error = sqlite3.OperationalError("text")
    error.sqlite_errorcode = code
    return sa.exc.OperationalError("COMMIT", {}, error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (of_sqlite(sqlite3.SQLITE_FULL), "its disk is full"),
        (of_sqlite(sqlite3.SQLITE_READONLY_DIRECTORY), "it is read-only"),
        (of_sqlite(sqlite3.SQLITE_IOERR_FSYNC), "its disk fails"),
        (of_mysql(1021), "its disk is full"),
        (of_mysql(1114), "its disk is full"),
        (of_postgres("53100"), "its disk is full"),
    ],
)
def test_a_database_that_cannot_write_is_not_waited_for(error: sa.exc.DBAPIError, reason: str) -> None:
    assert classify(error) is Failure.NOT_WRITABLE
    assert not_writable(error) == reason


def test_a_lock_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    queue = WriterQueue(f"{tmp_path}/nowhere/db.lock")
    with pytest.raises(errors.DatabaseNotWritable, match="No such file"), queue:
        pass


def test_other_errors_are_defects() -> None:
    assert classify(of_mysql(1054)) is Failure.OTHER
    assert classify(of_postgres("42703")) is Failure.OTHER
    assert classify(sa.exc.IntegrityError("INSERT", {}, pymysql.err.IntegrityError(1062, "twice"))) is Failure.OTHER
    assert classify(sa.exc.DataError("INSERT", {}, pymysql.err.DataError(1406, "long"))) is Failure.TOO_LARGE


def test_errors_have_no_parameters_of_statements(tmp_path: Path) -> None:
    """An unexpected error is logged, and parameters may be pre-shared keys."""
    database = Database(f"sqlite:///{tmp_path}/db")
    statement = sa.text("SELECT :psk FROM nowhere")
    with pytest.raises(sa.exc.OperationalError) as read, database.read() as connection:
        connection.execute(statement, {"psk": "s3cret"})
    with pytest.raises(sa.exc.OperationalError) as written, database.transaction() as tx:
        tx.execute(statement, {"psk": "s3cret"})
    assert "s3cret" not in f"{read.value} {written.value}"
    remote = Database("postgresql+psycopg://nobody@127.0.0.1:1/x")
    assert all(engine.hide_parameters for engine in (remote._reads, remote._writes))
    for each in (database, remote):
        each.close()


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_requests_of_an_outage_wait_for_its_first_seconds_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neutrino.server.db.failover.time.sleep", lambda _: None)
    clock = Clock()
    outage = Outage(20.0, clock)
    outage.failed("gone")
    assert outage.wait(0, since=clock.now)
    for _ in range(7):
        clock.now += 3
        outage.failed("gone")
    # A request that begins now does not wait: the outage has lasted longer than any request may.
    assert not outage.wait(0, since=clock.now)
    outage.succeeded()
    assert outage.wait(0, since=clock.now)


def test_a_request_that_loses_one_connection_after_the_other_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("neutrino.server.db.failover.time.sleep", lambda _: None)
    clock = Clock()
    outage = Outage(20.0, clock)
    began, tries = clock.now, 0
    while outage.wait(tries, began):
        outage.succeeded()
        outage.failed("gone again")
        clock.now += 1
        tries += 1
    assert tries == 20


def test_several_hosts_of_postgresql_reach_the_driver() -> None:
    url = sa.make_url("postgresql+psycopg://u:p@/n?host=a:5432&host=b:5433&target_session_attrs=read-write")
    arguments = psycopg_arguments(url)
    assert arguments["host"] == "a,b"
    assert arguments["port"] == "5432,5433"
    assert arguments["target_session_attrs"] == "read-write"
    assert "context" not in arguments


def test_the_url_overrides_timeouts() -> None:
    assert connect_args(sa.make_url("mysql+pymysql://h/n"))["read_timeout"] == 30
    assert "read_timeout" not in connect_args(sa.make_url("mysql+pymysql://h/n?read_timeout=5"))
    assert connect_args(sa.make_url("postgresql+psycopg://h/n"))["tcp_user_timeout"] == 9000


def test_every_table_has_a_primary_key() -> None:
    """Galera does not replicate deletes of tables without one."""
    assert [table.name for table in t.metadata.sorted_tables if not table.primary_key.columns] == []


@pytest.mark.parametrize("is_galera", [False, True])
def test_rows_are_changed_and_restored_to_exclude_transactions_on_other_nodes(tmp_path: Path, is_galera: bool) -> None:
    db = Database(f"sqlite:///{tmp_path}/one.sqlite")
    t.metadata.create_all(db.engine())
    written: list[str] = []
    with db.transaction() as tx:
        table = t.change_head
        tx.insert(table, [{"id": 1, "identity": "here", "position": 0, "removed": 0}])
        tx.connection.info[GALERA] = is_galera
        sa.event.listen(tx.connection, "before_cursor_execute", lambda *call: written.append(call[2]))
        tx.exclude_other_nodes(table.c.identity, ["1"])
        assert tx.execute(sa.select(table.c.identity)).scalar() == "here"
    assert sum(text.startswith("UPDATE change_head") for text in written) == (2 if is_galera else 0)
    db.close()


def test_ids_of_change_log_rows_grow_and_are_negative() -> None:
    first: list[dict[str, Any]] = [{}, {}, {}]
    second: list[dict[str, Any]] = [{}]
    mark = assign_ids(first)
    assert first[0]["id"] == mark < assign_ids(second) < 0
    assert sorted({row["id"] for row in first}) == [row["id"] for row in first]
