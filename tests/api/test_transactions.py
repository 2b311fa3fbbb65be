"""Statements of a transaction that are sent together, and reads sent ahead: results and errors as if sent one by one."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino import request_ids
from neutrino.server import errors
from neutrino.server.db import batch
from neutrino.server.db import tables as t
from neutrino.server.db.read_ahead import Read
from neutrino.server.db.session import Database, Stale
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


@pytest.fixture
def in_request() -> Iterator[None]:
    token = request_ids.CURRENT.set(f"req-{uuid.uuid4()}")
    yield
    request_ids.CURRENT.reset(token)


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
    sent: list[tuple[int, str]] = []
    real = sender.send

    def send(cursor: Any, before: Any, last: batch.Statement, reads: Any) -> Any:
        sent.append((len([one for one in before if one.text != sender.begin]), last.text))
        return real(cursor, before, last, reads)

    monkeypatch.setattr(sender, "send", send)
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project)])
        tx.change(sa.update(t.quotas).where(_q.project_id == project).values(limit=2))
        tx.record("port", project)
    assert sent == [(3, "COMMIT")]


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


# --- reading ahead ----------------------------------------------------------------------------------------------------


def limit_of(db: Database, project: str) -> Any:
    with db.read() as connection:
        return connection.execute(_LIMIT, {"project": project}).scalar()


def set_limit(other: Database, project: str, limit: int) -> None:
    with other.transaction() as tx:
        tx.write(sa.update(t.quotas).where(_q.project_id == project).values(limit=limit))


@pytest.fixture
def other(server: Server) -> Iterator[Database]:
    """A second server on the same database."""
    made = Database(server.db.url.render_as_string(hide_password=False))
    yield made
    made.close()


@pytest.fixture
def announced(db: Database, project: str, in_request: None) -> Callable[[], None]:
    """Announces two reads; stores what they read first."""
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project), row(project + "2", "port", 2)])
    return lambda: db.read_ahead(lambda: [Read(_LIMIT, {"project": project}), Read(_LIMIT, {"project": project + "2"})])


def test_announced_reads_are_handed_out_once(
    db: Database, database: str, other: Database, project: str, announced: Callable[[], None]
) -> None:
    announced()
    set_limit(other, project, 5)
    assert limit_of(db, project) == (5 if database == "sqlite" else 1)
    assert limit_of(db, project) == 5
    assert limit_of(db, project + "2") == 2


def test_an_announced_read_without_rows_has_none(db: Database, project: str, in_request: None) -> None:
    db.read_ahead(lambda: [Read(_LIMIT, {"project": project}), Read(_LIMIT, {"project": "none"})])
    assert limit_of(db, project) is None
    assert limit_of(db, "none") is None


def test_after_a_transaction_everything_is_read_again(
    db: Database, other: Database, project: str, announced: Callable[[], None]
) -> None:
    announced()
    set_limit(other, project, 5)
    with db.transaction():
        pass
    assert limit_of(db, project) == 5


def test_after_a_lost_race_everything_is_read_again(
    db: Database, other: Database, project: str, announced: Callable[[], None]
) -> None:
    found: list[Any] = []

    def attempt() -> None:
        if not found:
            announced()
            found.append(None)
            set_limit(other, project, 5)
            raise Stale
        found.append(limit_of(db, project))

    db.retrying(attempt)
    assert found == [None, 5]


def test_another_request_reads_for_itself(
    db: Database, other: Database, project: str, announced: Callable[[], None]
) -> None:
    announced()
    set_limit(other, project, 5)
    token = request_ids.CURRENT.set("req-another")
    try:
        assert limit_of(db, project) == 5
    finally:
        request_ids.CURRENT.reset(token)


def test_an_announced_read_that_fails_is_an_error_where_it_is_made(db: Database, in_request: None) -> None:
    wrong = sa.text("SELECT nothing FROM nowhere WHERE 1 = :one")
    db.read_ahead(lambda: [Read(_LIMIT, {"project": "x"}), Read(wrong, {"one": 1})])
    assert limit_of(db, "x") is None  # the connection is replaced
    with pytest.raises(sa.exc.DBAPIError), db.read() as connection:
        connection.execute(wrong, {"one": 1})


# --- reading with COMMIT ----------------------------------------------------------------------------------------------


def write_and_read(db: Database, project: str, *reads: Read) -> None:
    limit_of(db, project)  # the thread has a connection to read
    with db.transaction() as tx:
        tx.insert(t.quotas, [row(project)])
        tx.read_after_commit(Read(_LIMIT, {"project": project}), *reads)


def test_what_is_read_with_the_commit_is_handed_out_once(
    db: Database, database: str, other: Database, project: str, in_request: None
) -> None:
    write_and_read(db, project, Read(_LIMIT, {"project": "none"}))
    set_limit(other, project, 5)
    assert limit_of(db, project) == (5 if database == "sqlite" else 1)
    assert limit_of(db, project) == 5
    assert limit_of(db, "none") is None


def test_a_read_that_fails_after_the_commit_leaves_it_committed(db: Database, project: str, in_request: None) -> None:
    wrong = Read(sa.text("SELECT nothing FROM nowhere WHERE 1 = :one"), {"one": 1})
    write_and_read(db, project, wrong)
    assert stored(db, project) == [("port", 1)]
    assert limit_of(db, project) == 1
    insert(db, [row(project, "network")])  # the connections are usable
    assert stored(db, project) == [("network", 1), ("port", 1)]


def test_reads_with_a_commit_that_fails_have_no_result(
    db: Database, other: Database, project: str, in_request: None
) -> None:
    insert(db, [row(project)])
    with pytest.raises(sa.exc.IntegrityError):
        write_and_read(db, project)
    set_limit(other, project, 5)
    assert limit_of(db, project) == 5


# --- guesses ----------------------------------------------------------------------------------------------------------


def test_a_guessed_segment_that_is_taken_is_chosen_again(
    another_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(another_server({"ml2_type_vxlan": {"vni_ranges": "1:100000"}}).app).as_admin()
    api.make("network")  # the first use of a quota is another attempt
    monkeypatch.setattr(type_drivers, "random_number", lambda ranges: 77)
    assert api.make("network")["provider:segmentation_id"] == 77
    assert api.make("network")["provider:segmentation_id"] != 77
