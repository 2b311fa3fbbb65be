"""Reports of hosts on ports and agents, and their effect."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.model.agents import DATAPLANE, FEED_BEHIND, LAST_REPAIR, OVS, PROBLEMS, AgentState
from neutrino.model.objects import Object
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from neutrino.server.ml2.ports.provisioning import Provisioning
from tests.api.agents import set_clock, switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {"quotas": {"quota_port": "-1"}})
    for host in ("h1", "h2"):
        switch(made, host)
    yield made
    made.close()


@pytest.fixture
def api(server: Server) -> Api:
    return Api(server.app).as_admin()


@pytest.fixture
def address(tmp_path: Path) -> Address:
    return Address(path=str(tmp_path / "feed.sock"))


def bound(api: Api, host: str = "h1", **values: Any) -> Object:
    return api.port(api.network(), binding__host_id=host, device_owner="compute:nova", **values)


def up(server: Server, port: Object, host: str = "h1") -> bool:
    """The host reports the port as wired at an old revision."""
    made: bool = server.core.provisioning.complete(port["id"], "L2", host, port["revision_number"])
    return made


# --- ports ------------------------------------------------------------------------------------------------------------


def rebound_here(api: Api, port: Object) -> Object:
    changed = {"port": {"binding:profile": {"round": port["revision_number"]}}}
    made: Object = api.as_service().put(f"/ports/{port['id']}", changed).expect(200).body["port"]
    return made


def test_a_stale_report_of_the_same_host_changes_nothing(server: Server, api: Api) -> None:
    first = bound(api)
    second = rebound_here(api, first)
    assert not up(server, first)
    assert api.show("port", first["id"])["status"] == "DOWN"
    assert up(server, second)
    assert api.show("port", first["id"])["status"] == "ACTIVE"


def test_a_stale_report_of_another_host_changes_nothing(server: Server, api: Api) -> None:
    first = bound(api)
    key = first["id"]
    there = api.put(f"/ports/{key}", {"port": {"binding:host_id": "h2"}}).expect(200).body["port"]
    assert not up(server, first)
    assert not up(server, there, "h1")
    again = api.put(f"/ports/{key}", {"port": {"binding:host_id": "h1"}}).expect(200).body["port"]
    assert not up(server, first)
    assert not up(server, there, "h2")
    assert api.show("port", key)["status"] == "DOWN"
    assert up(server, again)


def test_an_ordinary_change_is_answered_for_too(server: Server, api: Api, address: Address) -> None:
    """The port is renamed while the host wires it: the report on the new revision sets it ACTIVE."""
    port = bound(api)
    credential = Credentials(server.db).add("h1")

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", credential) as h1:
            await h1.client.wait_synced()
            named = await asyncio.to_thread(api.change, "port", port["id"], name="other")
            h1.client.port_up(port["id"], port["revision_number"])
            await until(lambda: h1.client.unacknowledged == 0, "the server to acknowledge it")
            assert api.show("port", port["id"])["status"] == "DOWN"
            await until(
                lambda: h1.client.state.get("port", port["id"]).revision == named["revision_number"], "the new name"
            )
            h1.client.port_up(port["id"], h1.client.state.get("port", port["id"]).revision)
            await until(lambda: h1.client.unacknowledged == 0, "the server to acknowledge it")
            assert api.show("port", port["id"])["status"] == "ACTIVE"

    asyncio.run(test())


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_stale_reports_and_a_new_binding_at_once(server: Server, api: Api) -> None:
    """Concurrent reports: only one on the newest binding makes the port ACTIVE."""
    port = bound(api)
    reported: list[Object] = [port]
    done = threading.Event()
    failures: list[BaseException] = []

    def host() -> None:
        try:
            while not done.is_set():
                up(server, reported[0])
        except BaseException as error:
            failures.append(error)

    hosts = [threading.Thread(target=host) for _ in range(2)]
    for thread in hosts:
        thread.start()
    try:
        for _ in range(25):
            newer = rebound_here(api, port)
            shown = api.show("port", port["id"])
            assert (shown["status"], shown["revision_number"]) == ("DOWN", newer["revision_number"])
            port = newer
            reported[0] = port  # the hosts report on this one, while the next one is made
    finally:
        done.set()
        for thread in hosts:
            thread.join()
    assert failures == []
    up(server, port)
    assert api.show("port", port["id"])["status"] == "ACTIVE"


def test_ports_that_are_lost_and_found(server: Server, api: Api) -> None:
    port = bound(api)
    provisioning = server.core.provisioning
    assert not provisioning.lost(port["id"], "h1")  # it was never up
    assert api.show("port", port["id"]) == port
    assert up(server, port)
    assert not provisioning.lost(port["id"], "h2")
    assert provisioning.lost(port["id"], "h1")
    down = api.show("port", port["id"])
    assert (down["status"], down["revision_number"]) == ("DOWN", port["revision_number"] + 2)
    assert not provisioning.lost(port["id"], "h1")
    assert api.show("port", port["id"]) == down


def counted(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many transactions were begun since the last call."""
    real, begun = server.db.transaction, [0]

    def transaction() -> Any:
        begun[0] += 1
        return real()

    def since() -> int:
        count, begun[0] = begun[0], 0
        return count

    monkeypatch.setattr(server.db, "transaction", transaction)
    return since


def test_a_host_that_starts_with_many_ports(
    server: Server, api: Api, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All its ports in a few transactions; repeated after a restart, in none."""
    network = api.network()
    body = [
        {"network_id": network["id"], "binding:host_id": "h1", "device_owner": "compute:x", "security_groups": []}
        for _ in range(300)
    ]
    ports = api.post("/ports", {"ports": body}).expect(201).body["ports"]
    credential = Credentials(server.db).add("h1")
    transactions = counted(server, monkeypatch)

    async def test() -> None:
        async with serving(server, address):
            for least, most in ((3, 6), (0, 0)):
                transactions()
                async with HostEnd(address, "h1", credential) as h1:
                    for port in ports:
                        h1.client.port_up(port["id"], port["revision_number"])
                    await until(lambda h1=h1: h1.client.unacknowledged == 0, "the server to have done it")  # type: ignore[misc]
                assert least <= transactions() <= most

    asyncio.run(test())
    shown = api.all("/ports")
    assert {p["status"] for p in shown} == {"ACTIVE"}
    before = {p["id"]: p["revision_number"] for p in ports}
    assert all(p["revision_number"] == before[p["id"]] + 1 for p in shown)


# --- agents -----------------------------------------------------------------------------------------------------------


def test_dataplane_lag_and_problems_of_an_agent_are_shown_separately(
    server: Server, api: Api, address: Address
) -> None:
    """A late heartbeat, a dataplane that is down and being behind are shown separately."""
    network = api.network()
    credential = Credentials(server.db).add("h1")

    def state(**configurations: Any) -> AgentState:
        known = {"tunnel_types": ["vxlan"], "tunneling_ip": "192.0.2.1", "bridge_mappings": {}, DATAPLANE: "up"}
        return AgentState(OVS, "neutrino-agent", "h1", "N/A", configurations={**known, PROBLEMS: [], **configurations})

    def shown() -> tuple[bool, Object]:
        found: Object = next(iter(api.all("/agents", {"host": "h1"})))
        agent: Object = api.get(f"/agents/{found['id']}").expect(200).body["agent"]
        return agent["alive"], agent["configurations"]

    async def test() -> None:
        async with serving(server, address) as feed, HostEnd(address, "h1", credential) as h1:
            await h1.client.wait_synced()

            async def report(applied: int | None = None, **configurations: Any) -> tuple[bool, Object]:
                h1.client.report([state(**configurations)], applied)
                await until(lambda: h1.client.unacknowledged == 0, "the server to have done it")
                return await asyncio.to_thread(shown)

            alive, stored = await report()
            assert (alive, stored[DATAPLANE], stored[FEED_BEHIND]) == (True, "up", 0)

            repaired = {LAST_REPAIR: "12:00: 3 flows put back"}
            alive, stored = await report(dataplane="down: ovsdb is away", problems=["port p: no tap"], **repaired)
            assert (alive, stored[DATAPLANE], stored[FEED_BEHIND]) == (True, "down: ovsdb is away", 0)
            assert stored[PROBLEMS] == ["port p: no tap"]
            assert stored[LAST_REPAIR] == "12:00: 3 flows put back"

            applied = h1.client.position
            values = {"binding__host_id": "h1", "device_owner": "compute:x"}
            ports = [await asyncio.to_thread(lambda: api.port(network, **values)) for _ in range(3)]
            await until(lambda: all(h1.client.state.get("port", p["id"]) for p in ports), "the ports")
            behind = feed.fanout.position - applied
            assert behind >= len(ports)
            alive, stored = await report(applied)
            assert (alive, stored[DATAPLANE], stored[FEED_BEHIND]) == (True, "up", behind)
            assert (await report())[1][FEED_BEHIND] == 0

            set_clock(server, 1000)
            alive, stored = await asyncio.to_thread(shown)
            assert (alive, stored[DATAPLANE], stored[FEED_BEHIND]) == (False, "up", 0)

    asyncio.run(test())


def test_a_report_that_waits_does_not_hold_up_a_heartbeat(
    server: Server, api: Api, address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port's report is sent before, on the same connection, and is written and acknowledged in the end."""
    port, credential = bound(api), Credentials(server.db).add("h1")
    started, may = threading.Event(), threading.Event()
    complete_all = Provisioning.complete_all

    def waiting(self: Provisioning, *reports: Any) -> set[str]:
        started.set()
        assert may.wait(60)
        return complete_all(self, *reports)

    monkeypatch.setattr(Provisioning, "complete_all", waiting)

    def shown() -> str:
        return str(next(iter(api.all("/agents", {"host": "h1"})))["configurations"].get(DATAPLANE))

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", credential) as h1:
            await h1.client.wait_synced()
            try:
                h1.client.port_up(port["id"], port["revision_number"])
                await asyncio.to_thread(started.wait, 60)
                h1.client.report([AgentState(OVS, "agent", "h1", "N/A", configurations={DATAPLANE: "new"})], None)
                await until(lambda: h1.client.unacknowledged == 1, "the heartbeat's acknowledgement")
                assert await asyncio.to_thread(shown) == "new"
                assert api.show("port", port["id"])["status"] == "DOWN"
            finally:
                may.set()
            await until(lambda: h1.client.unacknowledged == 0, "the port's acknowledgement")
            assert api.show("port", port["id"])["status"] == "ACTIVE"

    asyncio.run(test())


def test_an_error_of_a_host_is_logged(server: Server, address: Address, caplog: pytest.LogCaptureFixture) -> None:
    credential = Credentials(server.db).add("h1")

    async def test() -> None:
        async with serving(server, address), HostEnd(address, "h1", credential) as h1:
            h1.client.error("port", "p-1", "no such tap\nFORGED line")
            await until(lambda: h1.client.unacknowledged == 0, "the server to acknowledge it")

    with caplog.at_level(logging.WARNING):
        asyncio.run(test())
    assert "host h1 reports an error (port p-1): no such tap FORGED line" in caplog.messages
