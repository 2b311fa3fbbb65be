"""The database closes its connections: the feed reconnects, hosts stay connected, no report is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino.feed.address import Address
from neutrino.server.feed.connections.credentials import Credentials
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until


def cut_postgres(url: str) -> None:
    with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        connection.execute(sa.text(f"{others} AND datname = current_database()"))


def cut_mariadb(url: str) -> None:
    with sa.create_engine(url, isolation_level="AUTOCOMMIT").connect() as connection:
        others = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = DATABASE()"
        for number in connection.execute(sa.text(others)).scalars().all():
            with contextlib.suppress(sa.exc.OperationalError):  # it has disconnected meanwhile
                connection.execute(sa.text(f"KILL {int(number)}"))


@pytest.mark.parametrize(
    "kind, cut",
    [
        pytest.param("postgresql", cut_postgres, marks=pytest.mark.postgres),
        pytest.param("mariadb", cut_mariadb, marks=pytest.mark.mariadb),
    ],
)
def test_connections_that_are_cut(
    request: pytest.FixtureRequest, kind: str, cut: Callable[[str], None], tmp_path: Path
) -> None:
    url = prepared_database(request, kind, tmp_path)
    server = start(tmp_path, url)
    switch(server, "h1")
    api = Api(server.app).as_admin()
    network = api.network()
    credential = Credentials(server.db).add("h1")
    address = Address(path=str(tmp_path / "feed.sock"))

    def port() -> tuple[str, int]:
        for _ in range(4):  # each connection of the pool may find out once
            body = {"port": {"network_id": network["id"], "binding:host_id": "h1", "device_owner": "compute:x"}}
            answer = api.post("/ports", body)
            if answer.status == 201:
                return answer.body["port"]["id"], answer.body["port"]["revision_number"]
        raise AssertionError(answer.body)

    def status(key: str) -> str:
        answers = [api.get(f"/ports/{key}") for _ in range(20)]  # as above
        return str(answers[-1].expect(200).body["port"]["status"])

    async def test() -> None:
        async with asyncio.timeout(60), serving(server, address), HostEnd(address, "h1", credential) as h1:
            await h1.client.wait_synced()
            for _ in range(3):
                await asyncio.to_thread(cut, url)
                made, revision = await asyncio.to_thread(port)
                h1.client.port_up(made, revision)
                await until(lambda made=made: h1.client.state.get("port", made) is not None, "the port")  # type: ignore[misc]
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
                assert await asyncio.to_thread(status, made) == "ACTIVE"

    asyncio.run(test())
    server.close()
