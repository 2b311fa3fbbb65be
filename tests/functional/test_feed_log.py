"""The change log on every database: whatever order transactions commit in, a reader by position sees all of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.transaction import Transaction, assign_ids
from neutrino.server.feed.change_log import BATCH, ChangeLog, Row
from tests.support.databases import DATABASES, prepared_database

WRITERS, TRANSACTIONS, SEQUENCERS = 4, 60, 3


@pytest.fixture(params=DATABASES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made = Database(prepared_database(request, request.param, tmp_path), sqlite_durable=False)
    schema.ensure(made)
    yield made
    made.close()


@pytest.fixture
def log(db: Database) -> ChangeLog:
    return ChangeLog(db)


def rows(db: Database, *keys: str) -> list[dict[str, Any]]:
    """Old rows, with ids as a transaction gives them."""
    made = [{"kind": "port", "object_id": key, "deleted": False, "at": "2026-01-01T00:00:00Z"} for key in keys]
    if db.dialect != "sqlite":
        assign_ids(made)
    return made


def write(db: Database, *keys: str) -> None:
    with db.transaction() as tx:
        for key in keys:
            tx.record("port", key)


def read(db: Database, log: ChangeLog, after: int = 0) -> list[Row]:
    log.sequence()
    with db.read() as connection:
        return log.after(connection, after)


def send(tx: Transaction) -> None:
    """Send what the transaction has deferred: a statement with a result takes it along."""
    tx.execute(sa.select(sa.literal(1)))


@pytest.mark.parametrize("db", DATABASES[1:], indirect=True)  # SQLite has one writer at a time, and so no other order
def test_the_first_inserted_commits_last(db: Database, log: ChangeLog) -> None:
    with db.transaction() as slow:
        slow.insert(t.changes, rows(db, "slow"))
        send(slow)
        write(db, "quick")
        seen = read(db, log)
        assert [r.object_id for r in seen] == ["quick"]
    with db.read() as connection:
        ids = {r.object_id: r.id for r in connection.execute(sa.select(t.changes))}
    assert ids["slow"] < ids["quick"]
    assert [r.object_id for r in read(db, log, seen[-1].position)] == ["slow"]


def test_a_transaction_that_is_taken_back_leaves_no_gap(db: Database, log: ChangeLog) -> None:
    write(db, "a")

    def fail() -> None:
        with db.transaction() as tx:
            tx.insert(t.changes, rows(db, "never"))
            send(tx)
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    write(db, "b")
    assert [(r.position, r.object_id) for r in read(db, log)] == [(1, "a"), (2, "b")]


def test_many_writers_and_several_processes_that_give_positions(db: Database, log: ChangeLog) -> None:
    seen: list[Row] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def guarded(work: Any, *args: Any) -> None:
        try:
            work(*args)
        except BaseException as error:
            failures.append(error)

    def writer(name: int) -> None:
        for i in range(TRANSACTIONS):
            write(db, *(f"{name}-{i}-{j}" for j in range(1 + i % 3)))

    def sequencer() -> None:
        while not done.is_set():
            ChangeLog(db).sequence()
            time.sleep(0.001)

    def reader() -> None:
        while True:
            last = done.is_set()
            with db.read() as connection:
                rows = log.after(connection, seen[-1].position if seen else 0)
            seen.extend(rows)
            if last and not rows:
                return

    writers = [threading.Thread(target=guarded, args=(writer, n)) for n in range(WRITERS)]
    others = [threading.Thread(target=guarded, args=(sequencer,)) for _ in range(SEQUENCERS)]
    reading = threading.Thread(target=guarded, args=(reader,))
    for thread in (*writers, *others, reading):
        thread.start()
    for thread in writers:
        thread.join()
    log.sequence()
    done.set()
    for thread in (*others, reading):
        thread.join()
    assert failures == []
    expected = {f"{n}-{i}-{j}" for n in range(WRITERS) for i in range(TRANSACTIONS) for j in range(1 + i % 3)}
    assert [r.position for r in seen] == list(range(1, len(expected) + 1))
    assert {r.object_id for r in seen} == expected


def test_more_than_one_batch(db: Database, log: ChangeLog) -> None:
    keys = [f"k{i}" for i in range(BATCH + 150)]
    write(db, *keys)
    assert log.sequence() == len(keys)
    first = read(db, log)
    rest = read(db, log, first[-1].position)
    assert [r.object_id for r in first + rest] == keys
    assert len(first) == BATCH


def test_old_rows_are_removed_and_recorded_in_the_head(db: Database, log: ChangeLog) -> None:
    with db.transaction() as tx:
        tx.insert(t.changes, rows(db, *(f"old{i}" for i in range(BATCH + 20))))
    write(db, "new")
    read(db, log)
    with db.transaction() as tx:
        tx.insert(t.changes, rows(db, "not seen by anybody yet"))
    assert log.compact(3600) == BATCH + 20
    head = log.head()
    assert (head.removed, head.position) == (BATCH + 20, BATCH + 21)
    assert [r.object_id for r in read(db, log)] == ["new", "not seen by anybody yet"]
    assert log.compact(3600) == 0


def test_a_row_stamped_in_the_future_does_not_stop_trimming(db: Database, log: ChangeLog) -> None:
    """Written by a server whose clock was wrong: also by many of them, and at the front of the log."""
    ahead = [{**row, "at": "2099-01-01T00:00:00Z"} for row in rows(db, *(f"ahead{i}" for i in range(BATCH + 5)))]
    with db.transaction() as tx:
        tx.insert(t.changes, ahead)
    log.sequence()
    with db.transaction() as tx:
        tx.insert(t.changes, rows(db, *(f"old{i}" for i in range(10))))
    log.sequence()
    write(db, "new")
    with db.transaction() as tx:
        tx.insert(t.changes, [{**row, "at": "2099-01-01T00:00:00Z"} for row in rows(db, "ahead and last")])
    log.sequence()
    assert log.compact(3600) == BATCH + 15
    assert [r.object_id for r in read(db, log)] == ["new", "ahead and last"]
    assert log.head().removed == BATCH + 15


def test_each_database_has_its_own_identity(db: Database, log: ChangeLog) -> None:
    heads: list[str] = []
    threads = [threading.Thread(target=lambda: heads.append(ChangeLog(db).head().identity)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(heads)) == 1
    assert len(heads[0]) == 36


@pytest.mark.parametrize("db", ["sqlite"], indirect=True)  # where writers stand in line
def test_on_sqlite_the_feed_writes_nothing(db: Database, log: ChangeLog) -> None:
    log.head()
    write(db, "a", "b")
    write(db, "c")
    assert log.sequence() == 0
    assert [(r.position, r.object_id) for r in read(db, log)] == [(1, "a"), (2, "b"), (3, "c")]
    log.compact(-10)
    write(db, "d")
    assert [(r.position, r.object_id) for r in read(db, log, 3)] == [(4, "d")]
