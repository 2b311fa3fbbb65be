"""One host with many reports, or large ones, does not delay those of other hosts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed import messages as m
from neutrino.feed.address import Address
from neutrino.model.agents import OVS, AgentState
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw

HOSTS = ("h1", "h2")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, "sqlite", tmp_path))
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number + 1}")
    yield made
    made.close()


@pytest.fixture
def keys(server: Server) -> dict[str, str]:
    return {host: Credentials(server.db).add(host) for host in HOSTS}


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 90))


def downs(count: int) -> list[m.PortDown]:
    return [m.PortDown(serial=i, port_id=f"{i:036d}") for i in range(1, count + 1)]


async def heartbeat(end: HostEnd) -> float:
    """The seconds until it is acknowledged."""
    began = time.monotonic()
    end.client.report([AgentState(OVS, "neutrino-agent", end.host, "N/A")])
    await until(lambda: end.client.unacknowledged == 0, "the heartbeat to be acknowledged")
    return time.monotonic() - began


def test_a_frame_with_too_many_messages_is_refused(server: Server, keys: dict[str, str], address: Address) -> None:
    async def test() -> None:
        async with (
            serving(server, address),
            HostEnd(address, "h2", keys["h2"]) as h2,
            Raw(address, "h1", keys["h1"]) as raw,
        ):
            await h2.client.wait_synced()
            await raw.send(m.Hello(host="h1"))
            await raw.receive_until_synced()
            await raw.send(*downs(60_000))
            assert await heartbeat(h2) < 3
            (refused,) = await raw.receive()
            assert isinstance(refused, m.Refused)
            assert str(m.MAX_MESSAGES) in refused.reason

    run(test())


def test_many_reports_of_one_host_do_not_delay_anothers(server: Server, keys: dict[str, str], address: Address) -> None:
    """On all the connections that a host may have."""
    api = Api(server.app).as_admin()
    port = api.port(api.network(), binding__host_id="h2", device_owner="compute:nova")

    async def flood(raw: Raw) -> None:
        await raw.send(m.Hello(host="h1"))
        await raw.receive_until_synced()
        for _ in range(4):
            await raw.send(*downs(m.MAX_MESSAGES))

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h2", keys["h2"]) as h2, asyncio.TaskGroup() as group:
            await h2.equals_the_database(server)
            flooding = [Raw(address, "h1", keys["h1"]) for _ in range(8)]
            for raw in flooding:
                await raw.__aenter__()
            sent = [group.create_task(flood(raw)) for raw in flooding]
            await sent[0]
            assert await heartbeat(h2) < 2
            began = time.monotonic()
            h2.client.port_up(port["id"], port["revision_number"])
            await until(lambda: h2.client.unacknowledged == 0, "the port to be up")
            assert time.monotonic() - began < 3
            for raw in flooding:
                await raw.__aexit__()
        assert api.show("port", port["id"])["status"] == "ACTIVE"

    run(test())


def test_a_large_frame_without_messages_takes_no_time_of_others(
    server: Server, keys: dict[str, str], address: Address
) -> None:
    async def test() -> None:
        async with (
            serving(server, address),
            HostEnd(address, "h2", keys["h2"]) as h2,
            Raw(address, "h1", keys["h1"]) as raw,
        ):
            await h2.client.wait_synced()
            await raw.send(m.Hello(host="h1"))
            await raw.receive_until_synced()
            await raw.send_data(b"[" + b",".join([b"1"] * 8_000_000) + b"]")
            assert await heartbeat(h2) < 2
            assert isinstance((await raw.receive())[0], m.Refused)

    run(test())
