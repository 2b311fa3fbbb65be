"""HA and distributed routers in the feed: every host of such a router receives its ports, each in its form."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.tables import distributed_port_hosts
from neutrino.model.routing import Router
from neutrino.model.state import Forwarding, Port
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import attach, detach, gateway, inside, l3_agent, outside, ports_of
from tests.support.databases import DATABASES, prepared_database
from tests.support.feed import HostEnd, connected, until

HOSTS = ("h1", "h2", "h3")
READY = ("h1", "h2")


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    kind = getattr(request, "param", "sqlite")
    made = start(tmp_path, prepared_database(request, kind, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}")
    for host in READY:
        l3_agent(made, host)
    yield made
    made.close()


def report_state(server: Server, host: str, router: dict[str, Any], state: str) -> None:
    server.service_plugins["router"].scheduler.set_ha_state(host, router["id"], state)


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_ports_of_an_ha_router_are_on_its_hosts_and_forwarded_to_the_active_one(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    network, subnet = inside(admin)
    router = admin.make("router", ha=True, external_gateway_info=gateway(outside(admin)))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    admin.port(network, binding__host_id="h3", device_owner="compute:nova")
    inner = ports_of(admin, router, "network:ha_router_replicated_interface")[0]["id"]

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:
            h1, h2, h3 = ends

            async def all_right() -> None:
                for end in ends:
                    await end.equals_the_database(server)

            def where(end: HostEnd) -> str | None:
                found = end.client.state.get("forwarding", inner)
                return found.host if isinstance(found, Forwarding) else None

            for active, other in (("h1", "h2"), ("h2", "h1"), ("h1", "h2")):
                await asyncio.to_thread(report_state, server, active, router, "active")
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
            # A host loses the router, then the router is deleted.
            agents = admin.get("/agents", {"host": "h2", "agent_type": "L3 agent"}).body["agents"]
            path = f"/agents/{agents[0]['id']}/l3-routers/{router['id']}"
            await asyncio.to_thread(lambda: admin.delete(path).expect(204))
            await until(lambda: h2.client.state.get("port", inner) is None, "h2 has it no more")
            await all_right()
            await asyncio.to_thread(lambda: detach(admin, router, subnet_id=subnet["id"]).expect(200))
            await asyncio.to_thread(lambda: admin.delete(f"/routers/{router['id']}").expect(204))
            await until(lambda: h1.client.state.get("router", router["id"]) is None, "it is gone")
            await all_right()

    asyncio.run(asyncio.wait_for(run(), 90))


def test_the_last_to_be_active_has_the_router(server: Server) -> None:
    """A lost host sends no report: it is not waited for."""
    admin = Api(server.app).as_admin()
    router = admin.make("router", ha=True, external_gateway_info=gateway(outside(admin)))
    for host in ("h1", "h2", "h1"):
        report_state(server, host, router, "active")
        states = admin.get(f"/routers/{router['id']}/l3-agents").body["agents"]
        assert [agent["host"] for agent in states if agent["ha_state"] == "active"] == [host]
        assert {port["binding:host_id"] for port in ports_of(admin, router, "network:router_gateway")} == {host}


def test_policies_of_gateways_floating_ips_and_port_forwardings_reach_the_routers_hosts(
    server: Server, tmp_path: Path
) -> None:
    """Each its own, or that of the external network; a host has the policies that it needs, and no others."""
    admin = Api(server.app).as_admin()
    out, (network, subnet) = outside(admin), inside(admin)
    router = admin.make("router", external_gateway_info=gateway(out), ha=False)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    vm, other = admin.port(network), admin.port(network)
    floating = admin.make("floatingip", floating_network_id=out["id"], port_id=vm["id"])
    forwarded = admin.make("floatingip", floating_network_id=out["id"])
    ports = {"protocol": "tcp", "external_port": 80, "internal_port": 80, "internal_port_id": other["id"]}
    inner = {"internal_ip_address": other["fixed_ips"][0]["ip_address"]}
    path = f"/floatingips/{forwarded['id']}/port_forwardings"
    admin.post(path, {"port_forwarding": {**ports, **inner}}).expect(201)

    def policy(name: str) -> str:
        return str(admin.post("/qos/policies", {"policy": {"name": name}}).expect(201).body["policy"]["id"])

    wide, own, gate, forward = map(policy, ("wide", "own", "gate", "forward"))

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:
            network_policy: set[str] = set()

            def has(gateway_policy: str, floating_policy: str, forwarded_policy: str) -> bool:
                for end in ends:
                    served = router_of(end, router)
                    if served is None:
                        continue
                    found = [each.qos_policy_id for each in (*served.floating_ips, *served.port_forwardings)]
                    wanted = [gateway_policy, floating_policy, forwarded_policy]
                    # The host has the external network too, for the gateway's port.
                    needed = {*wanted, *network_policy} - {""}
                    policies = end.client.state.objects["qos_policy"]
                    return [served.gateway_qos_policy_id, *found] == wanted and policies.keys() == needed
                return False

            async def update(what: str, key: str, **values: Any) -> None:
                await asyncio.to_thread(lambda: admin.put(f"/{what}s/{key}", {what: values}).expect(200))

            await until(lambda: has("", "", ""), "none")
            await update("network", out["id"], qos_policy_id=wide)
            network_policy.add(wide)
            await until(lambda: has(wide, wide, wide), "that of the network")
            await update("floatingip", floating["id"], qos_policy_id=own)
            await update("floatingip", forwarded["id"], qos_policy_id=forward)
            await update("router", router["id"], external_gateway_info=gateway(out, qos_policy_id=gate))
            await until(lambda: has(gate, own, forward), "their own")
            await update("network", out["id"], qos_policy_id=None)
            network_policy.clear()
            await update("floatingip", forwarded["id"], qos_policy_id=None)
            await until(lambda: has(gate, own, ""), "some of their own, and no other")
            for end in ends:
                await end.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("server", DATABASES, indirect=True)
def test_further_gateways_reach_the_routers_host(server: Server, tmp_path: Path) -> None:
    admin = Api(server.app).as_admin()
    one, two, (network, subnet) = outside(admin), outside(admin, "172.25.0.0/24"), inside(admin)
    flags = {"enable_default_route_ecmp": True, "enable_default_route_bfd": True}
    router = admin.make("router", external_gateway_info=gateway(one), **flags)
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    path = f"/routers/{router['id']}"

    def act(verb: str, *networks: dict[str, Any]) -> None:
        body = {"router": {"external_gateways": [gateway(each) for each in networks]}}
        admin.put(f"{path}/{verb}_external_gateways", body).expect(200)

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:

            def has(*networks: dict[str, Any], floating: tuple[str, ...] = ()) -> bool:
                served = next((found for end in ends if (found := router_of(end, router)) is not None), None)
                if served is None or served.gateway is None:
                    return False
                several = (served.gateway, *served.extra_gateways)
                where = tuple(each.network_id for each in served.floating_ips)
                return (
                    served.enable_default_route_ecmp
                    and served.enable_default_route_bfd
                    and (
                        [each.network_id for each in several] == [each["id"] for each in networks] and where == floating
                    )
                )

            await until(lambda: has(one), "one gateway")
            await asyncio.to_thread(act, "add", two)
            await until(lambda: has(one, two), "two gateways")
            await asyncio.to_thread(
                lambda: admin.make("floatingip", floating_network_id=two["id"], port_id=admin.port(network)["id"])
            )
            await until(lambda: has(one, two, floating=(two["id"],)), "a floating IP of the second")
            await asyncio.to_thread(act, "update", two, one)
            await until(lambda: has(two, one, floating=("",)), "the second is the first")
            for end in ends:
                await end.equals_the_database(server)
            await asyncio.to_thread(act, "remove", one)
            await until(lambda: has(two, floating=("",)), "one is left")
            for end in ends:
                await end.equals_the_database(server)

    asyncio.run(asyncio.wait_for(run(), 60))


# --- distributed ------------------------------------------------------------------------------------------------------


@pytest.fixture
def distributing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """h1 and h2 may have the SNAT, h3 routes for itself alone."""
    made = start(tmp_path, prepared_database(request, request.param, tmp_path), {})
    for number, host in enumerate(HOSTS):
        switch(made, host, tunneling_ip=f"192.0.2.{number}", enable_distributed_routing=True)
    for host in HOSTS:
        l3_agent(made, host, agent_mode="dvr_snat" if host in READY else "dvr")
    yield made
    made.close()


def router_of(end: HostEnd, router: dict[str, Any]) -> Router | None:
    found = end.client.state.get("router", router["id"])
    assert found is None or isinstance(found, Router)
    return found


@pytest.mark.parametrize("ha", [False, True], ids=["one way out", "HA"])
@pytest.mark.parametrize("distributing", DATABASES, indirect=True)
def test_a_distributed_router_is_where_something_is_on_its_subnets(
    distributing: Server, tmp_path: Path, ha: bool
) -> None:
    server, admin = distributing, Api(distributing.app).as_admin()
    out, (network, subnet) = outside(admin), inside(admin)
    router = admin.make("router", ha=ha, distributed=True, external_gateway_info=gateway(out))
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    inner = ports_of(admin, router, "network:router_interface_distributed")[0]["id"]

    async def run() -> None:
        async with connected(server, tmp_path, HOSTS) as ends:
            h1, h2, h3 = ends

            async def all_right() -> None:
                for end in ends:
                    await end.equals_the_database(server)

            def status() -> str:
                return str(admin.get(f"/ports/{inner}").body["port"]["status"])

            await all_right()
            central = [end for end in ends if router_of(end, router) is not None]
            assert len(central) == (2 if ha else 1)
            assert h3 not in central
            for end in central:
                there = router_of(end, router)
                assert there is not None
                assert (there.centralized, there.ha is not None) == (True, ha)
                assert len(there.snat_interfaces) == 1
            # An instance brings it to its host, with a floating IP, and its own port outside.
            vm = await asyncio.to_thread(
                lambda: admin.port(network, binding__host_id="h3", device_owner="compute:nova")
            )
            await until(lambda: router_of(h3, router) is not None, "h3 needs it")
            floating = await asyncio.to_thread(
                lambda: admin.make("floatingip", floating_network_id=out["id"], port_id=vm["id"])
            )
            await until(lambda: bool(getattr(router_of(h3, router), "floating_ips", ())), "h3 has the floating IP")
            there = router_of(h3, router)
            assert there is not None
            assert (there.centralized, there.ha) == (False, None)
            assert there.agent_gateway is not None
            assert all(getattr(router_of(end, router), "floating_ips", None) == () for end in central)
            # The port is ACTIVE while at least one host that needs it has it wired.
            port = h3.client.state.get("port", inner)
            assert isinstance(port, Port)
            assert port.distributed
            assert status() == "DOWN"
            h3.client.port_up(inner, port.revision)
            await until(lambda: status() == "ACTIVE", "one host has it")
            await all_right()
            for end in (central[0], h3):
                newest = end.client.state.get("port", inner)
                assert newest is not None
                end.client.port_up(inner, newest.revision)
            await until(lambda: len(wired(server, inner)) == 2, "two hosts have it")
            h3.client.port_down(inner, "unplugged")
            await until(lambda: wired(server, inner) == {central[0].host}, "one of them has lost it")
            assert status() == "ACTIVE"
            central[0].client.port_down(inner, "unplugged")
            await until(lambda: status() == "DOWN", "nobody has it")
            # A host that no longer needs the port does not count.
            newest = h3.client.state.get("port", inner)
            assert newest is not None
            await all_right()
            h3.client.port_up(inner, h3.client.state.objects["port"][inner].revision)
            await until(lambda: status() == "ACTIVE", "h3 has it again")
            await asyncio.to_thread(lambda: admin.delete(f"/floatingips/{floating['id']}").expect(204))
            await asyncio.to_thread(lambda: admin.delete(f"/ports/{vm['id']}").expect(204))
            await until(lambda: router_of(h3, router) is None, "h3 does not need it")
            await until(lambda: status() == "DOWN", "nobody who needs it has it")
            await all_right()
            if ha:
                for active in READY:
                    await asyncio.to_thread(report_state, server, active, router, "active")
                    await all_right()
                    for end in (h1, h2):
                        there = router_of(end, router)
                        assert there is not None
                        assert there.ha is not None
                        assert there.ha.active_host == active
            await asyncio.to_thread(lambda: detach(admin, router, subnet_id=subnet["id"]).expect(200))
            await asyncio.to_thread(lambda: admin.delete(f"/routers/{router['id']}").expect(204))
            await until(lambda: all(router_of(end, router) is None for end in ends), "it is gone")
            await all_right()

    asyncio.run(asyncio.wait_for(run(), 90))


def wired(server: Server, port_id: str) -> set[str]:
    with server.db.read() as connection:
        found = connection.execute(sa.select(distributed_port_hosts.c.host).filter_by(port_id=port_id))
        return set(found.scalars())
