"""VPN services in the feed: the hosts of a router get its connections with every change, and report their statuses.

Of a distributed router, only the host that ends its tunnels gets the keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.model.routing import Router
from neutrino.model.vpn import IkePolicy, IpsecPolicy, VpnConnection
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, gateway, inside, l3_agent, outside
from tests.api.vpn import CONNECTIONS, SERVICES, Site
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, serving

ROLES = ("l2", "l3")


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, request.param, tmp_path), {})
    yield made
    made.close()


def sited(server: Server, **router: Any) -> Site:
    admin = Api(server.app).as_admin()
    external = outside(admin)
    made = admin.make("router", external_gateway_info=gateway(external), **router)
    _, subnet = inside(admin)
    attach(admin, made, subnet_id=subnet["id"]).expect(200)
    return Site(admin, external, made, subnet)


def tunnels(end: HostEnd, site: Site) -> list[VpnConnection]:
    found = end.client.state.get("router", site.router["id"])
    assert isinstance(found, Router)
    return [each for service in found.vpn_services for each in service.connections]


def test_hosts_follow_connections_and_their_statuses_come_back(server: Server, tmp_path: Path) -> None:
    for host in ("h1", "h2"):
        switch(server, host)
    l3_agent(server, "h1")
    site = sited(server)
    admin = site.api
    group = admin.make("endpoint_group", type="subnet", endpoints=[site.subnet["id"]])
    peers = admin.make("endpoint_group", type="cidr", endpoints=["10.8.0.0/24", "10.9.0.0/24"])

    async def run() -> None:
        address = Address(path=str(tmp_path / "feed.sock"))
        keys = {host: Credentials(server.db).add(host, ROLES) for host in ("h1", "h2")}
        async with (
            serving(server, address),
            HostEnd(address, "h1", keys["h1"]) as end,
            HostEnd(address, "h2", keys["h2"]) as other,
        ):

            async def after(call: Callable[[], Any]) -> Any:
                answer = await asyncio.to_thread(call)
                await end.equals_the_database(server)
                return answer

            async def status(path: str, wanted: str) -> None:
                def shown() -> str:
                    (found,) = admin.get(path).expect(200).body.values()
                    return str(found["status"])

                async with asyncio.timeout(60):
                    while await asyncio.to_thread(shown) != wanted:
                        await asyncio.sleep(0.01)

            service = await after(site.service)
            assert tunnels(end, site) == []
            body = site.connection(service)
            made = await after(lambda: admin.make("ipsec_site_connection", **body))
            assert tunnels(end, site) == [
                VpnConnection(
                    id=made["id"],
                    peer_address="198.51.100.7",
                    peer_id="198.51.100.7",
                    psk="s3cret",
                    local_cidrs=(site.subnet["cidr"],),
                    peer_cidrs=("10.9.0.0/24",),
                    ike=IkePolicy(),
                    ipsec=IpsecPolicy(),
                )
            ]
            path = f"{CONNECTIONS}/{made['id']}"
            other.client.status("ipsec_site_connection", made["id"], "ERROR")  # of a host without the router
            end.client.status("ipsec_site_connection", made["id"], "ACTIVE")
            end.client.status("vpnservice", service["id"], "ACTIVE")
            await status(path, "ACTIVE")
            await status(f"{SERVICES}/{service['id']}", "ACTIVE")
            await after(lambda: admin.change("ipsec_site_connection", made["id"], psk="t", initiator="response-only"))
            await status(path, "PENDING_UPDATE")
            ((found),) = tunnels(end, site)
            assert (found.psk, found.initiates) == ("t", False)
            await after(lambda: admin.change("vpnservice", service["id"], admin_state_up=False))
            assert [each.admin_state_up for each in tunnels(end, site)] == [False]
            end.client.status("ipsec_site_connection", made["id"], "DOWN")
            await status(path, "DOWN")
            await after(lambda: admin.delete(path).expect(204))
            assert tunnels(end, site) == []
            # The same by endpoint groups, and policies with values of their own.
            second = await after(lambda: site.service(subnet_id=None))
            given = {"ike_version": "v2", "phase1_negotiation_mode": "aggressive", "lifetime": {"value": 60}}
            grouped = {"peer_cidrs": [], "local_ep_group_id": group["id"], "peer_ep_group_id": peers["id"]}
            policy = admin.make("ikepolicy", **given)["id"]
            body = site.connection(second, **grouped, ikepolicy_id=policy, local_id="here")
            await after(lambda: admin.make("ipsec_site_connection", **body))
            ((found),) = tunnels(end, site)
            assert (found.local_cidrs, found.peer_cidrs) == ((site.subnet["cidr"],), ("10.8.0.0/24", "10.9.0.0/24"))
            assert found.ike == IkePolicy(version=2, aggressive=True, lifetime=60)
            assert found.local_id == "here"

    asyncio.run(run())


def test_keys_of_a_distributed_router_are_where_its_tunnels_end(server: Server, tmp_path: Path) -> None:
    for host, mode in (("h1", "dvr_snat"), ("h2", "dvr")):
        switch(server, host, enable_distributed_routing=True)
        l3_agent(server, host, agent_mode=mode)
    site = sited(server, distributed=True)
    network = {"id": site.subnet["network_id"]}
    site.api.port(network, device_owner="compute:nova", device_id="vm", binding__host_id="h2")
    site.api.make("ipsec_site_connection", **site.connection(site.service()))

    async def run() -> None:
        address = Address(path=str(tmp_path / "feed.sock"))
        keys = {host: Credentials(server.db).add(host, ROLES) for host in ("h1", "h2")}
        async with (
            serving(server, address),
            HostEnd(address, "h1", keys["h1"]) as central,
            HostEnd(address, "h2", keys["h2"]) as local,
        ):
            for end in (central, local):
                await end.equals_the_database(server)
            assert [each.psk for each in tunnels(central, site)] == ["s3cret"]
            assert [each.psk for each in tunnels(local, site)] == [""]
            assert [each.peer_cidrs for each in tunnels(local, site)] == [("10.9.0.0/24",)]

    asyncio.run(run())
