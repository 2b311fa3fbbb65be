"""Reads whose statement is kept: the driver executes them, with results and errors as SQLAlchemy's."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.compiled import DirectConnection, kept
from neutrino.server.db.session import Database
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.main import Server
from tests.api.client import Api

_n = t.networks.c
_NETWORK = kept(sa.select(_n.id, _n.admin_state_up, _n.mtu, _n.tags).where(_n.id == sa.bindparam("key")))


@pytest.fixture
def db(server: Server) -> Database:
    server.db._reads._has_events = False  # SQLAlchemy leaves it set by a test that has listened to all engines
    return server.db


def test_results_are_the_same_whoever_executes_the_statement(server: Server, db: Database) -> None:
    network = Api(server.app).network(admin_state_up=False)
    with db.read() as connection:
        first, second = (connection.execute(_NETWORK, {"key": network["id"]}) for _ in range(2))
        assert isinstance(first, sa.CursorResult)
        assert not isinstance(second, sa.CursorResult)
        found = first.one(), second.one()
        assert found[0]._asdict() == found[1]._asdict()
        assert found[1].admin_state_up is False  # MariaDB and SQLite store a number
        assert found[1]._mapping[_n.mtu] == network["mtu"]
        assert connection.execute(_NETWORK, {"key": str(uuid.uuid4())}).first() is None


def test_an_error_of_the_driver_is_sqlalchemys_and_the_connection_remains(db: Database) -> None:
    table = sa.table(f"t{uuid.uuid4().hex}", sa.column("a", sa.Integer))
    statement = kept(sa.select(table.c.a).where(table.c.a == sa.bindparam("key", type_=sa.Integer)))
    with db.engine().begin() as connection:
        connection.execute(sa.text(f"CREATE TABLE {table.name} (a INTEGER)"))
    with db.read() as connection:
        for _ in range(2):
            assert connection.execute(statement, {"key": 1}).all() == []
    with db.engine().begin() as connection:
        connection.execute(sa.text(f"DROP TABLE {table.name}"))
    with pytest.raises((sa.exc.ProgrammingError, sa.exc.OperationalError), match=table.name), db.read() as connection:
        connection.execute(statement, {"key": 1})
    with db.read() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1


def test_a_value_that_is_computed_with_each_execution_is_not_kept(db: Database) -> None:
    numbers = iter(range(3))
    statement = kept(sa.select(sa.bindparam("n", callable_=lambda: next(numbers), type_=sa.Integer)))
    with db.read() as connection:
        assert [connection.execute(statement, {}).scalar() for _ in range(3)] == [0, 1, 2]


def test_listeners_hear_of_every_execution(db: Database) -> None:
    executed: list[str] = []

    def listen(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        executed.append(text)

    sa.event.listen(db._reads, "before_cursor_execute", listen)
    try:
        with db.read() as connection:
            for _ in range(3):
                connection.execute(_NETWORK, {"key": ""}).all()
    finally:
        sa.event.remove(db._reads, "before_cursor_execute", listen)
        db._reads._has_events = False  # SQLAlchemy leaves it set, and the server is shared with other tests
    assert len(executed) == 3


@pytest.mark.parametrize("count", [1, 3, 20])
def test_rows_of_any_number_of_ids_are_read_once(server: Server, db: Database, count: int) -> None:
    api = Api(server.app)
    ids = [api.network()["id"] for _ in range(count + 1)][:count]  # and one that is not asked for
    statement = kept(sa.select(_n.id))
    with db.read() as connection:
        for _ in range(2):  # by SQLAlchemy, and by the driver
            assert sorted(row.id for row in read_rows(connection, statement, _n.id, ids)) == sorted(ids)
        assert list(read_rows(connection, statement, _n.id, [])) == []


def test_what_services_read_of_a_deleted_port_is_sent_together(
    server: Server, db: Database, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(server.app)
    network = api.network()
    first, second = (api.port(network)["id"] for _ in range(2))
    api.delete(f"/ports/{first}").expect(204)  # from now on the driver executes the statements
    alone: list[str] = []
    for owner, name in ((DirectConnection, "executed"), (sa.Connection, "execute")):
        real = getattr(owner, name)

        def recorded(self: Any, statement: Any, *given: Any, real: Any = real, **more: Any) -> Any:
            result = real(self, statement, *given, **more)
            if isinstance(self, DirectConnection) and result is not None:
                alone.append(str(statement))
            return result

        monkeypatch.setattr(owner, name, recorded)
    api.delete(f"/ports/{second}").expect(204)
    assert bool(alone) == (database == "sqlite"), alone  # which has no round trips
