"""Floating IPs by a chosen router, and the addresses of routers' ports."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import attach, gateway, inside, outside, ports_of
from tests.faults.integrity import check


@pytest.fixture(autouse=True)
def sound(server: Server) -> Any:
    yield
    check(server.db)


@pytest.fixture(scope="module")
def external(server: Server) -> Object:
    return outside(Api(server.app).as_admin(), "172.24.0.0/22")


class TwoHops:
    """An instance behind an inner router; an outer router, with the gateway, on a transit network with it."""

    def __init__(self, api: Api, external: Object) -> None:
        network, subnet = inside(api, "192.168.210.0/24")
        transit, _ = inside(api, "192.168.200.0/24")
        self.inner = api.make("router", name="inner")
        self.outer = api.make("router", name="outer", external_gateway_info=gateway(external))
        attach(api, self.inner, subnet_id=subnet["id"]).expect(200)
        for router in (self.inner, self.outer):
            attach(api, router, port_id=api.port(transit)["id"]).expect(200)
        self.port = api.port(network)


@pytest.fixture
def hops(api: Api, external: Object) -> TwoHops:
    return TwoHops(api, external)


def asked(external: Object, **values: Any) -> Object:
    return {"floatingip": {"floating_network_id": external["id"], **values}}


def test_without_a_choice_the_router_is_next_to_the_port(api: Api, external: Object, hops: TwoHops) -> None:
    body = asked(external, port_id=hops.port["id"])
    api.post("/floatingips", body).refused(404, "ExternalGatewayForFloatingIPNotFound")
    body["floatingip"]["router_id"] = None
    api.post("/floatingips", body).refused(404, "ExternalGatewayForFloatingIPNotFound")


def test_a_router_that_is_reached_by_another(api: Api, external: Object, hops: TwoHops) -> None:
    body = asked(external, port_id=hops.port["id"], router_id=hops.outer["id"])
    made = api.post("/floatingips", body).expect(201).body["floatingip"]
    address = hops.port["fixed_ips"][0]["ip_address"]
    assert (made["router_id"], made["port_id"], made["fixed_ip_address"]) == (
        *(hops.outer["id"], hops.port["id"], address),
    )
    assert api.show("floatingip", made["id"]) == made
    assert [one["id"] for one in api.all("/floatingips", {"router_id": hops.outer["id"]})] == [made["id"]]
    # The router keeps its gateway as long as it has the floating IP.
    body = {"router": {"external_gateway_info": {}}}
    api.put(f"/routers/{hops.outer['id']}", body).refused(409, "RouterExternalGatewayInUseByFloatingIp")
    assert api.change("floatingip", made["id"], port_id=None)["router_id"] is None
    api.put(f"/routers/{hops.outer['id']}", body).expect(200)


def test_the_router_is_chosen_later(api: Api, external: Object, hops: TwoHops) -> None:
    made = api.make("floatingip", floating_network_id=external["id"])
    path = f"/floatingips/{made['id']}"
    api.put(path, {"floatingip": {"port_id": hops.port["id"]}}).refused(404)
    chosen = api.change("floatingip", made["id"], port_id=hops.port["id"], router_id=hops.outer["id"])
    assert chosen["router_id"] == hops.outer["id"]
    other = api.make("router", name="other", external_gateway_info=gateway(external))
    moved = api.change("floatingip", made["id"], router_id=other["id"])
    assert (moved["router_id"], moved["port_id"]) == (other["id"], hops.port["id"])
    assert moved["fixed_ip_address"] == chosen["fixed_ip_address"]
    described = api.change("floatingip", made["id"], description="d")
    assert described["router_id"] == other["id"]
    # Null leaves the choice to the server, which finds no router next to the port.
    api.put(path, {"floatingip": {"router_id": None}}).refused(404, "ExternalGatewayForFloatingIPNotFound")


def test_routers_that_cannot_be_chosen(api: Api, admin: Api, external: Object, hops: TwoHops) -> None:
    def refused(router_id: Any, status: int, kind: str = "", **values: Any) -> None:
        body = asked(external, **{"port_id": hops.port["id"], "router_id": router_id, **values})
        api.post("/floatingips", body).refused(status, kind)

    elsewhere = outside(admin, "172.28.0.0/24")
    foreign = api.as_stranger().make("router", external_gateway_info=gateway(external))
    distributed = admin.make("router", distributed=True, external_gateway_info=gateway(external))
    refused(hops.inner["id"], 409, "FloatingIPRouterConflict")  # without a gateway
    refused(api.make("router", external_gateway_info=gateway(elsewhere))["id"], 409, "FloatingIPRouterConflict")
    refused(foreign["id"], 404, "RouterNotFound")
    refused("00000000-0000-4000-8000-00000000dead", 404, "RouterNotFound")
    refused("nonsense", 400)
    refused(distributed["id"], 400, "BadRequest")
    refused(hops.outer["id"], 400, "BadRequest", port_id=None)
    assert api.all("/floatingips") == []


def test_a_chosen_router_stays_centralized(api: Api, admin: Api, external: Object, hops: TwoHops) -> None:
    """As long as it has the floating IP of a port behind another router; one next to its port does not matter."""
    near, subnet = inside(api, "10.6.0.0/24")
    attach(api, hops.outer, subnet_id=subnet["id"]).expect(200)
    api.make("floatingip", floating_network_id=external["id"], port_id=api.port(near)["id"])
    body = asked(external, port_id=hops.port["id"], router_id=hops.outer["id"])
    far = api.post("/floatingips", body).expect(201).body["floatingip"]
    path = f"/routers/{hops.outer['id']}"
    api.change("router", hops.outer["id"], admin_state_up=False)
    admin.put(path, {"router": {"distributed": True}}).refused(400, "BadRequest")
    api.delete(f"/floatingips/{far['id']}").expect(204)
    admin.put(path, {"router": {"distributed": True}}).expect(200)


def test_addresses_of_router_ports_stay(api: Api, admin: Api, external: Object) -> None:
    """An update with the same addresses is accepted, and the gateway's addresses can be changed."""
    network, subnet = inside(api, "10.7.0.0/24")
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    (interface,) = ports_of(admin, router, "network:router_interface")
    path = f"/ports/{interface['id']}"
    for fixed_ips in (
        [{"subnet_id": subnet["id"], "ip_address": "10.7.0.77"}],
        [*interface["fixed_ips"], {"subnet_id": subnet["id"], "ip_address": "10.7.0.78"}],
        [],
    ):
        for caller in (api, admin):
            answer = caller.put(path, {"port": {"fixed_ips": fixed_ips}}).refused(400, "BadRequest")
            assert "fixed_ips" in answer.message
    api.put(path, {"port": {"fixed_ips": interface["fixed_ips"], "name": "named"}}).expect(200)
    admin.put(path, {"port": {"device_owner": ""}}).expect(200)
    admin.put(path, {"port": {"fixed_ips": []}}).refused(400, "BadRequest")  # it is the router's nevertheless
    (outer,) = ports_of(admin, router, "network:router_gateway")
    changed = admin.change("port", outer["id"], fixed_ips=[{"ip_address": "172.24.3.9"}])
    assert [fixed["ip_address"] for fixed in changed["fixed_ips"]] == ["172.24.3.9"]
    plain = api.port(network)
    assert api.change("port", plain["id"], fixed_ips=[{"ip_address": "10.7.0.99"}])["fixed_ips"]
