"""Connections that threads keep: one each while they live, none afterwards."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino.server.db.session import Database


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
