"""HA routers in the feed: every host that holds one ready has its ports, and all others hear where it is active."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.model.routing import Router
from neutrino.model.state import Forwarding, Port
from neutrino.server.feed.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, detach, gateway, inside, l3_agent, outside, ports_of
from tests.support.feed import DATABASES, HostEnd, new_database, serving, until

HOSTS = ("h1", "h2", "h3")
READY = ("h1", "h2")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, new_database(request, kind, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    for host in READY:
        l3_agent(made, host)
    yield made
    made.close()


def say(server: Server, host: str, router: dict[str, Any], state: str) -> None:
    server.service_plugins["router"].scheduler.set_ha_states(host, {router["id"]: state})


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_ports_of_an_ha_router_are_on_its_hosts_and_forwarded_to_the_active_one(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    network, subnet = inside(admin)
    router = admin.make("router", ha=True, external_gateway_info=gateway(outside(admin)))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    admin.port(network, binding__host_id="h3", device_owner="compute:nova")
    inner = ports_of(admin, router, "network:ha_router_replicated_interface")[0]["id"]

    async def run() -> None:
        keys = {host: Credentials(server.db).add(host) for host in HOSTS}
        address = Address(path=str(tmp_path / "feed.sock"))
        async with serving(server, address):
            ends = [HostEnd(address, host, keys[host]) for host in HOSTS]
            for end in ends:
                await end.__aenter__()
            h1, h2, h3 = ends

            async def all_right() -> None:
                for end in ends:
                    await end.equals_the_database(server)

            def where(end: HostEnd) -> str | None:
                found = end.client.state.get("forwarding", inner)
                return found.host if isinstance(found, Forwarding) else None

            try:
                for active, other in (("h1", "h2"), ("h2", "h1"), ("h1", "h2")):
                    await asyncio.to_thread(say, server, active, router, "active")
                    await all_right()
                    for end in (h1, h2):
                        port, served = end.client.state.get("port", inner), end.client.state.get("router", router["id"])
                        assert isinstance(port, Port)
                        assert isinstance(served, Router)
                        assert (port.host, port.active, port.replicated) == (end.host, True, True)
                        assert served.ha is not None
                        assert served.ha.active_host == active
                        assert where(end) == (active if end.host == other else None)
                    assert h3.client.state.get("port", inner) is None
                    assert where(h3) == active
                # A host that gives it up, and a router that goes.
                agents = admin.get("/agents", {"host": "h2", "agent_type": "L3 agent"}).body["agents"]
                path = f"/agents/{agents[0]['id']}/l3-routers/{router['id']}"
                await asyncio.to_thread(lambda: admin.delete(path).expect(204))
                await until(lambda: h2.client.state.get("port", inner) is None, "h2 has it no more")
                await all_right()
                await asyncio.to_thread(lambda: detach(admin, router, subnet_id=subnet["id"]).expect(200))
                await asyncio.to_thread(lambda: admin.delete(f"/routers/{router['id']}").expect(204))
                await until(lambda: h1.client.state.get("router", router["id"]) is None, "it is gone")
                await all_right()
            finally:
                for end in ends:
                    await end.__aexit__()

    asyncio.run(asyncio.wait_for(run(), 90))


def test_the_last_to_be_active_has_the_router(server: Server) -> None:
    """A host that was lost says nothing: it is not waited for."""
    admin = Api(server.app).as_admin()
    router = admin.make("router", ha=True, external_gateway_info=gateway(outside(admin)))
    for host in ("h1", "h2", "h1"):
        say(server, host, router, "active")
        states = admin.get(f"/routers/{router['id']}/l3-agents").body["agents"]
        assert [agent["host"] for agent in states if agent["ha_state"] == "active"] == [host]
        assert {port["binding:host_id"] for port in ports_of(admin, router, "network:router_gateway")} == {host}
