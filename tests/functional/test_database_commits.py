"""A COMMIT that is not answered: the database decides whether it happened, and the write is made exactly once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.batch import SentText, Statement
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
    """Cuts the connection once, before COMMIT is sent or after it was executed.

    Of a transaction that writes to `table`: the process writes its own state meanwhile.
    """

    def __init__(self, server: Server, table: str, *, executed: bool) -> None:
        assert server.db._sender is not None
        self._sender: Any = server.db._sender
        self._table = table
        self._executed = executed
        self.cuts = 0

    def __enter__(self) -> LostCommit:
        self._original = self._sender.commit
        self._sender.commit = self._commit
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.commit = self._original

    def _commit(self, cursor: Any, before: Sequence[Statement], reads: Sequence[SentText]) -> Any:
        if self.cuts or not any(self._table in one.text for one in before):
            return self._original(cursor, before, reads)
        self.cuts += 1
        if self._executed:
            self._original(cursor, before, reads)
        connection = cursor.connection
        if hasattr(connection, "pgconn"):
            connection.pgconn.finish()
        else:
            connection._force_close()
        return cursor.execute("SELECT 1")  # raises what the driver raises on a lost connection


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
def test_the_write_is_made_once(server: Server, executed: bool) -> None:
    api, name = Api(server.app), f"executed {executed}"
    api.network()  # the first one of a project makes its counter, which sends the transaction in two parts
    with LostCommit(server, "networks", executed=executed) as lost:
        made = api.post("/networks", {"network": {"name": name}}).expect(201).body["network"]
    assert lost.cuts == 1
    assert [network["id"] for network in api.all("/networks", {"name": name})] == [made["id"]]
    with server.db.read() as connection:
        fences = sa.select(sa.func.count()).where(t.changes.c.kind == FENCE)
        assert connection.execute(fences).scalar() == (0 if executed else 1)
        connection.execute(sa.delete(t.changes).where(t.changes.c.kind == FENCE))


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
def test_what_follows_the_commit_is_read_nevertheless(server: Server, executed: bool) -> None:
    api = Api(server.app)
    other, network = (api.network()["id"] for _ in range(2))
    subnet = {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"}
    api.post("/subnets", {"subnet": {**subnet, "network_id": other}}).expect(201)  # makes the counter
    with LostCommit(server, "subnets", executed=executed) as lost:
        made = api.post("/subnets", {"subnet": subnet}).expect(201).body["subnet"]
    assert lost.cuts == 1
    assert [found["id"] for found in api.all("/subnets", {"network_id": network})] == [made["id"]]
    with server.db.read() as connection:
        connection.execute(sa.delete(t.changes).where(t.changes.c.kind == FENCE))


@pytest.mark.parametrize("executed", [True, False], ids=["executed", "not executed"])
def test_an_update_and_a_delete(server: Server, executed: bool) -> None:
    api = Api(server.app)
    key = api.network()["id"]
    with LostCommit(server, "networks", executed=executed) as lost:
        assert api.put(f"/networks/{key}", {"network": {"name": "new"}}).expect(200).body["network"]["name"] == "new"
    assert lost.cuts == 1
    # The network's own row is deleted in an earlier part of the transaction, which needs the number of rows.
    with LostCommit(server, "changes", executed=executed) as lost:
        api.delete(f"/networks/{key}").expect(204)
    assert lost.cuts == 1
    api.get(f"/networks/{key}").expect(404)
    with server.db.read() as connection:
        connection.execute(sa.delete(t.changes).where(t.changes.c.kind == FENCE))


def test_without_a_change_log_row_the_outcome_is_unknown(server: Server) -> None:
    api = Api(server.app).as_admin()
    with LostCommit(server, "quotas", executed=True) as lost:
        answer = api.put(f"/quotas/{api.project}", {"quota": {"network": 50}})
    assert lost.cuts == 1
    answer.refused(503, "DatabaseOutcomeUnknown")
    assert "retry-after" not in answer.headers
