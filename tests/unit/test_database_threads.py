"""What the database keeps per thread: a connection for reading, and callbacks that wait for the end of the retries."""

from __future__ import annotations

import gc
import itertools
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.db.session import Database, Stale


@pytest.fixture
def db(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'threads.sqlite'}")


def in_a_thread(db: Database, statement: str) -> None:
    def read() -> None:
        with db.read() as connection:
            connection.execute(sa.text(statement))

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()


def out(db: Database) -> int:
    return db._reads.pool.checkedout()  # type: ignore[attr-defined]


def test_the_connection_of_an_ended_thread_returns_to_the_pool(db: Database) -> None:
    gc.disable()  # only the end of the thread returns the connection
    try:
        for _ in range(100):  # more than the pool has
            in_a_thread(db, "SELECT 1")
    finally:
        gc.enable()
    assert out(db) == 0
    db.close()


def test_a_thread_keeps_one_connection_for_all_its_reads(db: Database) -> None:
    with db.read() as first:
        pass
    with db.read() as second:
        assert second is first
    assert out(db) == 1
    db.close()


def test_threads_that_handle_requests_in_turn_need_one_connection(db: Database) -> None:
    """Of a worker's many threads few handle requests at a time."""
    ended = threading.Event()

    def handle() -> None:
        db.adopt()
        with db.read() as connection:
            connection.execute(sa.text("SELECT 1"))
        db.leave()
        handled.set()
        ended.wait(30)

    threads = []
    for _ in range(100):  # more than the pool has, all alive
        handled = threading.Event()
        threads.append(threading.Thread(target=handle))
        threads[-1].start()
        assert handled.wait(30)
    assert out(db) == 1
    ended.set()
    for thread in threads:
        thread.join()
    db.close()
    assert out(db) == 0


def test_a_failed_connection_is_not_kept(db: Database) -> None:
    with db.read() as first:
        pass
    with pytest.raises(sa.exc.SQLAlchemyError), db.read() as connection:
        connection.execute(sa.text("SELECT nothing FROM nowhere"))
    assert first.closed
    assert out(db) == 0
    with db.read() as another:
        assert another.execute(sa.text("SELECT 1")).scalar() == 1
    db.close()


def test_callbacks_run_once_after_the_last_attempt(db: Database) -> None:
    attempts, called = itertools.count(), []

    def further_write() -> None:
        with db.transaction() as tx:
            tx.after_commit(called.append, 11)

    def callback(number: int) -> None:
        called.append(number)
        db.retrying(further_write)

    def attempt() -> str:
        with db.transaction() as tx:
            tx.after_commit(callback, 10)
            if next(attempts) == 0:
                raise Stale
        assert not called, "not while the method may still be repeated"
        return "done"

    assert db.retrying(attempt) == "done"
    assert called == [10, 11]
    db.close()


def test_callbacks_of_a_refused_write_do_not_run(db: Database) -> None:
    called: list[int] = []

    def attempt() -> None:
        with db.transaction() as tx:
            tx.after_commit(called.append, 1)
        raise errors.MechanismDriverError(method="create_port_postcommit", drivers="one")

    with pytest.raises(errors.MechanismDriverError):
        db.retrying(attempt)
    assert called == []
    db.close()
