"""Routers: their attributes, gateways, interfaces and routes, and every refusal that clients know."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import attach, detach, gateway, inside, outside, ports_of
from tests.faults.integrity import check

INTERFACE, GATEWAY = "network:router_interface", "network:router_gateway"


@pytest.fixture(autouse=True)
def sound(server: Server) -> Any:
    yield
    check(server.db)


@pytest.fixture(scope="module")
def external(server: Server) -> dict[str, Any]:
    return outside(Api(server.app).as_admin())


def test_a_router_is_made_shown_changed_and_deleted(api: Api, admin: Api) -> None:
    made = api.make("router", name="r", description="d")
    assert made == api.show("router", made["id"])
    assert (made["status"], made["admin_state_up"], made["external_gateway_info"]) == ("ACTIVE", True, None)
    assert (made["routes"], made["availability_zones"], made["flavor_id"]) == ([], [], None)
    assert "distributed" not in made
    shown = admin.show("router", made["id"])
    assert (shown["distributed"], shown["ha"]) == (False, False)
    changed = api.change("router", made["id"], name="s", admin_state_up=False)
    assert (changed["name"], changed["admin_state_up"], changed["revision_number"]) == ("s", False, 2)
    assert api.change("router", made["id"], name="s")["revision_number"] == 2
    assert [r["id"] for r in api.all("/routers", {"name": "s"})] == [made["id"]]
    api.as_stranger().get(f"/routers/{made['id']}").refused(404, "RouterNotFound")
    assert api.as_stranger().all("/routers") == []
    api.delete(f"/routers/{made['id']}").expect(204)
    api.get(f"/routers/{made['id']}").refused(404, "RouterNotFound")


def test_permissions(api: Api, external: dict[str, Any]) -> None:
    api.as_reader().post("/routers", {"router": {}}).refused(403)
    for name in ("distributed", "ha"):
        api.post("/routers", {"router": {name: True}}).refused(403, "PolicyNotAuthorized")
    api.post("/routers", {"router": {"external_gateway_info": gateway(external, enable_snat=True)}}).refused(403)
    wanted = gateway(external, external_fixed_ips=[{"ip_address": "172.24.0.9"}])
    api.post("/routers", {"router": {"external_gateway_info": wanted}}).refused(403)
    router = api.make("router")
    api.as_stranger().put(f"/routers/{router['id']}", {"router": {"name": "x"}}).refused(404)
    attach(api.as_stranger(), router, subnet_id=router["id"]).refused(404, "RouterNotFound")


@pytest.mark.every_database
def test_a_quota_limits_routers_and_routes(api: Api, admin: Api) -> None:
    admin.put(f"/quotas/{api.project}", {"quota": {"router": 1, "router_route": 1}}).expect(200)
    router = api.make("router")
    api.post("/routers", {"router": {}}).refused(409, "OverQuota")
    _, subnet = inside(api)
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    routes = [{"destination": f"192.0.{i}.0/24", "nexthop": "10.0.0.9"} for i in range(2)]
    api.put(f"/routers/{router['id']}", {"router": {"routes": routes}}).refused(409, "OverQuota")
    api.change("router", router["id"], routes=routes[:1])
    detach(api, router, subnet_id=subnet["id"]).refused(409, "RouterInterfaceInUseByRoute")
    api.change("router", router["id"], routes=[])
    detach(api, router, subnet_id=subnet["id"]).expect(200)
    api.delete(f"/routers/{router['id']}").expect(204)
    api.make("router")


# --- gateways ---------------------------------------------------------------------------------------------------------


def test_a_gateway_is_set_changed_and_cleared(api: Api, admin: Api, external: dict[str, Any]) -> None:
    router = api.make("router", external_gateway_info=gateway(external))
    info = router["external_gateway_info"]
    assert (info["network_id"], info["enable_snat"], len(info["external_fixed_ips"])) == (external["id"], True, 1)
    assert router["revision_number"] == 2
    (port,) = ports_of(admin, router)
    assert (port["device_owner"], port["project_id"], port["security_groups"]) == (GATEWAY, "", [])
    assert port["fixed_ips"] == info["external_fixed_ips"]
    assert port["port_security_enabled"] is False
    assert ports_of(api, router) == []
    address = [{"ip_address": "172.24.0.200"}]
    moved = admin.change("router", router["id"], external_gateway_info=gateway(external, external_fixed_ips=address))
    assert [f["ip_address"] for f in moved["external_gateway_info"]["external_fixed_ips"]] == ["172.24.0.200"]
    assert [p["id"] for p in ports_of(admin, router)] == [port["id"]]
    off = admin.change("router", router["id"], external_gateway_info=gateway(external, enable_snat=False))
    assert (off["external_gateway_info"]["enable_snat"], off["enable_snat"]) == (False, False)
    same = api.change("router", router["id"], external_gateway_info=gateway(external))
    assert same["external_gateway_info"]["enable_snat"] is True
    assert same["external_gateway_info"]["external_fixed_ips"][0]["ip_address"] == "172.24.0.200"
    assert api.change("router", router["id"], external_gateway_info={})["external_gateway_info"] is None
    assert ports_of(admin, router) == []
    assert api.show("router", router["id"])["external_gateway_info"] is None


def test_a_gateway_with_several_addresses(api: Api, admin: Api) -> None:
    network = outside(admin, "172.25.0.0/24")
    second = admin.subnet(network, "2001:db8:1::/64", enable_dhcp=False)
    router = admin.make("router", external_gateway_info=gateway(network))
    assert len(router["external_gateway_info"]["external_fixed_ips"]) == 2
    several = [{"ip_address": "172.25.0.5"}, {"ip_address": "172.25.0.6"}, {"subnet_id": second["id"]}]
    wanted = gateway(network, external_fixed_ips=several)
    changed = admin.change("router", router["id"], external_gateway_info=wanted)
    found = changed["external_gateway_info"]["external_fixed_ips"]
    assert {"172.25.0.5", "172.25.0.6"} < {f["ip_address"] for f in found}
    assert len(found) == 3
    admin.delete(f"/routers/{router['id']}").expect(204)
    admin.delete(f"/networks/{network['id']}").expect(204)


def test_a_gateway_moves_to_another_network(api: Api, admin: Api, external: dict[str, Any]) -> None:
    other = outside(admin, "172.26.0.0/24")
    router = api.make("router", external_gateway_info=gateway(external))
    moved = api.change("router", router["id"], external_gateway_info=gateway(other))
    assert moved["external_gateway_info"]["network_id"] == other["id"]
    assert [p["network_id"] for p in ports_of(admin, router)] == [other["id"]]
    admin.delete(f"/networks/{other['id']}").refused(409, "NetworkInUse")
    admin.put(f"/networks/{other['id']}", {"network": {"router:external": False}}).refused(409, "ExternalNetworkInUse")
    api.delete(f"/routers/{router['id']}").expect(204)
    assert admin.all("/ports", {"network_id": other["id"]}) == []


def test_gateways_that_cannot_be(api: Api, admin: Api, external: dict[str, Any]) -> None:
    network, subnet = inside(api)

    def refused(caller: Api, info: Any, status: int, kind: str) -> None:
        caller.post("/routers", {"router": {"external_gateway_info": info}}).refused(status, kind)

    refused(api, {"network_id": network["id"]}, 400, "BadRequest")
    refused(api, {"network_id": subnet["id"]}, 404, "NetworkNotFound")
    refused(api, {"network_id": "x"}, 400, "HTTPBadRequest")
    refused(api, {"enable_snat": True}, 400, "HTTPBadRequest")
    refused(admin, gateway(external, external_fixed_ips=[{"ip_address": "10.9.9.9"}]), 400, "InvalidIpForNetwork")
    refused(admin, gateway(external, external_fixed_ips=[{"ip_address": "172.24.0.1"}]), 400, "BadRequest")
    refused(admin, gateway(external, external_fixed_ips=[{"subnet_id": network["id"]}]), 404, "SubnetNotFound")
    router = admin.make("router", external_gateway_info=gateway(external))
    taken = router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
    refused(admin, gateway(external, external_fixed_ips=[{"ip_address": taken}]), 409, "IpAddressAlreadyAllocated")
    overlapping = outside(admin, "10.0.0.0/16")
    other = api.make("router")
    attach(api, other, subnet_id=subnet["id"]).expect(200)
    api.put(f"/routers/{other['id']}", {"router": {"external_gateway_info": gateway(overlapping)}}).refused(400)


def test_an_external_network_of_some(api: Api, admin: Api) -> None:
    """A network is external for those that an RBAC policy names."""
    network = admin.network()
    admin.subnet(network, "172.27.0.0/24", enable_dhcp=False)
    policy = {"object_type": "network", "object_id": network["id"], "action": "access_as_external"}
    admin.make("rbac_policy", **policy, target_tenant=api.project)
    stranger = api.as_stranger()
    info = {"router": {"external_gateway_info": gateway(network)}}
    stranger.post("/routers", info).refused(404, "NetworkNotFound")
    router = api.post("/routers", info).expect(201).body["router"]
    (mine,) = admin.all("/rbac-policies", {"object_id": network["id"]})
    admin.delete(f"/rbac-policies/{mine['id']}").refused(409, "RbacPolicyInUse")
    api.delete(f"/routers/{router['id']}").expect(204)
    admin.delete(f"/rbac-policies/{mine['id']}").expect(204)


def test_access_that_is_in_use_cannot_be_withdrawn(api: Api, admin: Api) -> None:
    network = admin.network()
    admin.subnet(network, "172.28.0.0/24", enable_dhcp=False)
    policy = {"object_type": "network", "object_id": network["id"], "action": "access_as_external"}
    one_project, other = api.as_stranger(), api.as_stranger()  # neither is the owner's
    mine, theirs = (admin.make("rbac_policy", **policy, target_tenant=who.project) for who in (one_project, other))
    router = one_project.make("router", external_gateway_info=gateway(network))
    floating = other.make("floatingip", floating_network_id=network["id"])
    for one in (mine, theirs):
        admin.delete(f"/rbac-policies/{one['id']}").refused(409, "RbacPolicyInUse")
    other.delete(f"/floatingips/{floating['id']}").expect(204)
    admin.delete(f"/rbac-policies/{theirs['id']}").expect(204)
    one_project.delete(f"/routers/{router['id']}").expect(204)
    admin.delete(f"/rbac-policies/{mine['id']}").expect(204)


# --- interfaces -------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_an_interface_by_subnet(api: Api, admin: Api) -> None:
    network, subnet = inside(api)
    router = api.make("router")
    answer = attach(api, router, subnet_id=subnet["id"]).expect(200).body
    assert (answer["id"], answer["project_id"], answer["subnet_ids"]) == (router["id"], api.project, [subnet["id"]])
    (port,) = ports_of(api, router)
    assert (port["id"], port["device_owner"], port["network_id"]) == (answer["port_id"], INTERFACE, network["id"])
    assert port["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "10.0.0.1"}]
    assert (port["security_groups"], port["port_security_enabled"]) == ([], False)
    assert api.show("router", router["id"])["revision_number"] == 2
    assert detach(api, router, subnet_id=subnet["id"]).expect(200).body == answer
    assert ports_of(admin, router) == []
    assert api.show("router", router["id"])["revision_number"] == 3


def test_an_interface_by_port(api: Api) -> None:
    network, subnet = inside(api)
    port = api.port(network, fixed_ips=[{"ip_address": "10.0.0.9"}])
    router = api.make("router")
    answer = attach(api, router, port_id=port["id"]).expect(200).body
    assert answer["port_id"] == port["id"]
    shown = api.show("port", port["id"])
    assert (shown["device_id"], shown["device_owner"], shown["revision_number"]) == (router["id"], INTERFACE, 2)
    attach(api, router, port_id=port["id"]).refused(409, "PortInUse")
    detach(api, router, port_id=port["id"], subnet_id=network["id"]).refused(400, "SubnetMismatchForPort")
    detach(api, router, port_id=port["id"], subnet_id=subnet["id"]).expect(200)
    api.get(f"/ports/{port['id']}").expect(404)
    detach(api, router, port_id=port["id"]).refused(404, "RouterInterfaceNotFound")


def test_interfaces_that_cannot_be(api: Api, admin: Api, external: dict[str, Any]) -> None:
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    path = f"/routers/{router['id']}/add_router_interface"
    for body in ({}, [], "x", {"subnet_id": "x"}, {"subnet_id": None}, {"subnet_id": subnet["id"], "port_id": "x"}):
        api.put(path, body).refused(400, "BadRequest")
    attach(api, router, subnet_id=network["id"]).refused(404, "SubnetNotFound")
    attach(api, router, port_id=network["id"]).refused(404, "PortNotFound")
    attach(api, router, subnet_id=api.subnet(network, "10.1.0.0/24", gateway_ip=None)["id"]).refused(400)
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    attach(api, router, subnet_id=subnet["id"]).refused(400, "BadRequest")
    _, overlapping = inside(api, "10.0.0.0/25")
    attach(api, router, subnet_id=overlapping["id"]).refused(400, "BadRequest")
    _, like_outside = inside(api, "172.24.0.128/25")
    attach(api, router, subnet_id=like_outside["id"]).refused(400, "BadRequest")
    bare = api.port(api.network())
    attach(api, router, port_id=bare["id"]).refused(400, "BadRequest")
    second = api.subnet(network, "10.2.0.0/24")
    several = api.port(network, fixed_ips=[{"subnet_id": second["id"]}, {"subnet_id": second["id"]}])
    attach(api, router, port_id=several["id"]).refused(400, "BadRequest")
    used = api.port(network, device_id="vm")
    attach(api, router, port_id=used["id"]).refused(409, "PortInUse")
    foreign = inside(api.as_stranger(), "10.3.0.0/24")[1]
    attach(api, router, subnet_id=foreign["id"]).refused(404, "SubnetNotFound")
    detach(api, router, subnet_id=second["id"]).refused(404, "RouterInterfaceNotFoundForSubnet")


def test_subnets_of_others(api: Api, admin: Api) -> None:
    """A subnet of a network shared with all is routed by its owner; one shared with a project also by that one."""
    network = admin.network(shared=True)
    subnet = admin.subnet(network)
    stranger = api.as_stranger()
    router = stranger.make("router")
    attach(stranger, router, subnet_id=subnet["id"]).refused(400, "BadRequest")
    policy = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}
    admin.make("rbac_policy", **policy, target_tenant=stranger.project)
    attach(stranger, router, subnet_id=subnet["id"]).expect(200)
    detach(stranger, router, subnet_id=subnet["id"]).expect(200)
    admin.delete(f"/networks/{network['id']}").expect(204)


def test_ipv6_prefixes_of_a_network_share_a_port(api: Api) -> None:
    network = api.network()
    modes = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    first = api.subnet(network, "2001:db8:a::/64", **modes)
    second = api.subnet(network, "2001:db8:b::/64", **modes)
    fourth = api.subnet(network, "10.0.0.0/24")
    router = api.make("router")
    port = attach(api, router, subnet_id=first["id"]).expect(200).body["port_id"]
    assert attach(api, router, subnet_id=second["id"]).expect(200).body["port_id"] == port
    assert attach(api, router, subnet_id=fourth["id"]).expect(200).body["port_id"] != port
    assert len(api.show("port", port)["fixed_ips"]) == 2
    extra = api.port(network, fixed_ips=[{"subnet_id": api.subnet(network, "2001:db8:c::/64")["id"]}])
    attach(api, router, port_id=extra["id"]).refused(400, "BadRequest")
    assert detach(api, router, subnet_id=first["id"]).expect(200).body["port_id"] == port
    assert [f["subnet_id"] for f in api.show("port", port)["fixed_ips"]] == [second["id"]]
    detach(api, router, subnet_id=second["id"]).expect(200)
    api.get(f"/ports/{port}").expect(404)
    away = api.subnet(network, "2001:db8:d::/64", ipv6_address_mode="slaac")
    attach(api, router, subnet_id=away["id"]).refused(400, "BadRequest")


@pytest.mark.every_database
def test_objects_that_a_router_uses_cannot_be_deleted(api: Api, admin: Api, external: dict[str, Any]) -> None:
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    port = attach(api, router, subnet_id=subnet["id"]).expect(200).body["port_id"]
    api.delete(f"/ports/{port}").refused(409, "ServicePortInUse")
    (outer,) = ports_of(admin, router, GATEWAY)
    admin.delete(f"/ports/{outer['id']}").refused(409, "ServicePortInUse")
    api.delete(f"/subnets/{subnet['id']}").refused(409, "SubnetInUse")
    api.delete(f"/networks/{network['id']}").refused(409, "NetworkInUse")
    api.put(f"/subnets/{subnet['id']}", {"subnet": {"gateway_ip": "10.0.0.7"}}).refused(409, "GatewayIpInUse")
    api.delete(f"/routers/{router['id']}").refused(409, "RouterInUse")
    api.change("port", port, device_owner="mine")
    api.delete(f"/ports/{port}").refused(409, "ServicePortInUse")
    detach(api, router, subnet_id=subnet["id"]).expect(200)
    api.delete(f"/routers/{router['id']}").expect(204)
    api.delete(f"/networks/{network['id']}").expect(204)


@pytest.mark.parametrize("router_kind", [{}, {"ha": True}, {"distributed": True}])
def test_a_port_in_use_does_not_become_an_interface(api: Api, admin: Api, router_kind: Any) -> None:
    """A router's interface is trusted: an instance that keeps the port could send with any address."""
    network, _ = inside(api)
    router = admin.make("router", project_id=api.project, **router_kind)
    service = admin.as_service()
    bound = {"binding:host_id": "compute-1", "device_id": "vm", "device_owner": "compute:nova"}
    port = api.port(network)
    path = f"/ports/{port['id']}"
    service.put(path, {"port": bound}).expect(200)
    attach(api, router, port_id=port["id"]).refused(409, "PortInUse")
    for cleared in ({"device_id": ""}, {"device_owner": ""}, {"device_owner": INTERFACE}):
        api.put(path, {"port": cleared}).expect(200)
        for caller in (api, admin):
            attach(caller, router, port_id=port["id"]).refused(409, "PortInUse")
    service.put(path, {"port": {"binding:host_id": "", "device_owner": ""}}).expect(200)
    attach(api, router, port_id=port["id"]).expect(200)  # no instance has it any more


@pytest.mark.parametrize("owner", ["compute:nova", "baremetal:none", "network:dhcp", "network:router_gateway"])
def test_a_port_of_a_device_does_not_become_an_interface(api: Api, owner: str) -> None:
    network, _ = inside(api)
    router = api.make("router")
    port = api.port(network, device_owner=owner)
    attach(api, router, port_id=port["id"]).refused(409, "PortInUse")
    api.change("port", port["id"], device_owner="")
    attach(api, router, port_id=port["id"]).expect(200)


def test_a_routers_port_is_not_given_to_an_instance(api: Api, admin: Api) -> None:
    _, subnet = inside(api)
    router, other = api.make("router"), api.make("router")
    port = attach(api, router, subnet_id=subnet["id"]).expect(200).body["port_id"]
    for value in ("", "vm", other["id"]):
        change = {"port": {"device_id": value, "device_owner": ""}}
        api.put(f"/ports/{port}", change).refused(409, "ServicePortInUse")
        admin.as_service().put(f"/ports/{port}", change).refused(409, "ServicePortInUse")
    api.change("port", port, name="same", device_id=router["id"])
    admin.change("port", port, device_id="")
    attach(admin, other, port_id=port).refused(409, "PortInUse")
    admin.change("port", port, device_id=router["id"])
    detach(api, router, subnet_id=subnet["id"]).expect(200)


def test_nobody_makes_a_port_of_anothers_router(api: Api) -> None:
    router = api.make("router")
    stranger = api.as_stranger()
    network, _ = inside(stranger)
    claim = {"network_id": network["id"], "device_id": router["id"], "device_owner": INTERFACE}
    stranger.post("/ports", {"port": claim}).refused(409, "DeviceIDNotOwnedByTenant")
    port = stranger.port(network)
    claim.pop("network_id")
    stranger.put(f"/ports/{port['id']}", {"port": claim}).refused(409, "DeviceIDNotOwnedByTenant")


# --- routes -----------------------------------------------------------------------------------------------------------


def test_extra_routes(api: Api, admin: Api, external: dict[str, Any]) -> None:
    _, subnet = inside(api)
    router = api.make("router")
    path = f"/routers/{router['id']}"
    route = {"destination": "192.0.2.0/24", "nexthop": "10.0.0.5"}
    other = {"destination": "198.51.100.0/24", "nexthop": "10.0.0.6"}
    api.put(path, {"router": {"routes": [route]}}).refused(400, "InvalidRoutes")
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    assert api.change("router", router["id"], routes=[route])["routes"] == [route]
    api.put(path, {"router": {"routes": [{**route, "nexthop": "10.0.0.1"}]}}).refused(400, "InvalidRoutes")
    for bad in ([{"destination": "192.0.2.0/24"}], [{**route, "metric": 1}], "x", [{**route, "destination": "x"}]):
        api.put(path, {"router": {"routes": bad}}).refused(400, "HTTPBadRequest")
    api.post("/routers", {"router": {"routes": [route]}}).refused(400, "HTTPBadRequest")
    added = api.put(f"{path}/add_extraroutes", {"router": {"routes": [other, route]}}).expect(200).body["router"]
    assert added["routes"] == [route, other]
    far = {"destination": "203.0.113.0/24", "nexthop": "10.77.0.5"}
    api.put(f"{path}/add_extraroutes", {"router": {"routes": [far]}}).refused(400, "InvalidRoutes")
    left = api.put(f"{path}/remove_extraroutes", {"router": {"routes": [route, far]}}).expect(200).body["router"]
    assert left["routes"] == [other] == api.show("router", router["id"])["routes"]
    for bad_body in ({}, {"router": {}}, {"router": {"routes": [], "name": "x"}}, [], {"router": {"routes": [{}]}}):
        api.put(f"{path}/add_extraroutes", bad_body).refused(400, "HTTPBadRequest")
    assert api.change("router", router["id"], routes=None)["routes"] == []


def test_routes_keep_the_gateway(api: Api, external: dict[str, Any]) -> None:
    router = api.make("router", external_gateway_info=gateway(external))
    hop = next(
        f"172.24.0.{i}"
        for i in (200, 201)
        if f"172.24.0.{i}" != router["external_gateway_info"]["external_fixed_ips"][0]["ip_address"]
    )
    api.change("router", router["id"], routes=[{"destination": "192.0.2.0/24", "nexthop": hop}])
    api.put(f"/routers/{router['id']}", {"router": {"external_gateway_info": None}}).refused(400, "InvalidRoutes")
    both = {"router": {"external_gateway_info": None, "routes": []}}
    assert api.put(f"/routers/{router['id']}", both).expect(200).body["router"]["external_gateway_info"] is None


# --- related objects ---------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_several_at_once_or_none(api: Api, external: dict[str, Any]) -> None:
    made = api.post("/routers", {"routers": [{"name": "a"}, {"name": "b"}]}).expect(201).body["routers"]
    assert [r["name"] for r in made] == ["a", "b"]
    bad = {"external_gateway_info": {"network_id": made[0]["id"]}}
    api.post("/routers", {"routers": [{"name": "c"}, bad]}).refused(404, "NetworkNotFound")
    assert sorted(r["name"] for r in api.all("/routers")) == ["a", "b"]


@pytest.mark.every_database
def test_tags_revisions_and_lists(api: Api) -> None:
    first, second = api.make("router", name="a"), api.make("router", name="b")
    api.put(f"/routers/{first['id']}/tags", {"tags": ["red"]}).expect(200)
    assert [r["id"] for r in api.all("/routers", {"tags": "red"})] == [first["id"]]
    match = {"If-Match": f"revision_number={second['revision_number'] + 1}"}
    api.put(f"/routers/{second['id']}", {"router": {"name": "c"}}, headers=match).refused(412)
    page = api.get("/routers", {"limit": 1, "sort_key": "name", "fields": "name"}).body
    assert page["routers"] == [{"name": "a"}]
    only = api.get("/routers", [("fields", "external_gateway_info"), ("fields", "availability_zones")]).body["routers"]
    assert only == [{"external_gateway_info": None, "availability_zones": []}] * 2


def test_a_list_is_a_fixed_number_of_queries(api: Api, server: Server, external: dict[str, Any]) -> None:
    def queries() -> int:
        seen: list[str] = []
        engine = server.db._reads
        listen = lambda conn, cursor, statement, *rest: seen.append(statement)  # noqa: E731
        sa.event.listen(engine, "before_cursor_execute", listen)
        try:
            api.all("/routers")
        finally:
            sa.event.remove(engine, "before_cursor_execute", listen)
        return len(seen)

    api.make("router", external_gateway_info=gateway(external))
    few = queries()
    for _ in range(5):
        api.make("router", external_gateway_info=gateway(external))
    assert queries() == few <= 3


@pytest.mark.every_database
def test_every_change_is_in_the_log(api: Api, server: Server, external: dict[str, Any]) -> None:
    _, subnet = inside(api)
    router = api.make("router")
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    api.change("router", router["id"], external_gateway_info=gateway(external))
    api.change("router", router["id"], external_gateway_info=None)
    detach(api, router, subnet_id=subnet["id"]).expect(200)
    api.delete(f"/routers/{router['id']}").expect(204)
    c = t.changes.c
    with server.db.read() as connection:
        of_router = sa.select(c.deleted).where(c.kind == "router", c.object_id == router["id"]).order_by(c.id)
        assert connection.execute(of_router).scalars().all() == [False] * 5 + [True]


@pytest.mark.parametrize("gateway", ["x", {"network_id": {}}, {"network_id": "\x00"}, 5])
def test_an_action_with_a_body_of_another_shape_is_refused(api: Api, gateway: object) -> None:
    """Reads are announced from the body before it is validated."""
    router = api.make("router")
    path = f"/routers/{router['id']}/add_router_interface"
    for subnet in (5, ["x"], "\x00"):
        assert api.put(path, {"external_gateway_info": gateway, "subnet_id": subnet}).status == 400
