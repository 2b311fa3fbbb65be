"""Statements of a transaction, and reads, that are sent together: results and errors as if sent one by one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, Read, RowsLookup, read, read_together, scalar
from neutrino.server.db.session import Database, Stale
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.main import Server
from neutrino.server.ml2 import type_drivers
from tests.api.client import Api

_q = t.quotas.c
_LIMIT = sa.select(_q.limit).where(_q.project_id == sa.bindparam("project"))


@pytest.fixture
def db(server: Server) -> Database:
    return server.db


@pytest.fixture
def project() -> str:
    return uuid.uuid4().hex


def row(project: str, resource: str = "port", limit: int = 1) -> dict[str, Any]:
    return {"project_id": project, "resource": resource, "limit": limit}


def insert(db: Database, *several: list[dict[str, Any]]) -> None:
    with db.transaction() as tx:
        for rows in several:
            tx.insert(t.quotas, rows)


def stored(db: Database, project: str) -> list[tuple[str, int]]:
    with db.read() as connection:
        statement = sa.select(_q.resource, _q.limit).where(_q.project_id == project).order_by(_q.resource)
        return [tuple(found) for found in connection.execute(statement)]


def test_reads_after_the_commit(db: Database, project: str) -> None:
    """They see what the transaction and others have committed, and are called when it is not repeated any more."""
    limit, calls = Lookup(_LIMIT, scalar), list[Any]()

    def attempt() -> None:
        with db.transaction() as tx:
            tx.insert(t.quotas, [row(project, limit=5)])
            tx.read_after_commit(limit(project=project), calls.append)
            tx.read_after_commit(limit(project="none"), calls.append)
        assert calls == []

    db.retrying(attempt)
    assert calls == [5, None]
    with db.transaction() as tx:  # nothing is written
        tx.read_after_commit(limit(project=project), calls.append)
    assert calls == [5, None, 5]
    db.retrying(lambda: insert(db, [row(project, "network")]))  # the connection is usable, and its snapshot new
    assert stored(db, project) == [("network", 1), ("port", 5)]


def test_a_transaction_that_fails_reads_nothing_after_it(db: Database, project: str) -> None:
    calls: list[Any] = []

    def attempt() -> None:
        with db.transaction() as tx:
            tx.change(sa.update(t.quotas).where(_q.project_id == project).values(limit=2))
            tx.read_after_commit(Lookup(_LIMIT, scalar)(project=project), calls.append)

    with pytest.raises(Stale):
        attempt()
    assert calls == []


def test_a_read_that_fails_after_the_commit_is_no_failure_of_the_commit(db: Database, project: str) -> None:
    """It is read once more, by itself, and fails there: the transaction is neither repeated nor called lost."""
    failing = {  # when they are executed
        "sqlite": sa.func.json_extract("[", "$"),
        "postgresql": sa.cast(_q.resource, sa.Integer),
        "mysql": sa.text("(SELECT 1 UNION SELECT 2)"),
    }
    wrong = sa.select(failing[db.dialect]).where(_q.project_id == sa.bindparam("project"))
    attempts: list[int] = []

    def attempt() -> None:
        attempts.append(1)
        with db.transaction() as tx:
            tx.insert(t.quotas, [row(project, limit=5)])
            tx.read_after_commit(Lookup(wrong, scalar)(project=project), attempts.append)

    with pytest.raises((sa.exc.DBAPIError, errors.InvalidInput)):
        db.retrying(attempt)
    assert attempts == [1]
    assert stored(db, project) == [("port", 5)]
    insert(db, [row(project, "network")])
    assert stored(db, project) == [("network", 1), ("port", 5)]


def test_statements_see_the_ones_before_them(db: Database, project: str) -> None:
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project)])
        tx.change(sa.update(t.quotas).where(_q.project_id == project).values(limit=2))
        assert tx.execute(_LIMIT, {"project": project}).scalar() == 2
        tx.write(sa.update(t.quotas).where(_q.project_id == project).values(limit=3))
        tx.insert(t.quotas, [row(project, "network"), row(project, "subnet", 7)])
    assert stored(db, project) == [("network", 1), ("port", 3), ("subnet", 7)]


def test_a_result_after_deferred_statements_is_that_of_its_own_statement(db: Database, project: str) -> None:
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project, name) for name in ("network", "port", "subnet")])
        changed = tx.execute(sa.update(t.quotas).where(_q.project_id == project, _q.resource != "port").values(limit=9))
        assert changed.rowcount == 2


@pytest.mark.parametrize("many", [False, True])
def test_a_duplicate_key_is_an_integrity_error(db: Database, project: str, many: bool) -> None:
    twice = [row(project), row(project)] if many else [row(project, "network")]
    with pytest.raises(sa.exc.IntegrityError):
        insert(db, [row(project, "network")], twice, [row(project, "subnet")])
    assert stored(db, project) == []
    with db.transaction() as tx:  # the connection is usable
        tx.insert(t.quotas, [row(project)])
    assert stored(db, project) == [("port", 1)]


def test_the_driver_logs_no_warnings_about_refused_statements(
    db: Database, project: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(sa.exc.IntegrityError):
            insert(db, [row(project)], [row(project)], *([row(project, f"x{i}")] for i in range(20)))
    assert not caplog.records


def test_a_missing_parent_is_an_integrity_error(db: Database, project: str) -> None:
    missing = {"id": str(uuid.uuid4()), "network_type": "vxlan", "segmentation_id": 7, "identity": f"x/{project}"}

    def write() -> None:
        with db.transaction() as tx:
            tx.insert(t.quotas, [row(project)])
            tx.insert(t.network_segments, [{**missing, "network_id": str(uuid.uuid4())}])

    with pytest.raises(sa.exc.IntegrityError):
        write()
    assert stored(db, project) == []


@pytest.mark.parametrize(("rows", "limit"), [(1, 5), (3, 1), (0, 1)])
def test_another_number_of_changed_rows_is_stale(db: Database, project: str, rows: int, limit: int) -> None:
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project)])
    change = sa.update(t.quotas).where(_q.project_id == project, _q.limit == limit).values(limit=8)

    def write() -> None:
        with db.transaction() as tx:
            tx.insert(t.quotas, [row(project, "network")])
            tx.change(change, rows=rows)
            tx.insert(t.quotas, [row(project, "subnet")])

    with pytest.raises(Stale):
        write()
    assert stored(db, project) == [("port", 1)]


def test_stale_is_found_by_a_read_in_the_transaction(db: Database, project: str) -> None:
    read: list[Any] = []

    def write() -> None:
        with db.transaction() as tx:
            tx.change(sa.delete(t.quotas).where(_q.project_id == project))
            read.append(tx.execute(_LIMIT, {"project": project}).scalar())

    with pytest.raises(Stale):
        write()
    assert not read


def test_too_large_a_value_is_the_clients_error(db: Database, database: str, project: str) -> None:
    if database == "sqlite":  # stores texts of any length
        insert(db, [row(project, "x" * 65)])
        return
    with pytest.raises(errors.InvalidInput):
        insert(db, [row(project, "x" * 65)], [row(project)])
    assert stored(db, project) == []


def test_percent_signs_quotes_and_semicolons_are_data(db: Database, project: str) -> None:
    names = ["%s", "100%", "a'b", 'a"b', "a;b", "\\", "%%(x)s", "ünï"]
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project, names[0])])
        tx.insert(t.quotas, [row(project, name) for name in names[1:]])
        like = _q.resource.like("100\\%%", escape="\\")
        tx.change(sa.update(t.quotas).where(_q.project_id == project, like).values(limit=7))
    assert dict(stored(db, project)) == {**dict.fromkeys(names, 1), "100%": 7}


def test_a_transaction_may_be_larger_than_a_packet(db: Database, project: str) -> None:
    tags = [{"object_id": str(uuid.uuid4()), "tag": f"{project}{i:04}" + "x" * 200} for i in range(6000)]
    with db.transaction() as tx:
        for start in range(0, len(tags), 1000):
            tx.insert(t.tags, tags[start : start + 1000])
    mine = t.tags.c.tag.like(f"{project}%")
    with db.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).where(mine)).scalar() == len(tags)
    with db.transaction() as tx:
        tx.change(sa.delete(t.tags).where(mine), rows=len(tags))


def test_a_transaction_without_reads_is_sent_at_once(
    db: Database, database: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = db._sender
    assert (sender is None) == (database == "sqlite")  # which has no round trips
    if sender is None:
        return
    sent: list[int] = []
    real = sender.commit

    def commit(cursor: Any, before: Any, reads: Any) -> Any:
        sent.append(len([one for one in before if one.text != sender.begin]))
        return real(cursor, before, reads)

    monkeypatch.setattr(sender, "commit", commit)
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project)])
        tx.change(sa.update(t.quotas).where(_q.project_id == project).values(limit=2))
        tx.record("port", project)
    assert sent == [3]


def test_a_deadlock_is_retried(db: Database, database: str, project: str) -> None:
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project, "a"), row(project, "b")])
    met = threading.Barrier(2, timeout=20)
    attempts: list[str] = []

    def add(first: str, second: str) -> None:
        def attempt() -> None:
            attempts.append(first)
            with db.transaction() as tx:
                for name in (first, second):
                    tx.change(
                        sa.update(t.quotas)
                        .where(_q.project_id == project, _q.resource == name)
                        .values(limit=_q.limit + 1)
                    )
                    if name == first:
                        tx.execute(_LIMIT, {"project": project})  # sends the update, which locks the row
                        if len(attempts) <= 2 and database != "sqlite":  # which has one writer
                            met.wait()

        db.retrying(attempt)

    threads = [threading.Thread(target=add, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert stored(db, project) == [("a", 3), ("b", 3)]
    if database == "sqlite":
        assert len(attempts) == 2
    else:
        assert len(attempts) > 2  # the victim may meet the other transaction again before that one has committed


# --- reading together -------------------------------------------------------------------------------------------------

_limit_of = Lookup(_LIMIT, scalar)
_n = t.networks.c
_NETWORK = RowsLookup(sa.select(_n.id, _n.admin_state_up, _n.mtu, _n.tags).where(_n.id == sa.bindparam("key")))
_WRONG: Read[Any] = Lookup(sa.select(sa.column("absent")).select_from(sa.table("nowhere")), scalar)()


def test_reads_that_are_sent_together_have_the_results_of_single_ones(
    server: Server, db: Database, project: str
) -> None:
    network = Api(server.app).network(admin_state_up=False)
    insert(db, [row(project, "port", 7)])
    reads = _limit_of(project=project), _NETWORK(key=network["id"]), _limit_of(project="none")
    with db.read() as connection:
        limit, rows, none = read_together(connection, *reads)
        assert (limit, rows, none) == tuple(read(connection, one) for one in reads)
    assert (limit, none) == (7, None)
    assert rows[0].admin_state_up is False  # MariaDB and SQLite store a number
    assert rows[0]._asdict() == connection.execute(_NETWORK.statement, {"key": network["id"]}).one()._asdict()


def test_reads_in_a_transaction_see_what_is_deferred(db: Database, project: str) -> None:
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project, "port", 7)])
        assert read_together(tx.connection, _limit_of(project=project), _limit_of(project="none")) == (7, None)


def test_values_are_data_in_statements_that_are_sent_together(db: Database, project: str) -> None:
    names = [project + text for text in ("'; DROP TABLE quotas; --", "%s", "\\", "ünï")]
    insert(db, [row(name, "port", i) for i, name in enumerate(names)])
    with db.read() as connection:
        assert read_together(connection, *(_limit_of(project=name) for name in names)) == (0, 1, 2, 3)  # type: ignore[call-overload]


def test_one_of_several_reads_that_fails_is_an_error_and_the_connection_remains(db: Database, project: str) -> None:
    for _ in range(2):
        with (
            pytest.raises((sa.exc.ProgrammingError, sa.exc.OperationalError), match="nowhere"),
            db.read() as connection,
        ):
            read_together(connection, _limit_of(project=project), _WRONG, _limit_of(project=project))
        with db.read() as connection:
            assert read_together(connection, _limit_of(project=project), _limit_of(project="none")) == (None, None)


def test_a_value_that_is_computed_with_each_execution_is(db: Database) -> None:
    numbers = iter(range(3))
    statement = sa.select(sa.bindparam("n", callable_=lambda: next(numbers), type_=sa.Integer))
    counted = Lookup(statement, scalar)
    with db.read() as connection:
        assert [read(connection, counted()) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 3, 20])
def test_rows_of_any_number_of_ids_are_read_once(server: Server, db: Database, count: int) -> None:
    api = Api(server.app)
    ids = [api.network()["id"] for _ in range(count + 1)][:count]  # and one that is not asked for
    networks = RowsLookup(sa.select(_n.id))
    with db.read() as connection:
        assert sorted(one.id for one in read_rows(connection, networks, _n.id, ids)) == sorted(ids)
        assert list(read_rows(connection, networks, _n.id, [])) == []


# --- guesses ----------------------------------------------------------------------------------------------------------


def test_a_guessed_segment_that_is_taken_is_chosen_again(
    another_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(another_server({"ml2_type_vxlan": {"vni_ranges": "1:100000"}}).app).as_admin()
    api.make("network")  # the first use of a quota is another attempt
    monkeypatch.setattr(type_drivers, "random_number", lambda ranges: 77)
    assert api.make("network")["provider:segmentation_id"] == 77
    assert api.make("network")["provider:segmentation_id"] != 77
