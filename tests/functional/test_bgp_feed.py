"""BGP speakers in the feed: a host has its speaker's routes as they are, whichever object they follow from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.feed.address import Address
from neutrino.model.bgp import BgpPeer, BgpSpeaker
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.main import Server
from tests.api.bgp import act, bgp_agent, peer, pool, speaker
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, detach, gateway
from tests.support.feed import DATABASES, HostEnd, new_database, serving


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, new_database(request, request.param, tmp_path), {})
    yield made
    made.close()


def test_routes_follow_what_they_are_derived_from(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    agent = bgp_agent(server, "h1")
    one, remote = speaker(admin), peer(admin, auth_type="md5", password="p")
    scope = admin.make("address_scope", ip_version=4, shared=True)
    outside = admin.network(router__external=True)
    admin.subnet(outside, None, subnetpool_id=pool(admin, scope, "203.0.113.0/24", 24)["id"], enable_dhcp=False)
    inside = admin.network()
    subnet = admin.subnet(inside, None, subnetpool_id=pool(admin, scope, "10.64.0.0/16", 24)["id"])
    router = admin.make("router")

    async def run() -> None:
        address = Address(path=str(tmp_path / "feed.sock"))
        async with serving(server, address), HostEnd(address, "h1", Credentials(server.db).add("h1")) as end:

            async def after(call: Callable[[], Any]) -> BgpSpeaker | None:
                """The speaker as the host has it after a request."""
                await asyncio.to_thread(call)
                await end.equals_the_database(server)
                found = end.client.state.get("bgp_speaker", one["id"])
                assert found is None or isinstance(found, BgpSpeaker)
                return found

            async def routes(call: Callable[[], Any]) -> dict[str, str]:
                found = await after(call)
                assert found is not None
                return {route.destination: route.next_hop for route in found.routes}

            bound = await after(lambda: act(admin, one, "add_bgp_peer", bgp_peer_id=remote["id"]).expect(200))
            assert bound is not None
            assert bound.peers == (BgpPeer(peer_ip=remote["peer_ip"], remote_as=65000, password="p"),)
            changed = await after(lambda: admin.change("bgp_peer", remote["id"], password="q"))
            assert changed is not None
            assert changed.peers[0].password == "q"
            assert await routes(lambda: act(admin, one, "add_gateway_network", network_id=outside["id"])) == {}
            assert await routes(lambda: attach(admin, router, subnet_id=subnet["id"]).expect(200)) == {}
            set_gateway = {"external_gateway_info": gateway(outside)}
            announced = await routes(lambda: admin.change("router", router["id"], **set_gateway))
            (hop,) = announced.values()
            assert announced == {subnet["cidr"]: hop}
            port = admin.port(inside)
            floating = admin.make("floatingip", floating_network_id=outside["id"])
            key, host_route = floating["id"], f"{floating['floating_ip_address']}/32"
            associated = await routes(lambda: admin.change("floatingip", key, port_id=port["id"]))
            assert associated == {subnet["cidr"]: hop, host_route: hop}
            # The floating IP loses its port with the port.
            assert await routes(lambda: admin.delete(f"/ports/{port['id']}").expect(204)) == announced
            assert await routes(lambda: detach(admin, router, subnet_id=subnet["id"]).expect(200)) == {}
            attach(admin, router, subnet_id=subnet["id"]).expect(200)
            assert await routes(lambda: None) == announced
            assert await routes(lambda: admin.change("router", router["id"], external_gateway_info=None)) == {}
            path = f"/agents/{agent.agent_id}"
            disabled = {"agent": {"admin_state_up": False}}
            assert await after(lambda: admin.put(path, disabled).expect(200)) is None
            disabled["agent"]["admin_state_up"] = True
            assert await after(lambda: admin.put(path, disabled).expect(200)) is not None
            assert await after(lambda: admin.delete(f"/bgp-speakers/{one['id']}").expect(204)) is None

    asyncio.run(run())
