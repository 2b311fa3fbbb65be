"""A COMMIT that is not answered: the database decides whether it happened, and the write is made exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.transaction import FENCE
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.mariadb import MariaDB
from tests.support.postgres import Postgres


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Postgres, marks=pytest.mark.postgres),
        pytest.param(MariaDB, marks=pytest.mark.mariadb),
    ],
)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with request.param() as database:
        made = start(tmp_path_factory.mktemp("server"), database.create_database("commits"))
        yield made
        made.close()


class LostCommit:
    """Cuts the connection once, instead of COMMIT or after it."""

    def __init__(self, server: Server, *, executed: bool) -> None:
        self._engine = server.db._writes
        self._executed = executed
        self.cuts = 0

    def __enter__(self) -> LostCommit:
        self._original = self._engine.dialect.do_commit
        self._engine.dialect.do_commit = self._commit  # type: ignore[method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.dialect.do_commit = self._original  # type: ignore[method-assign]

    def _commit(self, connection: Any) -> None:
        if self.cuts:
            self._original(connection)
            return
        self.cuts += 1
        if self._executed:
            self._original(connection)
        raw = connection.driver_connection
        if self._engine.dialect.name == "postgresql":
            raw.pgconn.finish()
        else:
            raw._force_close()
        raw.commit()  # raises what the driver raises on a lost connection


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
def test_the_write_is_made_once(server: Server, executed: bool) -> None:
    api, name = Api(server.app), f"executed {executed}"
    with LostCommit(server, executed=executed) as lost:
        made = api.post("/networks", {"network": {"name": name}}).expect(201).body["network"]
    assert lost.cuts == 1
    assert [network["id"] for network in api.all("/networks", {"name": name})] == [made["id"]]
    with server.db.read() as connection:
        fences = sa.select(sa.func.count()).where(t.changes.c.kind == FENCE)
        assert connection.execute(fences).scalar() == (0 if executed else 1)
        connection.execute(sa.delete(t.changes).where(t.changes.c.kind == FENCE))


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
def test_an_update_and_a_delete(server: Server, executed: bool) -> None:
    api = Api(server.app)
    key = api.network()["id"]
    with LostCommit(server, executed=executed):
        assert api.put(f"/networks/{key}", {"network": {"name": "new"}}).expect(200).body["network"]["name"] == "new"
    with LostCommit(server, executed=executed):
        api.delete(f"/networks/{key}").expect(204)
    api.get(f"/networks/{key}").expect(404)
    with server.db.read() as connection:
        connection.execute(sa.delete(t.changes).where(t.changes.c.kind == FENCE))


def test_without_a_change_log_row_the_outcome_is_unknown(server: Server) -> None:
    api = Api(server.app).as_admin()
    with LostCommit(server, executed=True):
        answer = api.put(f"/quotas/{api.project}", {"quota": {"network": 50}})
    answer.refused(503, "DatabaseOutcomeUnknown")
    assert "retry-after" not in answer.headers
