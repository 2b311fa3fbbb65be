"""A live server with its feed process, and a real Placement: what a host reports, and Placement that comes later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neutrino.model.agents import OVS, AgentState
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from tests.api.placed_hosts import guaranteed
from tests.support.feed import HostEnd, until
from tests.support.neutrino import Caller, Neutrino
from tests.support.placement import Placement

HOST = "h1"
ADMIN = {"X-Project-Id": "p", "X-Roles": "admin,member,reader"}
DEVICE = f"{HOST}:{OVS}:br-ex"


@pytest.fixture
def placement() -> Iterator[Placement]:
    made = Placement()  # not started
    yield made
    made.stop()


@pytest.fixture
def server(placement: Placement) -> Iterator[Neutrino]:
    with Neutrino({"feed": {"run": True}, "placement": placement.settings}) as made:
        yield made


def state(beat: int = 0, **configurations: Any) -> AgentState:
    reported = {"bridge_mappings": {"physnet1": "br-ex"}, "tunnel_types": [], "tunneling_ip": "", **configurations}
    return AgentState(OVS, "neutron-openvswitch-agent", HOST, "N/A", configurations=reported, start_flag=beat == 0)


def test_placement_follows_the_host(server: Neutrino, placement: Placement) -> None:
    db = Database(server.database)
    credential = Credentials(db).add(HOST)
    db.close()
    caller = Caller(server.url, ADMIN)

    def synced() -> object:
        found = caller("GET", "/v2.0/agents").json()["agents"]
        return found[0]["resources_synced"] if found else None

    async def becomes(condition: Callable[[], bool]) -> None:
        reached = asyncio.Event()

        def poll() -> None:
            if condition():
                reached.set()

        while not reached.is_set():
            await asyncio.to_thread(poll)
            await asyncio.sleep(0.05)

    async def run() -> None:
        address = f"unix:{server.directory}/feed.sock"
        async with HostEnd(address, HOST, credential) as host:
            rates = guaranteed({"br-ex": (1000, 2000)}, {HOST: 7})
            host.client.report([state(**rates)], 0)
            await until(lambda: host.client.is_synced, "the host to be synced")
            await becomes(lambda: synced() is False)  # Placement is away, and requests do not wait for it
            await asyncio.to_thread(placement.start)
            root = await asyncio.to_thread(placement.compute_node, HOST)
            host.client.report([state(1, **rates)], 0)
            await becomes(lambda: synced() is True)
            tree = placement.tree(root)
            assert tree[DEVICE]["inventories"]["NET_BW_EGR_KILOBIT_PER_SEC"]["total"] == 1000
            host.client.report([state(2, **guaranteed())], 0)
            await becomes(lambda: synced() is None and not placement.tree(root))

    asyncio.run(asyncio.wait_for(run(), 120))
