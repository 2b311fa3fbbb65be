"""Hosts on a real feed: scope, reports, and lost connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from neutrino.feed.address import Address
from neutrino.feed.messages import Ack, ErrorMessage, Hello, Put, Refused, Report
from neutrino.model.agents import OVS, AgentState
from neutrino.model.state import Port
from neutrino.server.feed import server as feed_server
from neutrino.server.feed import wake
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.records import PortRecord
from neutrino.server.main import Server
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_changes import HOSTS, RandomChanges
from tests.support.feed_raw import Raw


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    unlimited = {f"quota_{name}": "-1" for name in ("network", "subnet", "port", "security_group")}
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {"quotas": unlimited})
    for i, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{i}")
    yield made
    made.close()


@pytest.fixture
def keys(server: Server) -> dict[str, str]:
    credentials = Credentials(server.db)
    return {host: credentials.add(host) for host in HOSTS}


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(90):
            await test

    asyncio.run(bounded())


def bound(server: Server, network: dict[str, Any], host: str, **values: Any) -> dict[str, Any]:
    owner = {"device_owner": "compute:nova", **values}
    return Api(server.app, project=network["project_id"]).as_admin().port(network, binding__host_id=host, **owner)


def test_a_host_receives_what_its_ports_need(server: Server, keys: dict[str, str], address: Address) -> None:
    api = Api(server.app).as_admin()

    async def test() -> None:
        network, other = api.network(), api.network()
        subnet = api.subnet(network)
        async with serving(server, address), HostEnd(address, "h1", keys["h1"]) as h1:
            await h1.client.wait_synced()
            assert h1.objects() == {}
            port = await asyncio.to_thread(bound, server, network, "h1")
            await asyncio.to_thread(bound, server, other, "h2")
            await h1.equals_the_database(server)
            mine = h1.client.state.get("port", port["id"])
            assert mine.mac_address == port["mac_address"]
            assert [f.ip_address for f in mine.fixed_ips] == [port["fixed_ips"][0]["ip_address"]]
            assert [s.id for s in h1.client.state.get("network", network["id"]).subnets] == [subnet["id"]]
            assert h1.client.state.get("network", other["id"]) is None
            assert h1.client.state.objects["host"] == {}
            there = await asyncio.to_thread(bound, server, network, "h2")
            await h1.equals_the_database(server)
            assert h1.client.state.get("host", "h2").tunneling_ip == "192.0.2.1"
            assert h1.client.state.get("forwarding", there["id"]).host == "h2"
            await asyncio.to_thread(lambda: api.delete(f"/ports/{there['id']}").expect(204))
            await h1.equals_the_database(server)
            assert h1.client.state.objects["host"] == {}

    run(test())


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_after_any_changes_every_host_equals_the_database(server: Server, keys: dict[str, str], tmp_path: Path) -> None:
    """Two feed processes on one database; hosts reconnect from one to the other during changes."""
    first, second = Address(path=str(tmp_path / "a.sock")), Address(path=str(tmp_path / "b.sock"))
    changes = RandomChanges(server, 7)

    async def test() -> None:
        async with serving(server, first), serving(server, second):
            ends = {host: await HostEnd(first, host, keys[host]).__aenter__() for host in HOSTS}
            for round_ in range(6):
                for _ in range(25):
                    await asyncio.to_thread(changes.step)
                moving = HOSTS[round_ % len(HOSTS)]
                await ends[moving].__aexit__()
                before = ends[moving].client.state
                ends[moving] = HostEnd(second if round_ % 2 else first, moving, keys[moving])
                ends[moving].client.state = before
                await ends[moving].__aenter__()
                for end in ends.values():
                    await end.equals_the_database(server)
            for end in ends.values():
                await end.__aexit__()

    run(test())


def test_a_lost_connection_resumes_with_the_difference(server: Server, keys: dict[str, str], address: Address) -> None:
    api = Api(server.app).as_admin()
    network = api.network()
    ports = [bound(server, network, "h1") for _ in range(3)]
    elsewhere = [bound(server, network, "h2") for _ in range(20)]

    async def test() -> None:
        async with HostEnd(address, "h1", keys["h1"]) as h1:
            async with serving(server, address):
                await h1.equals_the_database(server)
            await until(lambda: not h1.client.connected, "the host to see that the server is gone")
            assert h1.client.state.get("port", ports[0]["id"]) is not None
            assert not h1.client.is_synced
            h1.changes.clear()
            api.delete(f"/ports/{ports[0]['id']}").expect(204)
            changed = api.change("port", ports[1]["id"], name="changed")
            api.delete(f"/ports/{elsewhere[0]['id']}").expect(204)
            async with serving(server, address):
                await h1.equals_the_database(server)
            notified = {(c.kind, c.id, c.new is None) for c in h1.changes}
            assert notified >= {("port", ports[0]["id"], True), ("forwarding", elsewhere[0]["id"], True)}
            assert {key for kind, key, _ in notified if kind == "port"} == {ports[0]["id"], ports[1]["id"]}
            assert len([c for c in h1.changes if c.kind == "forwarding"]) == 1
            assert h1.client.state.get("port", ports[1]["id"]).revision == changed["revision_number"]

    run(test())


def test_nothing_is_sent_after_a_restart_without_changes(
    server: Server, keys: dict[str, str], address: Address, tmp_path: Path
) -> None:
    """An agent that starts again has its cache, and the server finds no difference, however old the cursor is."""
    network = Api(server.app).network()
    for host in ("h1", "h1", "h2"):
        bound(server, network, host)
    cache = tmp_path / "cache.json"

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", keys["h1"], cache) as h1:
            await h1.equals_the_database(server)
            objects = h1.objects()
        assert cache.stat().st_mode & 0o777 == 0o600
        ChangeLog(server.db).compact(-10)
        again = HostEnd(address, "h1", keys["h1"], cache)
        assert again.objects() == objects
        async with again:
            await until(lambda: len(again.changes) == len(objects), "the objects of the cache")
            async with serving(server, address), Raw(address, "h1", keys["h1"]) as raw:
                await again.client.wait_synced()
                assert all(c.old is None for c in again.changes)
                assert len(again.changes) == len(objects)
                await raw.send(Hello(host="h1", have=again.client.state.have()))
                kinds = [type(m).__name__ for m in await raw.receive_until_synced()]
                assert kinds == ["Welcome", "Synced"]

    run(test())


def test_changes_removed_before_they_were_read(server: Server, keys: dict[str, str], address: Address) -> None:
    """A feed that slept longer than the log is kept reads everything anew; its hosts miss nothing."""
    network = Api(server.app).network()
    log = ChangeLog(server.db)

    async def test() -> None:
        async with serving(server, address) as feed, HostEnd(address, "h1", keys["h1"]) as h1:
            await h1.client.wait_synced()
            await asyncio.to_thread(bound, server, network, "h1")
            await h1.equals_the_database(server)
            bound(server, network, "h1")  # in the loop's own thread: the feed cannot read meanwhile
            log.sequence()
            log.compact(-10)
            bound(server, network, "h2")
            fanout = feed.fanout
            await h1.equals_the_database(server)
            assert feed.fanout is not fanout

    run(test())


def test_a_slow_host_gets_the_newest_of_each(server: Server, keys: dict[str, str], address: Address) -> None:
    """A host that does not read while a port changes twenty thousand times: what waits for it is one port."""
    steps = 20_000

    async def test() -> None:
        async with serving(server, address) as feed, Raw(address, "h1", keys["h1"]) as raw:
            await raw.send(Hello(host="h1"))
            await raw.receive_until_synced()
            session = next(iter(feed._sessions))
            most = 0
            for i in range(1, steps + 1):
                port = Port(id="p", network_id="n", mac_address="m", host="h1", revision=i, device_id="d" * 200)
                feed.fanout.apply({"port": {"p": PortRecord("p", "n", {"h1": port})}})
                most = max(most, len(session.pending))
                await asyncio.sleep(0)
            assert most <= 2  # the port, and at first its network
            received = []
            while not received or received[-1].revision < steps:
                received += [
                    msgspec.json.decode(m.object, type=Port) for m in await raw.receive() if isinstance(m, Put)
                ]
            assert len(received) < steps / 2
            assert [p.revision for p in received] == sorted({p.revision for p in received})

    run(test())


# --- credentials, and permitted reports ----------------------------------------------------------------------------------


def test_a_wrong_credential_is_refused(server: Server, keys: dict[str, str], address: Address) -> None:
    async def test() -> None:
        async with serving(server, address):
            for host, credential in (("h1", "wrong"), ("h1", keys["h2"]), ("nobody", keys["h1"]), ("h1", "")):
                assert await Raw(address, host, credential).refused() == 401
            async with Raw(address, "h1", keys["h1"]) as raw:
                await raw.send(Hello(host="h2"))
                assert isinstance((await raw.receive())[0], Refused)

    run(test())


def test_a_withdrawn_credential_closes_the_connection(server: Server, keys: dict[str, str], address: Address) -> None:
    credentials = Credentials(server.db)

    async def test() -> None:
        async with (
            serving(server, address),
            HostEnd(address, "h1", keys["h1"]) as h1,
            HostEnd(address, "h2", keys["h2"]) as h2,
        ):
            await h1.client.wait_synced()
            await h2.client.wait_synced()
            new = await asyncio.to_thread(credentials.rotate, "h1")
            await asyncio.to_thread(credentials.remove, "h2")
            await until(lambda: not h1.client.connected and not h2.client.connected, "both to be sent away")
            for host, credential in (("h1", keys["h1"]), ("h2", keys["h2"])):
                assert await Raw(address, host, credential).refused() == 401
            async with HostEnd(address, "h1", new) as again:
                await again.client.wait_synced()

    run(test())


def test_a_host_reports_only_on_itself(server: Server, keys: dict[str, str], address: Address) -> None:
    api = Api(server.app).as_admin()
    network = api.network()
    mine, others = bound(server, network, "h1"), bound(server, network, "h2")
    foreign = AgentState(OVS, "neutrino-agent", "h2", "N/A", configurations={"tunneling_ip": "203.0.113.9"})

    async def test() -> None:
        async with serving(server, address), Raw(address, "h1", keys["h1"]) as raw:
            await raw.send(Hello(host="h1"))
            await raw.receive_until_synced()
            await raw.send(Report(serial=1, states=(foreign,)))
            answer = await raw.receive()
            assert isinstance(answer[0], ErrorMessage)
            assert isinstance(answer[1], Ack)
            async with HostEnd(address, "h1", keys["h1"]) as h1:
                h1.client.port_up(others["id"], others["revision_number"])
                h1.client.port_up(mine["id"], mine["revision_number"])
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
                assert h1.client.state.get("port", others["id"]) is None
        assert api.show("port", mine["id"])["status"] == "ACTIVE"
        assert api.show("port", others["id"])["status"] == "DOWN"
        agents = {a["host"]: a for a in api.as_admin().all("/agents")}
        assert agents["h2"]["configurations"]["tunneling_ip"] == "192.0.2.1"

    run(test())


def test_reports_are_kept_until_acknowledged(server: Server, keys: dict[str, str], address: Address) -> None:
    api = Api(server.app).as_admin()
    port = bound(server, api.network(), "h1")
    state = AgentState(OVS, "neutrino-agent", "h1", "N/A", configurations={"devices": 1, "tunneling_ip": "192.0.2.7"})

    async def test() -> None:
        async with HostEnd(address, "h1", keys["h1"]) as h1:
            h1.client.report([state])
            h1.client.port_up(port["id"], port["revision_number"])
            h1.client.error("port", port["id"], "no such tap yet")
            assert h1.client.unacknowledged == 3
            async with serving(server, address):
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
                assert api.show("port", port["id"])["status"] == "ACTIVE"
                h1.client.port_down(port["id"], "unplugged")
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
                assert api.show("port", port["id"])["status"] == "DOWN"
                await h1.equals_the_database(server)
                h1.client.report([state])
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
        agent = next(a for a in api.as_admin().all("/agents", {"host": "h1"}))
        assert agent["configurations"] == {**state.configurations, "feed_behind": 0}

    run(test())


def test_an_unacknowledged_start_is_reported_to_the_next_server(
    server: Server, keys: dict[str, str], address: Address
) -> None:
    """Later reports do not replace the first one."""
    api = Api(server.app).as_admin()
    started = AgentState(OVS, "neutrino-agent", "h1", "N/A", configurations={"devices": 0}, start_flag=True)
    wired = AgentState(OVS, "neutrino-agent", "h1", "N/A", configurations={"devices": 7})
    switch(server, "h1")
    before = next(a for a in api.all("/agents", {"host": "h1"}))["started_at"]
    set_clock(server, ahead=60)

    async def test() -> None:
        async with HostEnd(address, "h1", keys["h1"]) as h1:
            h1.client.report([started])
            h1.client.report([wired])
            async with serving(server, address):
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")

    run(test())
    after = next(a for a in api.all("/agents", {"host": "h1"}))
    assert after["started_at"] > before
    assert after["configurations"]["devices"] == 7


def test_an_agent_that_is_behind_shows_feed_behind(server: Server, keys: dict[str, str], address: Address) -> None:
    api = Api(server.app).as_admin()
    network = api.network()
    state = AgentState(OVS, "neutrino-agent", "h1", "N/A", configurations={"tunnel_types": ["vxlan"]})

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", keys["h1"]) as h1:
            await h1.client.wait_synced()
            applied = h1.client.position
            await asyncio.to_thread(bound, server, network, "h1")
            await h1.equals_the_database(server)
            h1.client.report([state], applied)
            await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
        agent = next(a for a in api.as_admin().all("/agents", {"host": "h1"}))
        assert agent["configurations"]["feed_behind"] >= 1

    run(test())


def test_a_served_socket_is_taken_over_only_when_its_server_ends(
    server: Server, keys: dict[str, str], address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second feed serves its other address, and takes the socket over when the first one ends."""
    monkeypatch.setattr(feed_server, "RETRY_SECONDS", 0.02)
    other = Address(path=str(tmp_path / "other.sock"))

    async def test() -> None:
        async with contextlib.AsyncExitStack() as stack:
            async with serving(server, address):
                assert Path(address.path).stat().st_mode & 0o777 == 0o600
                second = await stack.enter_async_context(serving(server, other, addresses=[address, other]))
                async with HostEnd(other, "h1", keys["h1"]) as h1, HostEnd(address, "h2", keys["h2"]) as h2:
                    await h1.client.wait_synced()
                    await h2.client.wait_synced()
                assert second.listening == [other]
            await until(lambda: address in second.listening, "the second one to take its place")
            async with HostEnd(address, "h1", keys["h1"]) as h1:
                await h1.client.wait_synced()

    run(test())


def test_a_file_that_is_no_socket_is_left_alone(
    server: Server, keys: dict[str, str], address: Address, tmp_path: Path
) -> None:
    Path(address.path).write_text("mine")
    other = Address(path=str(tmp_path / "other.sock"))

    async def test() -> None:
        async with serving(server, other, addresses=[address, other]), HostEnd(other, "h1", keys["h1"]) as h1:
            await h1.client.wait_synced()
        assert Path(address.path).read_text() == "mine"

    run(test())


@pytest.mark.parametrize("server", DATABASES[:2], indirect=True)  # MariaDB cannot notify
def test_changes_arrive_without_polling_where_the_database_notifies(
    server: Server, keys: dict[str, str], address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake, "FALLBACK", 3600.0)
    network = Api(server.app).as_admin().network()

    async def test() -> None:
        async with serving(server, address, sqlite_interval=3600), HostEnd(address, "h1", keys["h1"]) as h1:
            await h1.client.wait_synced()
            for _ in range(5):
                port = await asyncio.to_thread(bound, server, network, "h1")
                await until(lambda port=port: h1.client.state.get("port", port["id"]) is not None, "the port")  # type: ignore[misc]

    run(test())


def test_a_socket_with_a_long_name(server: Server, keys: dict[str, str], tmp_path: Path) -> None:
    deep = Address(path=str(tmp_path / ("d" * 120) / "feed.sock"))

    async def test() -> None:
        async with serving(server, deep), HostEnd(deep, "h1", keys["h1"]) as h1:
            await h1.client.wait_synced()

    run(test())
