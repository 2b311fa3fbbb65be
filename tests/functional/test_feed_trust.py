"""Limits of trust in hosts: wrong reports, roles that a credential lacks, wrong credentials, unauthenticated clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.feed.messages import Ack, ErrorMessage, Hello, PortUp, Refused, Report
from neutrino.model.agents import DHCP, L3, OVS, AgentState
from neutrino.model.state import Host
from neutrino.server.feed.connections import admission
from neutrino.server.feed.connections.admission import LOOKUP_SECONDS
from neutrino.server.feed.connections.credentials import Credentials, HostCredential
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, inside, l3_agent
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until
from tests.support.feed_raw import Raw

COMPUTE = ("l2", "metadata")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {})
    for number, host in enumerate(("h1", "h2")):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    yield made
    made.close()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server.app).as_admin()


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def run(test: Awaitable[None], seconds: float = 60) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await test

    asyncio.run(bounded())


def agents(api: Api, host: str) -> dict[str, dict[str, Any]]:
    return {each["agent_type"]: each["configurations"] for each in api.all("/agents", {"host": host})}


def shared(api: Api) -> None:
    """A tunnelled network with a port on each host."""
    network = api.network()
    for host in ("h1", "h2"):
        api.port(network, binding__host_id=host, device_owner="compute:nova")


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_wrong_report_is_refused_whole_and_reaches_no_other_host(server: Server, api: Api, address: Address) -> None:
    shared(api)
    keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}
    good = AgentState(DHCP, "neutron-dhcp-agent", "h1", "dhcp_agent")
    wrong = AgentState(OVS, "neutron-openvswitch-agent", "h1", "N/A", configurations={"tunneling_ip": "x"})
    before = agents(api, "h1")

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h2", keys["h2"]) as h2:
            async with Raw(address, "h1", keys["h1"]) as raw:
                await raw.send(Hello(host="h1"))
                await raw.receive_until_synced()
                await raw.send(Report(serial=5, states=(good, wrong)))
                answer = await raw.receive()
                assert [type(each) for each in answer] == [ErrorMessage, Ack]
                assert "tunneling_ip" in answer[0].text
                await raw.send(PortUp(serial=6, port_id="a\x00b", revision=2**70))
                assert isinstance((await raw.receive())[0], ErrorMessage)
            await h2.equals_the_database(server)
            peer = h2.client.state.get("host", "h1")
            assert isinstance(peer, Host)
            assert peer.tunneling_ip == "192.0.2.0"
        assert agents(api, "h1") == before

    run(test())


def test_a_long_error_text_does_not_make_a_host_look_dead(server: Server, api: Api, address: Address) -> None:
    key = Credentials(server.db).add("h1")
    switch_ = AgentState(
        OVS,
        "neutron-openvswitch-agent",
        "h1",
        "N/A",
        configurations={"tunneling_ip": "192.0.2.7", "problems": {"p1": "x" * 70_000}},
    )
    dhcp = AgentState(DHCP, "neutron-dhcp-agent", "h1", "dhcp_agent")

    async def test() -> None:
        async with serving(server, address), Raw(address, "h1", key) as raw:
            await raw.send(Hello(host="h1"))
            await raw.receive_until_synced()
            await raw.send_data(b'[{"type":"sing"}]')
            assert [type(each) for each in await raw.receive()] == [ErrorMessage]
            await raw.send(Report(serial=5, states=(dhcp, switch_)))
            answer = await raw.receive()
            assert [type(each) for each in answer] == [ErrorMessage, Ack]
            assert "problems" in answer[0].text

    run(test())
    found = {each["agent_type"]: each for each in api.all("/agents", {"host": "h1"})}
    assert found.keys() == {OVS, DHCP}
    assert found[OVS]["configurations"] == {"tunneling_ip": "192.0.2.7", "feed_behind": 0}


def test_invalid_values_of_an_older_release_are_not_sent(server: Server, api: Api, address: Address) -> None:
    switch(server, "h1", tunneling_ip="x", tunnel_types=["vxlan", "y"])
    shared(api)
    key = Credentials(server.db).add("h2")

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h2", key) as h2:
            await h2.equals_the_database(server)
            assert h2.client.state.get("host", "h1") is None

    run(test())


# --- roles ------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def agent(address: Address, key: str, *roles: str) -> Any:
    settings = ClientOptions(address, "h1", key, roles=roles, first_delay=0.01, longest_delay=0.05)
    client = FeedClient(settings)
    task = asyncio.create_task(client.run())
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_a_compute_host_cannot_subscribe_as_another_role(
    server: Server, address: Address, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="neutrino.feed.client")
    key = Credentials(server.db).add("h1", COMPUTE)

    async def test() -> None:
        async with serving(server, address):
            async with agent(address, key, "l2", "l3") as client:
                await until(lambda: "neutrino host roles h1" in caplog.text, "the agent to log the reason")
                assert not client.connected
            for roles in (("dhcp",), ("admin",)):
                async with Raw(address, "h1", key) as raw:
                    await raw.send(Hello(host="h1", roles=roles))
                    assert isinstance((await raw.receive())[0], Refused)
            async with agent(address, key, *COMPUTE) as client:
                await client.wait_synced()

    run(test())


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_a_compute_host_gets_no_routers_and_registers_no_other_agent(
    server: Server, api: Api, address: Address
) -> None:
    """Also where an L3 agent of that host is known from before, and has routers."""
    l3_agent(server, "h1")
    network, subnet = inside(api)
    router = api.make("router")
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    port = api.port(network, device_owner="compute:nova")
    credentials = Credentials(server.db)
    key = credentials.add("h1", COMPUTE)
    dhcp = AgentState(DHCP, "neutron-dhcp-agent", "h1", "dhcp_agent", configurations={"dhcp_port_by_server": True})
    l3 = AgentState(L3, "neutron-l3-agent", "h1", "l3_agent", configurations={"agent_mode": "dvr_snat"})

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", key) as h1:
            await h1.client.wait_synced()
            for state in (dhcp, l3):
                h1.client.report([state])
                await until(lambda: h1.client.unacknowledged == 0, "the server to have answered")
            assert agents(api, "h1").keys() == {OVS, L3}
            assert agents(api, "h1")[L3].get("agent_mode") != "dvr_snat"
            assert h1.client.state.get("router", router["id"]) is None
            assert h1.client.state.get("dhcp_port", port["id"]) is None
            await asyncio.to_thread(api.change, "router", router["id"], name="another")
            await asyncio.to_thread(api.change, "port", port["id"], name="another")
            await asyncio.to_thread(credentials.set_roles, "h1", ("l2", "l3"))
            await until(lambda: h1.client.state.get("router", router["id"]) is not None, "it has the role now")
            assert h1.client.state.get("dhcp_port", port["id"]) is not None
            assert all(change.kind != "router" or change.new.name == "another" for change in h1.changes)  # type: ignore[union-attr]
            await asyncio.to_thread(credentials.set_roles, "h1", COMPUTE)
            await until(lambda: h1.client.state.get("router", router["id"]) is None, "it has the role no more")

    run(test())


# --- credentials ------------------------------------------------------------------------------------------------------


class SlowCredentials(Credentials):
    """Whose database can be made slow."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.db)
        self.go_on = threading.Event()
        self.go_on.set()
        self.looks = 0

    def known(self) -> Mapping[str, HostCredential]:
        self.looks += 1
        self.go_on.wait(30)
        return super().known()

    def check(self, host: str, credential: str) -> str | None:
        self.looks += 1
        self.go_on.wait(30)
        return None


def test_wrong_credentials_delay_no_report(
    server: Server, api: Api, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Credentials(server.db).add("h1")
    slow = SlowCredentials(server)
    monkeypatch.setattr("tests.support.feed.Credentials", lambda db: slow)
    state = AgentState(OVS, "neutron-openvswitch-agent", "h1", "N/A", configurations={"devices": 1})

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", key) as h1:
            await h1.client.wait_synced()
            slow.go_on.clear()
            slow.looks, began = 0, time.monotonic()
            strangers = [asyncio.create_task(Raw(address, f"h{n}", "wrong").refused()) for n in range(50)]
            try:
                await until(lambda: slow.looks > 0, "the credentials to be looked up")
                h1.client.report([state])
                await until(lambda: h1.client.unacknowledged == 0, "the report to be written", seconds=25)
            finally:
                slow.go_on.set()
            assert set(await asyncio.gather(*strangers)) == {401}
            most = 2 + (time.monotonic() - began) / LOOKUP_SECONDS
            assert slow.looks <= most, "each wrong credential is a look at the database"

    run(test())


def test_an_address_that_guesses_is_blocked_and_its_host_is_not(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        admission, "FAILURE_SECONDS", 600.0
    )  # none expires during the test, however slow the machine is
    key = Credentials(server.db).add("h1")
    somewhere = Address(host="127.0.0.1", port=0)

    async def test() -> None:
        async with serving(server, somewhere) as feed:
            (at,) = feed.listening
            answers = await asyncio.gather(*(Raw(at, "h1", f"guess {n}").refused() for n in range(40)))
            assert 429 in answers
            assert answers.count(401) <= admission.FAILURES + 1
            async with HostEnd(at, "h1", key) as h1:  # from the same address, with the credential
                await h1.client.wait_synced()

    run(test())


def test_silent_connections_are_limited_and_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    key = Credentials(server.db).add("h1")
    somewhere = Address(host="127.0.0.1", port=0)

    async def test(seconds: float, expected: int) -> None:
        """Of eight connections, so many are ended."""
        monkeypatch.setattr("neutrino.server.feed.server.HANDSHAKE_SECONDS", seconds)
        async with serving(server, somewhere) as feed:
            feed._admission.limits.most = 3
            (at,) = feed.listening
            silent = [await asyncio.open_connection(at.host, at.port) for _ in range(8)]
            ended = [asyncio.create_task(reader.read()) for reader, _ in silent]
            try:
                await until(lambda: sum(each.done() for each in ended) >= expected, "connections to be ended")
                assert sum(each.done() for each in ended) == expected
                if expected == 8:
                    async with HostEnd(at, "h1", key) as h1:
                        await h1.client.wait_synced()
            finally:
                for _, writer in silent:
                    writer.close()
                await asyncio.gather(*ended, return_exceptions=True)

    run(test(600.0, expected=5))  # those that are too many, at once
    run(test(1.0, expected=8))  # all, when the time for a handshake is over
