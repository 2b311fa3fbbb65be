"""Concurrent writers on one router or floating IP: of conflicting requests one succeeds, and nothing is left incomplete."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import attach, detach, gateway, inside, l3_agent, outside, ports_of
from tests.faults import integrity
from tests.faults.test_at_once import at_once, statuses


@pytest.fixture(autouse=True)
def sound(server: Server) -> Any:
    yield
    integrity.check(server.db)


@pytest.fixture(scope="module")
def external(server: Server) -> Object:
    l3_agent(server, "h1")
    l3_agent(server, "h2")
    return outside(Api(server.app).as_admin(), "172.24.0.0/22")


def test_one_subnet_is_attached_once(api: Api, admin: Api, external: Object) -> None:
    router = api.make("router")
    _, subnet = inside(api)
    assert statuses(at_once(lambda _: attach(api, router, subnet_id=subnet["id"]))) == {200: 1, 400: 7}
    assert len(ports_of(admin, router)) == 1
    assert len(admin.get(f"/routers/{router['id']}/l3-agents").body["agents"]) == 1


def test_one_of_two_overlapping_subnets_is_attached(api: Api, admin: Api) -> None:
    router = api.make("router")
    subnets = [inside(api, f"10.0.0.0/{24 + i % 4}")[1] for i in range(8)]
    assert statuses(at_once(lambda i: attach(api, router, subnet_id=subnets[i]["id"]))) == {200: 1, 400: 7}
    assert len(ports_of(admin, router)) == 1


def test_different_subnets_are_all_attached(api: Api, admin: Api) -> None:
    router = api.make("router")
    subnets = [inside(api, f"10.{i}.0.0/24")[1] for i in range(8)]
    assert statuses(at_once(lambda i: attach(api, router, subnet_id=subnets[i]["id"]))) == {200: 8}
    assert len({p["binding:host_id"] for p in ports_of(admin, router)}) == 1
    assert statuses(at_once(lambda i: detach(api, router, subnet_id=subnets[i]["id"]))) == {200: 8}
    api.delete(f"/routers/{router['id']}").expect(204)


def test_a_router_has_one_gateway(api: Api, admin: Api, external: Object) -> None:
    router = api.make("router")
    path, body = f"/routers/{router['id']}", {"router": {"external_gateway_info": gateway(external)}}
    assert statuses(at_once(lambda _: api.put(path, body))) == {200: 8}
    assert len(ports_of(admin, router)) == 1
    none = {"router": {"external_gateway_info": None}}
    assert statuses(at_once(lambda i: api.put(path, body if i % 2 else none), 16)) == {200: 16}
    assert len(ports_of(admin, router)) == (1 if api.show("router", router["id"])["external_gateway_info"] else 0)


def test_concurrently_added_gateways_are_all_kept(api: Api, admin: Api, external: Object) -> None:
    router = api.make("router")
    body = {"router": {"external_gateways": [gateway(external)]}}
    path = f"/routers/{router['id']}"
    assert statuses(at_once(lambda _: api.put(f"{path}/add_external_gateways", body))) == {200: 8}
    shown = api.show("router", router["id"])["external_gateways"]
    assert len(shown) == len(ports_of(admin, router)) == 8
    assert statuses(at_once(lambda i: api.put(f"{path}/remove_external_gateways", _only(shown[i])))) == {200: 8}
    assert api.show("router", router["id"])["external_gateway_info"] is None
    assert ports_of(admin, router) == []


def test_gateways_are_changed_in_all_ways_at_once(api: Api, admin: Api, external: Object) -> None:
    """Additions count, whatever happens to the first gateway meanwhile."""
    router = api.make("router", external_gateway_info=gateway(external))
    path, added = f"/routers/{router['id']}", {"router": {"external_gateways": [gateway(external)]}}

    def act(i: int) -> Any:
        if i % 3 == 0:
            return api.put(f"{path}/add_external_gateways", added)
        return api.put(path, {"router": {"external_gateway_info": None if i % 3 == 1 else gateway(external)}})

    assert statuses(at_once(act, 9)) == {200: 9}
    shown = api.show("router", router["id"])
    ports = {f["ip_address"] for port in ports_of(admin, router) for f in port["fixed_ips"]}
    assert {f["ip_address"] for each in shown["external_gateways"] for f in each["external_fixed_ips"]} == ports


def _only(shown: Object) -> Object:
    return {"router": {"external_gateways": [shown]}}


def test_a_port_gets_one_floating_ip(api: Api, external: Object) -> None:
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    port = api.port(network)
    made = at_once(lambda _: api.post("/floatingips", {"floatingip": {"floating_network_id": external["id"]}}))
    floating = [answer.body["floatingip"]["id"] for answer in made]
    body = {"floatingip": {"port_id": port["id"]}}
    assert statuses(at_once(lambda i: api.put(f"/floatingips/{floating[i]}", body))) == {200: 1, 409: 7}


def test_association_against_removal_of_gateway_or_interface(api: Api, external: Object) -> None:
    """The first request wins, the other is rejected."""
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    ports = [api.port(network) for _ in range(6)]
    floating = [api.make("floatingip", floating_network_id=external["id"]) for _ in range(6)]
    clear = {"router": {"external_gateway_info": None}}

    def act(i: int) -> Any:
        if i == 3:
            return detach(api, router, subnet_id=subnet["id"])
        if i == 4:
            return api.put(f"/routers/{router['id']}", clear)
        n = i - 2 * (i > 4)
        return api.put(f"/floatingips/{floating[n]['id']}", {"floatingip": {"port_id": ports[n]["id"]}})

    at_once(act)
    shown = api.show("router", router["id"])
    used = [one for one in api.all("/floatingips") if one["port_id"]]
    whole = shown["external_gateway_info"] is not None and len(ports_of(api, router)) == 1
    assert whole or not used


def test_ports_are_forwarded_once(api: Api, external: Object) -> None:
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    ports = [api.port(network) for _ in range(8)]
    floating = api.make("floatingip", floating_network_id=external["id"])

    def forward(i: int) -> Any:
        target = {
            "internal_port_id": ports[i]["id"],
            "internal_ip_address": ports[i]["fixed_ips"][0]["ip_address"],
            "internal_port": 80,
            "external_port": 8080,
            "protocol": "tcp",
        }
        return api.post(f"/floatingips/{floating['id']}/port_forwardings", {"port_forwarding": target})

    assert statuses(at_once(forward)) == {201: 1, 400: 7}


def test_concurrently_added_routes_are_all_kept(api: Api) -> None:
    router = api.make("router")
    attach(api, router, subnet_id=inside(api)[1]["id"]).expect(200)

    def add(i: int) -> Any:
        route = {"destination": f"192.0.{i}.0/24", "nexthop": "10.0.0.9"}
        return api.put(f"/routers/{router['id']}/add_extraroutes", {"router": {"routes": [route]}})

    assert statuses(at_once(add)) == {200: 8}
    assert len(api.show("router", router["id"])["routes"]) == 8


def test_an_ha_network_is_created_once(api: Api, admin: Api) -> None:
    answers = at_once(lambda _: admin.post("/routers", {"router": {"ha": True}}))
    assert statuses(answers) == {201: 8}
    assert len(admin.all("/networks", {"name": f"HA network tenant {admin.project}"})) == 1
    ids = [answer.body["router"]["id"] for answer in answers]
    assert statuses(at_once(lambda i: admin.delete(f"/routers/{ids[i]}"))) == {204: 8}
    assert admin.all("/networks", {"name": f"HA network tenant {admin.project}"}) == []
