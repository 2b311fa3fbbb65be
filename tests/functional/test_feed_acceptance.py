"""What a server sends reaches the roles of a host only when it is accepted; a server with another database is not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.agent.guard.decide import OTHER_DATABASE
from neutrino.agent.guard.gate import Gate, GuardOptions
from neutrino.feed.address import Address
from neutrino.metrics.catalog import PROBLEMS
from neutrino.server.db import tables as t
from neutrino.server.feed.connections.credentials import Credentials, digest
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until

HOST = "h1"


@pytest.fixture
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Server]]:
    """Two clouds, each with its own database; both know the host."""
    made = []
    for name in ("own", "other"):
        directory = tmp_path / name
        directory.mkdir()
        made.append(start(directory, prepared_database(request, "sqlite", directory)))
        switch(made[-1], HOST, tunneling_ip="192.0.2.1")
    yield made[0], made[1]
    for server in made:
        server.close()


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await test

    asyncio.run(bounded())


def port(server: Server) -> str:
    api = Api(server.app).as_admin()
    made: str = api.port(api.network(), binding__host_id=HOST, device_owner="compute:nova")["id"]
    return made


@pytest.fixture
def key(servers: tuple[Server, Server]) -> str:
    """One credential for both, as after a copy of the database."""
    made = Credentials(servers[0].db).add(HOST)
    Credentials(servers[1].db).add(HOST)
    with servers[1].db.transaction() as tx:
        tx.execute(sa.update(t.host_credentials).values(digest=digest(made)))
    return made


class GuardedEnd(HostEnd):
    """A host whose gate decides; its roles would see `changes`."""

    def __init__(self, address: Address, key: str, cache: Path) -> None:
        super().__init__(address, HOST, key, cache)
        self.options = GuardOptions()
        self.gate = Gate(self.client, self.options, None, lambda: 0.05)

    async def __aenter__(self) -> GuardedEnd:
        await super().__aenter__()
        self._tasks.append(asyncio.create_task(self.gate.run()))
        return self


def test_a_running_agent_keeps_its_objects_while_the_server_has_another_database(
    servers: tuple[Server, Server], key: str, tmp_path: Path
) -> None:
    own, other = servers
    address, mine, theirs = Address(path=str(tmp_path / "feed.sock")), port(own), port(other)

    async def test() -> None:
        async with GuardedEnd(address, key, tmp_path / "feed.json") as host:
            await host.gate.opened()  # without a server, from the cache
            async with serving(own, address):
                await host.equals_the_database(own)
            assert host.gate.problems == {}
            host.changes.clear()
            before = host.objects()
            async with serving(other, address):
                await until(lambda: OTHER_DATABASE in host.gate.problems, "the other database to be noticed")
                assert list(host.gate.measures()) == [(PROBLEMS, ("start",), 1)]
                late = await asyncio.to_thread(port, other)
                await until(lambda: late in (host.client.offered or host.client.state).objects["port"], "its changes")
                assert host.objects() == before
                assert host.changes == []
                assert not host.client.is_synced
            async with serving(own, address):
                await until(lambda: host.client.is_synced, "the own server to be accepted without a question")
                await until(lambda: host.gate.problems == {}, "no problem any more")
            assert host.changes == []
            async with serving(other, address):
                await until(lambda: OTHER_DATABASE in host.gate.problems, "the other database to be noticed")
                host.options.despite = frozenset({OTHER_DATABASE})
                await until(lambda: host.client.is_synced, "the other database to be accepted")
                await host.equals_the_database(other)
                assert host.client.state.get("port", mine) is None
                assert host.client.state.get("port", theirs) is not None
                assert host.client.state.cursor is not None
                host.options.despite = frozenset()
                await until(lambda: host.gate.problems == {}, "no problem any more")
        async with GuardedEnd(address, key, tmp_path / "feed.json") as again, serving(other, address):
            await until(lambda: again.client.is_synced, "an accepted database is in the cache")
            assert again.gate.problems == {}

    run(test())


def test_an_object_that_is_created_and_deleted_while_the_server_is_not_accepted_is_no_change(
    servers: tuple[Server, Server], key: str, tmp_path: Path
) -> None:
    own, _ = servers
    address = Address(path=str(tmp_path / "feed.sock"))

    async def test() -> None:
        host = HostEnd(address, HOST, key)
        offers = asyncio.Event()
        host.client.hold_until_accepted(offers.set)
        async with host, serving(own, address):
            await offers.wait()
            made, gone = await asyncio.to_thread(port, own), await asyncio.to_thread(port, own)
            offered = host.client.offered
            assert offered is not None
            await until(lambda: {made, gone} <= offered.objects["port"].keys(), "both")
            api = Api(own.app).as_admin()
            await asyncio.to_thread(lambda: api.delete(f"/ports/{gone}").expect(204))
            await until(lambda: gone not in offered.objects["port"], "the deletion")
            assert host.objects() == {}
            host.client.accept()
            await host.equals_the_database(own)
            assert {change.id for change in host.changes if change.kind == "port"} == {made}
            later = await asyncio.to_thread(port, own)
            await host.equals_the_database(own)
            assert host.client.state.get("port", later) is not None

    run(test())
