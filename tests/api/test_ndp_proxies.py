"""NDP proxies, and `enable_ndp_proxy` of routers: attributes, checks in Neutron's order, refusals while in use."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import attach, detach, gateway
from tests.api.ndp import INSIDE, external_network, scoped, scoped_pool
from tests.api.races import before_next_transaction

PROXIES = "/ndp_proxies"
MISSING = "6a4a5b0e-0000-4000-8000-000000000000"


# --- enable_ndp_proxy of routers --------------------------------------------------------------------------------------


def test_a_router_without_gateway_has_it_off(api: Api) -> None:
    router = api.make("router")
    assert router["enable_ndp_proxy"] is False
    body = {"router": {"enable_ndp_proxy": True}}
    api.post("/routers", body).refused(409, "RouterGatewayNotValid")
    api.put(f"/routers/{router['id']}", body).refused(409, "RouterGatewayNotValid")
    assert api.change("router", router["id"], enable_ndp_proxy=False)["enable_ndp_proxy"] is False


def test_the_external_network_needs_an_address_scope(api: Api) -> None:
    external = external_network(api, None)
    body = {"external_gateway_info": gateway(external), "enable_ndp_proxy": True}
    api.post("/routers", {"router": body}).refused(409, "RouterGatewayNotValid")
    router = api.make("router", external_gateway_info=gateway(external))
    assert router["enable_ndp_proxy"] is False
    changed = {"router": {"enable_ndp_proxy": True}}
    api.put(f"/routers/{router['id']}", changed).refused(409, "RouterGatewayNotValid")


@pytest.mark.every_database
def test_it_is_set_shown_filtered_and_goes_with_the_gateway(api: Api) -> None:
    external = external_network(api, scoped_pool(api))
    router = api.make("router", external_gateway_info=gateway(external))
    assert router["enable_ndp_proxy"] is False
    key = router["id"]
    assert api.change("router", key, enable_ndp_proxy=True)["enable_ndp_proxy"] is True
    assert api.change("router", key, name="x")["enable_ndp_proxy"] is True
    assert [each["id"] for each in api.all("/routers", {"enable_ndp_proxy": True})] == [key]
    unset = {"router": {"external_gateway_info": {}, "enable_ndp_proxy": True}}
    api.put(f"/routers/{key}", unset).refused(409, "RouterGatewayNotValid")
    assert api.change("router", key, external_gateway_info=None)["enable_ndp_proxy"] is False
    both = api.change("router", key, external_gateway_info=gateway(external), enable_ndp_proxy=True)
    assert both["enable_ndp_proxy"] is True
    assert api.change("router", key, enable_ndp_proxy="false")["enable_ndp_proxy"] is False
    api.put(f"/routers/{key}", {"router": {"enable_ndp_proxy": "maybe"}}).expect(400)


def test_the_gateway_keeps_an_ipv6_address(api: Api) -> None:
    made, admin = scoped(api), api.as_admin()
    v4 = admin.all("/subnets", {"network_id": made.external["id"], "ip_version": 4})[0]
    only_v4 = gateway(made.external, external_fixed_ips=[{"subnet_id": v4["id"]}])
    path = f"/routers/{made.router['id']}"
    admin.put(path, {"router": {"external_gateway_info": only_v4}}).refused(409, "RouterIPv6GatewayInUse")
    admin.put(path, {"router": {"external_gateway_info": only_v4, "enable_ndp_proxy": False}}).expect(200)
    admin.put(path, {"router": {"enable_ndp_proxy": True}}).refused(409, "RouterGatewayNotValid")


# --- proxies ----------------------------------------------------------------------------------------------------------


def test_a_proxy_has_neutrons_attributes(api: Api) -> None:
    made = scoped(api)
    port = api.port(made.network)
    proxy = api.make("ndp_proxy", router_id=made.router["id"], port_id=port["id"], name="p")
    wanted = {
        "name": "p",
        "description": "",
        "router_id": made.router["id"],
        "port_id": port["id"],
        "ip_address": port["fixed_ips"][0]["ip_address"],
        "project_id": api.project,
        "tenant_id": api.project,
        "revision_number": 1,
    }
    assert {name: proxy[name] for name in wanted} == wanted
    assert proxy.keys() == {*wanted, "id", "created_at", "updated_at"}
    assert api.show("ndp_proxy", proxy["id"]) == proxy
    assert api.all(PROXIES, {"port_id": port["id"]}) == [proxy]
    assert api.get("/ndp-proxies").expect(200).body["ndp_proxies"] == [proxy]
    changed = api.change("ndp_proxy", proxy["id"], name="q", description="d")
    assert (changed["name"], changed["description"], changed["revision_number"]) == ("q", "d", 2)
    for fixed in ("router_id", "port_id", "ip_address"):
        api.put(f"{PROXIES}/{proxy['id']}", {"ndp_proxy": {fixed: proxy[fixed]}}).expect(400)
    api.delete(f"{PROXIES}/{proxy['id']}").expect(204)
    api.get(f"{PROXIES}/{proxy['id']}").refused(404, "NDPProxyNotFound")


def test_who_may_have_proxies(api: Api) -> None:
    made, stranger = scoped(api), api.as_stranger()
    port = api.port(made.network)
    body = {"ndp_proxy": {"router_id": made.router["id"], "port_id": port["id"]}}
    stranger.post(PROXIES, body).refused(404, "PortNotFound")
    api.as_reader().post(PROXIES, body).refused(403, "PolicyNotAuthorized")
    proxy = api.post(PROXIES, body).expect(201).body["ndp_proxy"]
    assert api.as_reader().all(PROXIES) == [proxy]
    assert stranger.all(PROXIES) == []
    stranger.delete(f"{PROXIES}/{proxy['id']}").refused(404, "NDPProxyNotFound")


def test_what_a_proxy_needs(api: Api) -> None:
    made = scoped(api)
    port, router_id = api.port(made.network), made.router["id"]

    def refused(status: int, error: str, **values: Any) -> None:
        body = {"router_id": router_id, "port_id": port["id"], **values}
        api.post(PROXIES, {"ndp_proxy": body}).refused(status, error)

    refused(404, "PortNotFound", port_id=MISSING)
    refused(409, "PortUnreachableRouter", router_id=MISSING)
    refused(409, "PortUnreachableRouter", port_id=api.port(api.network())["id"])
    refused(400, "InvalidAddress", ip_address="2001:db8:0:2::ffff:1")
    refused(400, "HTTPBadRequest", ip_address="here")
    v4 = api.subnet(made.network, "10.0.0.0/24")
    only_v4 = api.port(made.network, fixed_ips=[{"subnet_id": v4["id"]}])
    refused(400, "BadRequest", port_id=only_v4["id"])
    other = api.subnet(made.network, "2001:db8:0:3::/64", subnetpool_id=made.pool["id"])
    elsewhere = api.port(made.network, fixed_ips=[{"subnet_id": other["id"]}])
    refused(409, "PortUnreachableRouter", port_id=elsewhere["id"])
    refused(400, "InvalidAddress", port_id=elsewhere["id"], ip_address=elsewhere["fixed_ips"][0]["ip_address"])
    api.change("router", router_id, enable_ndp_proxy=False)
    refused(409, "RouterNDPProxyNotEnable")
    api.change("router", router_id, enable_ndp_proxy=True)
    address = port["fixed_ips"][0]["ip_address"]
    api.make("ndp_proxy", router_id=router_id, port_id=port["id"], ip_address=address)
    refused(409, "NeutronDbObjectDuplicateEntry")


def test_both_networks_are_in_one_address_scope(api: Api) -> None:
    made = scoped(api)
    network = api.network()
    subnet = api.subnet(network, "fd00::/64")
    attach(api, made.router, subnet_id=subnet["id"]).expect(200)
    body = {"router_id": made.router["id"], "port_id": api.port(network)["id"]}
    api.post(PROXIES, {"ndp_proxy": body}).refused(409, "AddressScopeConflict")


def test_what_a_proxy_keeps_in_use(api: Api) -> None:
    made = scoped(api)
    port, path = api.port(made.network), f"/routers/{made.router['id']}"
    proxy = api.make("ndp_proxy", router_id=made.router["id"], port_id=port["id"])
    unset = {"router": {"external_gateway_info": None}}
    api.put(path, unset).refused(409, "RouterGatewayInUseByNDPProxy")
    other = external_network(api, None, "2001:db8:0:9::/64")
    moved = {"router": {"external_gateway_info": gateway(other)}}
    api.put(path, moved).refused(409, "RouterGatewayInUseByNDPProxy")
    detach(api, made.router, subnet_id=made.subnet["id"]).refused(409, "RouterInterfaceInUseByNDPProxy")
    api.delete(f"/ports/{port['id']}").expect(204)
    api.get(f"{PROXIES}/{proxy['id']}").refused(404, "NDPProxyNotFound")
    detach(api, made.router, subnet_id=made.subnet["id"]).expect(200)
    api.put(path, unset).expect(200)


@pytest.mark.every_database
def test_a_gateway_that_is_removed_meanwhile(api: Api, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made = scoped(api)
    port, path = api.port(made.network), f"/routers/{made.router['id']}"
    unset = {"router": {"external_gateway_info": None}}
    before_next_transaction(server, monkeypatch, lambda: api.put(path, unset).expect(200))
    body = {"router_id": made.router["id"], "port_id": port["id"]}
    api.post(PROXIES, {"ndp_proxy": body}).refused(409, "RouterNDPProxyNotEnable")


def test_a_second_subnet_behind_the_router_may_lose_its_interface(api: Api) -> None:
    made = scoped(api)
    api.make("ndp_proxy", router_id=made.router["id"], port_id=api.port(made.network)["id"])
    network = api.network()
    other = api.subnet(network, "2001:db8:0:4::/64", subnetpool_id=made.pool["id"])
    attach(api, made.router, subnet_id=other["id"]).expect(200)
    detach(api, made.router, subnet_id=other["id"]).expect(200)
    assert made.subnet["cidr"] == INSIDE
