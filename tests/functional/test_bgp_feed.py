"""BGP speakers in the feed: a host has its speaker's routes as they are, whichever object they follow from."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.features.bgp.feed import speakers_of
from neutrino.feed.address import Address
from neutrino.model.bgp import BgpPeer, BgpSpeaker
from neutrino.model.routing import Router
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.declarations import Changed
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.bgp import act, bgp_agent, peer, pool, speaker
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, detach, gateway, l3_agent
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, connected, serving, until


@pytest.fixture(params=DATABASES)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    made = start(tmp_path, prepared_database(request, request.param, tmp_path), {})
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


def test_instances_behind_distributed_routers(server: Server, tmp_path: Path) -> None:
    """The address of an instance is announced, and its host gets the way that it leaves by; both go again."""
    admin = Api(server.app).as_admin()
    switch(server, "h1", enable_distributed_routing=True)
    l3_agent(server, "h1", agent_mode="dvr_snat")
    bgp_agent(server, "h1")
    one = speaker(admin)
    scope = admin.make("address_scope", ip_version=4, shared=True)
    outside, inside = admin.network(router__external=True), admin.network()
    admin.subnet(outside, None, subnetpool_id=pool(admin, scope, "203.0.113.0/24", 24)["id"], enable_dhcp=False)
    subnet = admin.subnet(inside, None, subnetpool_id=pool(admin, scope, "10.64.0.0/16", 24)["id"], enable_dhcp=False)
    router = admin.make("router", distributed=True, external_gateway_info=gateway(outside))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    bound = {"binding__host_id": "h1", "device_owner": "compute:nova"}
    ports = [admin.port(inside, **bound) for _ in range(2)]
    first, second = (f"{port['fixed_ips'][0]['ip_address']}/32" for port in ports)

    async def run() -> None:
        async with connected(server, tmp_path, ["h1"]) as (end,):

            def routes() -> set[str]:
                found = end.client.state.get("bgp_speaker", one["id"])
                return {route.destination for route in found.routes} if isinstance(found, BgpSpeaker) else set()

            def direct() -> tuple[str, ...]:
                found = end.client.state.get("router", router["id"])
                assert isinstance(found, Router)
                assert bool(found.direct_prefixes) == (found.agent_gateway is not None)
                return tuple(found.direct_prefixes)

            async def after(call: Callable[[], Any], announced: set[str], prefixes: tuple[str, ...]) -> None:
                await asyncio.to_thread(call)
                await until(lambda: routes() == announced and direct() == prefixes, f"{announced} and {prefixes}")
                await end.equals_the_database(server)

            own = subnet["cidr"]
            bind = {"network_id": outside["id"]}
            await after(
                lambda: act(admin, one, "add_gateway_network", **bind).expect(200), {own, first, second}, (own,)
            )
            await after(lambda: admin.delete(f"/ports/{ports[0]['id']}").expect(204), {own, second}, (own,))
            gone = {"binding__host_id": "", "device_owner": ""}
            await after(lambda: admin.change("port", ports[1]["id"], **gone), {own}, ())
            await after(lambda: admin.change("port", ports[1]["id"], **bound), {own, second}, (own,))
            values = {"advertise_tenant_networks": False}
            await after(lambda: admin.change("bgp_speaker", one["id"], **values), set(), ())
            values["advertise_tenant_networks"] = True
            await after(lambda: admin.change("bgp_speaker", one["id"], **values), {own, second}, (own,))
            await after(lambda: act(admin, one, "remove_gateway_network", **bind).expect(200), set(), ())

    asyncio.run(run())


def test_only_speakers_of_the_affected_networks_are_read(server: Server) -> None:
    admin = Api(server.app).as_admin()
    for host in ("h1", "h2"):
        bgp_agent(server, host)
    speakers = [speaker(admin, local_as=64512 + number) for number in range(2)]
    networks = [admin.network(router__external=True) for _ in speakers]
    for one, network, cidr in zip(speakers, networks, ("203.0.113.0/24", "198.51.100.0/24"), strict=True):
        admin.subnet(network, cidr, enable_dhcp=False)
        act(admin, one, "add_gateway_network", network_id=network["id"]).expect(200)
    routers = [admin.make("router", external_gateway_info=gateway(network)) for network in networks]
    plain = admin.make("router")
    port = admin.port(admin.network())

    def found(routers: list[str], ports: list[str], networks: list[str]) -> list[int]:
        with server.db.read() as connection:
            keys = speakers_of(connection, Changed({"port": ports}, {"router": routers}, networks))
        return [number for number, one in enumerate(speakers) if one["id"] in keys]

    assert found([routers[0]["id"]], [], []) == [0]
    assert found([routers[1]["id"], plain["id"]], [], []) == [1]
    assert found([plain["id"]], [], []) == []
    assert found([], [port["id"]], []) == []
    assert found([plain["id"]], ["deleted"], [networks[1]["id"]]) == [1], "the gateway that a router has lost"
