"""Positions and the identity of a database: no feed process takes a host back to an earlier state of the same database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from websockets.asyncio.server import ServerConnection, unix_serve
from websockets.exceptions import ConnectionClosed

from neutrino.cli.main import main
from neutrino.feed.address import Address
from neutrino.feed.messages import Cursor, Gone, Hello, Put, Refused, Synced, Welcome, encode
from neutrino.server.db import tables as t
from neutrino.server.feed import server as feed_server
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, getattr(request, "param", "sqlite"), tmp_path))
    switch(made, "h1", tunneling_ip="192.0.2.1")
    yield made
    made.close()


@pytest.fixture
def key(server: Server) -> str:
    return Credentials(server.db).add("h1")


@pytest.fixture
def log(server: Server) -> ChangeLog:
    return ChangeLog(server.db)


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 90))


def new_port(server: Server, network: dict[str, Any]) -> dict[str, Any]:
    api = Api(server.app, project=network["project_id"]).as_admin()
    return api.port(network, binding__host_id="h1", device_owner="compute:nova")


def test_a_feed_that_is_behind_catches_up_before_it_compares(
    server: Server, key: str, log: ChangeLog, address: Address
) -> None:
    network = Api(server.app).as_admin().network()

    async def test() -> None:
        async with serving(server, address) as feed, Raw(address, "h1", key) as raw:
            log.sequence()
            head = log.head()
            await until(lambda: feed.fanout.position == head.position, "the feed to have read everything")
            # As another feed process has it, which has read one change more than this one.
            await raw.send(Hello(host="h1", cursor=Cursor(head.identity, head.position + 1)))
            answer = asyncio.create_task(raw.receive_until_synced())
            await asyncio.wait([answer], timeout=0.2)
            port = await asyncio.to_thread(new_port, server, network)
            messages = await answer
            assert isinstance(messages[0], Welcome)
            assert messages[0].cursor.position > head.position
            sent = {message.kind: message for message in messages if isinstance(message, Put)}
            assert port["id"].encode() in bytes(sent["port"].object)

    run(test())


def test_a_host_ahead_of_its_database_is_refused_until_the_database_has_a_new_identity(
    server: Server, key: str, log: ChangeLog, address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_server, "CATCH_UP_SECONDS", 0.05)
    head = log.head()
    hello = Hello(host="h1", cursor=Cursor(head.identity, head.position + 1000))
    conf = tmp_path / "server.conf"
    url = server.db.url.render_as_string(hide_password=False)
    conf.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n")

    async def test() -> None:
        async with serving(server, address):
            async with Raw(address, "h1", key) as raw:
                await raw.send(hello)
                (refused,) = await raw.receive()
                assert isinstance(refused, Refused)
                assert str(head.position + 1000) in refused.reason
                assert "neutrino db restored" in refused.reason
            # A host that never had a position of this database is not concerned.
            async with Raw(address, "h1", key) as raw:
                await raw.send(Hello(host="h1", cursor=Cursor("another", head.position + 1000)))
                assert isinstance((await raw.receive_until_synced())[0], Welcome)
            assert await asyncio.to_thread(main, ["db", "restored", "--config-file", str(conf)]) == 0
            new = log.head()
            assert new.identity != head.identity
            assert new.position >= head.position

            async def welcomed() -> Welcome:
                while True:
                    with contextlib.suppress(ConnectionClosed):  # the feed reads everything again
                        async with Raw(address, "h1", key) as raw:
                            await raw.send(hello)
                            if isinstance(found := (await raw.receive())[0], Welcome):
                                return found

            assert (await asyncio.wait_for(welcomed(), 20)).database == new.identity

    run(test())


def test_a_host_refuses_a_server_that_is_behind(
    server: Server, key: str, address: Address, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one of an earlier release, which does not wait: the host keeps its port, and asks the next server."""
    network = Api(server.app).as_admin().network()
    port = new_port(server, network)["id"]
    old, refused = Address(path=str(tmp_path / "old.sock")), asyncio.Event()

    async def behind(connection: ServerConnection) -> None:
        await connection.recv()
        head = ChangeLog(server.db).head()
        cursor = Cursor(head.identity, 0)
        messages = [Welcome(cursor=cursor), Gone(kind="port", id=port), Synced(position=cursor.position)]
        await connection.send(encode(messages).decode())
        await connection.wait_closed()
        refused.set()

    async def test() -> None:
        cache = tmp_path / "cache.json"
        async with serving(server, address), HostEnd(address, "h1", key, cache) as h1:
            await asyncio.to_thread(new_port, server, network)
            await h1.equals_the_database(server)
        again = HostEnd(old, "h1", key, cache)
        async with await unix_serve(behind, old.path), again:
            await asyncio.wait_for(refused.wait(), 10)
            assert again.client.state.get("port", port) is not None
            assert not again.client.is_synced
            assert not again.client.connected
        assert "behind" in caplog.text

    caplog.set_level("INFO")
    run(test())


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_a_database_that_lost_positions_under_a_running_feed_gets_a_new_identity(
    server: Server, key: str, log: ChangeLog, address: Address
) -> None:
    """As after a failover to a replica that had not received the last transactions."""
    network = Api(server.app).as_admin().network()
    new_port(server, network)
    log.sequence()
    before = log.head()
    lost = new_port(server, network)["id"]

    def lose() -> None:
        with server.db.transaction() as tx:
            tx.write(sa.update(t.change_head).values(position=before.position))
            tx.write(sa.delete(t.changes).where(t.changes.c.position > before.position))
            tx.write(sa.delete(t.ports).where(t.ports.c.id == lost))

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", key) as h1:
            await h1.equals_the_database(server)
            assert h1.client.state.get("port", lost) is not None
            await asyncio.to_thread(lose)
            await until(lambda: log.head().identity != before.identity, "the feed to notice")
            await until(lambda: h1.client.state.get("port", lost) is None, "the host to lose the port")
            await h1.equals_the_database(server)
            await until(lambda: h1.client.state.cursor.database == log.head().identity, "the host to be synced")
            assert h1.client.state.cursor.position >= before.position  # its own reports may be in the log already

    run(test())


def test_a_truncated_log_is_noticed_while_nothing_changes(
    server: Server, key: str, log: ChangeLog, address: Address
) -> None:
    network = Api(server.app).as_admin().network()

    async def test() -> None:
        async with serving(server, address) as feed, HostEnd(address, "h1", key) as h1:
            await h1.equals_the_database(server)
            before = feed.fanout
            new_port(server, network)  # in the loop's own thread: the feed cannot read meanwhile
            log.sequence()
            log.compact(-10)
            await h1.equals_the_database(server)
            assert feed.fanout is not before

    run(test())


def test_a_lagging_node_gets_no_new_identity(server: Server, log: ChangeLog) -> None:
    """A node that has not applied the last transactions has them a moment later: then nothing was lost."""
    log.sequence()
    head = log.head()
    assert not log.renew_if_lost(head.identity, head.position)
    assert not log.renew_if_lost("another", head.position + 1)
    assert log.head() == head
    assert log.renew_if_lost(head.identity, head.position + 1)
    assert log.head().identity != head.identity
