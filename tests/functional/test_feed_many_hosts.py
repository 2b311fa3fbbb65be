"""Many hosts on one feed: a host that does not read, hosts that come at once, and resuming by sums of digests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed import messages as m
from neutrino.feed.address import Address
from neutrino.model.state import Forwarding, Host, Network, Port, Segment
from neutrino.server.feed.connections import session
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.connections.turns import Turns
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.queues import Pending
from neutrino.server.feed.records import AgentRecord, NetworkRecord, PortRecord, Records
from neutrino.server.main import Server
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw

NAMES = [f"h{i}" for i in range(8)]
SEGMENTS = (Segment(id="s", network_type="vxlan"),)


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path))
    yield made
    made.close()


@pytest.fixture
def keys(server: Server) -> dict[str, str]:
    credentials = Credentials(server.db)
    return {host: credentials.add(host) for host in NAMES}


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def run(test: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test

    asyncio.run(bounded())


def port(key: str, host: str, revision: int = 1) -> Records:
    mac = "fa:16:3e:00:00:01"
    value = Port(id=key, network_id="n", mac_address=mac, host=host, revision=revision)
    entry = Forwarding(id=key, network_id="n", host=host, mac_address=mac, ip_addresses=("10.0.0.1",) * 20)
    return {"port": {key: PortRecord(key, "n", {host: value}, entry)}}


def cloud() -> Records:
    """A network with a port on every host."""
    agents = {f"a-{name}": AgentRecord(Host(id=name, tunneling_ip=f"192.0.2.{i}")) for i, name in enumerate(NAMES, 1)}
    ports = {key: value for name in NAMES for key, value in port(f"p-{name}", name)["port"].items()}
    return {"network": {"n": NetworkRecord(Network(id="n", segments=SEGMENTS))}, "agent": agents, "port": ports}


def test_a_stuck_host_delays_no_other(server: Server, keys: dict[str, str], address: Address) -> None:
    """A host stops reading: the others get every change, and what the feed holds for it is bounded."""

    async def test() -> None:
        async with serving(server, address) as feed, Raw(address, "h0", keys["h0"]) as stuck:
            feed.fanout.apply(cloud())
            await stuck.send(m.Hello(host="h0"))
            await stuck.receive_until_synced()
            connection = next(iter(feed._sessions))._connection
            async with HostEnd(address, "h1", keys["h1"]) as other:
                await other.client.wait_synced()
                for step in range(40):  # megabytes in all, more than the buffers of its socket take
                    for number in range(100):
                        feed.fanout.apply(port(f"q{number}", f"h{2 + step % 2}", step))
                    await until(lambda step=step: _has(other, f"h{2 + step % 2}"), "the other host is current", 5)  # type: ignore[misc]
                held = connection.transport.get_write_buffer_size()
                assert 0 < held < 1 << 20
                (pending,) = (each.pending for each in feed._sessions if each.host == "h0")
                assert 0 < len(pending) <= 101
            # It reads again, and has the newest state.
            last = {}
            while len(last) < 100 or any(value != "h3" for value in last.values()):
                for message in await stuck.receive():
                    if isinstance(message, m.Put) and message.kind == "forwarding":
                        entry = m.msgspec.json.decode(message.object, type=Forwarding)
                        if entry.id.startswith("q"):
                            last[entry.id] = entry.host

    def _has(end: HostEnd, host: str) -> bool:
        entries = end.client.state.objects["forwarding"]
        return sum(entry.host == host and key.startswith("q") for key, entry in entries.items()) == 100

    run(test())


def test_silent_hosts_do_not_keep_others_from_their_turn(
    server: Server, keys: dict[str, str], address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hosts that connect and say nothing use up the turns for a moment only."""
    monkeypatch.setattr(session, "TURN_SECONDS", 0.2)

    async def test() -> None:
        async with serving(server, address) as feed:
            feed._turns = Turns(2)
            feed.fanout.apply(cloud())
            async with (
                Raw(address, "h0", keys["h0"]),
                Raw(address, "h1", keys["h1"]),
                Raw(address, "h2", keys["h2"]),
                HostEnd(address, "h3", keys["h3"]) as other,
            ):
                await asyncio.wait_for(other.client.wait_synced(), 10)
                assert len(other.client.state.objects["host"]) == len(NAMES) - 1
            await until(lambda: not feed._sessions, "all connections to end")
            async with asyncio.timeout(10):
                for _ in range(2):
                    await feed._turns.take()

    run(test())


def test_compressed_frames_are_for_hosts_that_accept_them(
    server: Server, keys: dict[str, str], address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's client does; one of an earlier release gets the same objects in plain frames."""
    monkeypatch.setattr("neutrino.server.feed.composed.LEAST_COMPRESSED", 1)
    monkeypatch.setattr("neutrino.server.feed.composed.FRAME_BYTES", 500)

    async def test() -> None:
        async with serving(server, address) as feed:
            feed.fanout.apply(cloud())
            async with HostEnd(address, "h1", keys["h1"]) as host:
                await host.client.wait_synced()
                objects = host.client.state.objects
                assert (len(objects["host"]), len(objects["forwarding"])) == (len(NAMES) - 1, len(NAMES) - 1)
            got = list[set[tuple[str, bytes]]]()
            for accepts in ((), ("later",), (m.ZLIB, "later")):
                async with Raw(address, "h1", keys["h1"]) as raw:
                    await raw.send(m.Hello(host="h1", accepts=accepts))
                    messages = await raw.receive_until_synced()
                    got.append({(each.kind, bytes(each.object)) for each in messages if isinstance(each, m.Put)})
                    assert (raw.binary > 0) == (m.ZLIB in accepts)
            assert got[0] == got[1] == got[2]

    run(test())


class Frame(bytes):
    """Frames that exist."""

    existing = 0

    def __init__(self, _: bytes) -> None:
        Frame.existing += 1

    def __del__(self) -> None:
        Frame.existing -= 1


def test_no_frame_is_kept_after_it_was_sent(
    server: Server, keys: dict[str, str], address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection lasts for months: the last frame of a snapshot would be most of what a host costs."""
    next_frame = Fanout.next_frame

    def counted(self: Fanout, pending: Pending) -> tuple[bytes, bool]:
        data, is_last = next_frame(self, pending)
        return Frame(data), is_last

    monkeypatch.setattr(Fanout, "next_frame", counted)

    async def test() -> None:
        async with serving(server, address) as feed, contextlib.AsyncExitStack() as stack:
            feed.fanout.apply(cloud())
            for name in NAMES[:3]:
                host = await stack.enter_async_context(HostEnd(address, name, keys[name]))
                await host.client.wait_synced()
            await until(lambda: not Frame.existing, "all frames to be freed")

    run(test())


def test_a_host_resumes_by_sums(server: Server, keys: dict[str, str], address: Address) -> None:
    """One digest per kind where nothing changed; of the kinds that differ, all digests are asked for."""

    async def test() -> None:
        async with serving(server, address) as feed:
            feed.fanout.apply(cloud())
            async with HostEnd(address, "h1", keys["h1"]) as host:
                await host.client.wait_synced()
                sums, have = host.client.state.sums(), host.client.state.have()
            async with Raw(address, "h1", keys["h1"]) as raw:
                await raw.send(m.Hello(host="h1", sums=sums))
                assert [type(each) for each in await raw.receive_until_synced()] == [m.Welcome, m.Synced]
            feed.fanout.apply(port("new", "h5"))
            feed.fanout.apply({"agent": {"a-h7": AgentRecord(None)}})
            async with Raw(address, "h1", keys["h1"]) as raw:
                await raw.send(m.Hello(host="h1", sums=sums))
                (welcome,) = await raw.receive()
                assert sorted(welcome.compare) == ["forwarding", "host"]
                feed.fanout.apply(port("newer", "h6"))  # a change while the host answers is not lost
                await raw.send(m.Have(have={kind: have[kind] for kind in welcome.compare}))
                got = await raw.receive_until_synced()
                assert [each.id for each in got if isinstance(each, m.Gone)] == ["h7"]
                kinds = {each.kind for each in got if isinstance(each, m.Put)}
                assert kinds == {"forwarding"}
            async with Raw(address, "h1", keys["h1"]) as raw:
                await raw.send(m.Hello(host="h1", sums={**sums, "later": "00"}))
                await raw.receive()
                await raw.send(m.Hello(host="h1"))
                assert isinstance((await raw.receive())[0], m.Refused)

    run(test())


def test_a_client_uses_sums_only_with_servers_that_know_them(
    server: Server, keys: dict[str, str], address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    hellos: list[m.Hello] = []
    compare = session.HostSession._compare

    async def recorded(self: session.HostSession, hello: m.Hello, name: str, database: str) -> bool:
        hellos.append(hello)
        return await compare(self, hello, name, database)

    monkeypatch.setattr(session.HostSession, "_compare", recorded)

    async def test() -> None:
        async with serving(server, address) as feed:
            feed.fanout.apply(cloud())
            async with HostEnd(address, "h1", keys["h1"]) as host:

                async def again() -> None:
                    known = len(hellos)
                    await feed._close(feed._sessions, "the test")
                    await until(lambda: len(hellos) > known and host.client.is_synced, "a new connection")

                await host.client.wait_synced()
                await again()
                monkeypatch.setattr(m, "VERSION", 1)  # a server of an earlier release
                feed.fanout.apply({"port": {"p-h5": None}})
                await again()
                await until(lambda: len(hellos) == 4 and host.client.is_synced, "all digests")
                assert [hello.sums is not None for hello in hellos] == [False, True, True, False]
                assert {hello.accepts for hello in hellos} == {(m.ZLIB,)}
                assert "p-h5" not in host.client.state.objects["forwarding"]

    run(test())
