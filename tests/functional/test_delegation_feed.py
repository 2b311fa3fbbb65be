"""Delegated prefixes through the feed: a subnet that waits for its prefix, and its renumbering."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.model.routing import Delegation, Router
from neutrino.model.state import Network, Port
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.ipam.subnet_rules import eui64
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, detach, gateway, l3_agent, outside
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving, until

ASKING: dict[str, Any] = {
    "ip_version": 6,
    "subnetpool_id": "prefix_delegation",
    "ipv6_ra_mode": "slaac",
    "ipv6_address_mode": "slaac",
}
Known = tuple[tuple[Delegation, ...], list[str], list[str], list[str]]
PREFIX, OTHER = "2001:db8:aa:1::/64", "2001:db8:aa:2::/64"


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {})
    for number, host in enumerate(("h1", "h2")):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    l3_agent(made, "h1")
    yield made
    made.close()


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_a_reported_prefix_renumbers_the_subnet(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    network = admin.network()
    subnet = admin.make("subnet", network_id=network["id"], **ASKING)
    port = admin.port(network, binding__host_id="h1", device_owner="compute:nova")
    router = admin.make("router", external_gateway_info=gateway(outside(admin)))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    own = eui64(PREFIX, port["mac_address"])

    async def run() -> None:
        keys = {host: Credentials(server.db).add(host) for host in ("h1", "h2")}
        address = Address(path=str(tmp_path / "feed.sock"))
        async with (
            serving(server, address),
            HostEnd(address, "h1", keys["h1"]) as h1,
            HostEnd(address, "h2", keys["h2"]) as h2,
        ):

            def known() -> Known:
                """Records on h1: the router's delegations and inner addresses, the port's, and the network's prefixes."""
                there = h1.client.state.get("router", router["id"])
                wired, around = h1.client.state.get("port", port["id"]), h1.client.state.get("network", network["id"])
                if not (isinstance(there, Router) and isinstance(wired, Port) and isinstance(around, Network)):
                    return (), [], [], []
                inner = [each.ip_address for one in there.interfaces for each in one.addresses]
                return (
                    there.delegations,
                    inner,
                    [f.ip_address for f in wired.fixed_ips],
                    [s.cidr for s in around.subnets],
                )

            def prefix() -> str:
                return str(admin.show("subnet", subnet["id"])["cidr"])

            waiting: Known = ((Delegation(subnet["id"]),), [], [], [])
            has: Known = ((Delegation(subnet["id"], PREFIX),), ["2001:db8:aa:1::1"], [own], [PREFIX])
            await until(lambda: known() == waiting, "h1 receives a subnet without a prefix")

            h2.client.status("subnet", subnet["id"], OTHER)  # h2 does not serve the router
            await until(lambda: h2.client.unacknowledged == 0, "the report of h2 is acknowledged")
            assert await asyncio.to_thread(prefix) == "::/64"
            h1.client.status("subnet", subnet["id"], PREFIX)
            await until(lambda: known() == has, "everything follows")
            revision = (await asyncio.to_thread(admin.show, "subnet", subnet["id"]))["revision_number"]
            h1.client.status("subnet", subnet["id"], PREFIX)  # as after a lost answer
            await until(lambda: h1.client.unacknowledged == 0, "the report of h1 is acknowledged")
            assert (await asyncio.to_thread(admin.show, "subnet", subnet["id"]))["revision_number"] == revision

            await asyncio.to_thread(lambda: detach(admin, router, subnet_id=subnet["id"]).expect(200))
            await until(lambda: known() == ((), [], [], []), "nothing is left of it")
            for end in (h1, h2):
                await end.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))
