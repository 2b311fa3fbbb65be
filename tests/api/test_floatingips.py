"""Floating IPs: create, associate, move, disassociate and delete; effects of deleted ports and networks."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.tables import floatingips
from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import attach, detach, gateway, inside, outside
from tests.faults.integrity import check


@pytest.fixture(autouse=True)
def sound(server: Server) -> Any:
    yield
    check(server.db)


@pytest.fixture(scope="module")
def external(server: Server) -> Object:
    return outside(Api(server.app).as_admin(), "172.24.0.0/22")


@pytest.fixture
def routed(api: Api, external: Object) -> tuple[Object, Object, Object]:
    """A network, its subnet, and the router that leads from it to the external network."""
    network, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(external))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    return network, subnet, router


def test_one_is_made_shown_and_deleted(api: Api, admin: Api, external: Object) -> None:
    made = api.make("floatingip", floating_network_id=external["id"], description="d")
    assert made == api.show("floatingip", made["id"])
    for name in ("port_id", "router_id", "fixed_ip_address", "port_details", "qos_policy_id"):
        assert made[name] is None
    assert (made["status"], made["port_forwardings"], made["revision_number"]) == ("DOWN", [], 0)
    (port,) = admin.all("/ports", {"device_id": made["id"]})
    assert (port["device_owner"], port["project_id"], port["status"]) == ("network:floatingip", "", "N/A")
    assert [f["ip_address"] for f in port["fixed_ips"]] == [made["floating_ip_address"]]
    assert api.all("/ports", {"device_id": made["id"]}) == []
    admin.delete(f"/ports/{port['id']}").refused(409, "ServicePortInUse")
    api.as_stranger().get(f"/floatingips/{made['id']}").refused(404, "FloatingIPNotFound")
    assert api.change("floatingip", made["id"], description="e")["description"] == "e"
    api.delete(f"/floatingips/{made['id']}").expect(204)
    api.get(f"/floatingips/{made['id']}").refused(404, "FloatingIPNotFound")
    assert admin.all("/ports", {"device_id": made["id"]}) == []


@pytest.mark.every_database
def test_an_address_or_a_subnet_can_be_asked_for(api: Api, admin: Api, external: Object) -> None:
    wanted = {"floating_network_id": external["id"], "floating_ip_address": "172.24.3.200"}
    api.post("/floatingips", {"floatingip": wanted}).refused(403, "PolicyNotAuthorized")
    api.post("/floatingips", {"floatingip": wanted}, roles="manager,member,reader").expect(201)
    admin.post("/floatingips", {"floatingip": wanted}).refused(409, "IpAddressAlreadyAllocated")
    elsewhere = {**wanted, "floating_ip_address": "9.9.9.9"}
    admin.post("/floatingips", {"floatingip": elsewhere}).refused(400, "InvalidIpForNetwork")
    (subnet,) = admin.all("/subnets", {"network_id": external["id"]})
    api.make("floatingip", floating_network_id=external["id"], subnet_id=subnet["id"])
    unknown = {"floating_network_id": external["id"], "subnet_id": external["id"]}
    api.post("/floatingips", {"floatingip": unknown}).refused(404, "SubnetNotFound")
    _, other = inside(api)
    for caller in (api, admin):
        wrong = {"floating_network_id": external["id"], "subnet_id": other["id"]}
        caller.post("/floatingips", {"floatingip": wrong}).refused(400, "InvalidInput")
    info = gateway(external, external_fixed_ips=[{"subnet_id": other["id"]}])
    admin.post("/routers", {"router": {"external_gateway_info": info}}).refused(400, "InvalidInput")


def test_networks_without_floating_ips(api: Api, admin: Api) -> None:
    network, subnet = inside(api)
    api.post("/floatingips", {"floatingip": {"floating_network_id": network["id"]}}).refused(400, "BadRequest")
    api.post("/floatingips", {"floatingip": {"floating_network_id": subnet["id"]}}).refused(404, "NetworkNotFound")
    api.post("/floatingips", {"floatingip": {}}).refused(400, "HTTPBadRequest")
    six = outside(admin, "2001:db8:99::/64")
    api.post("/floatingips", {"floatingip": {"floating_network_id": six["id"]}}).refused(400, "BadRequest")
    full = admin.network(router__external=True)
    pool = [{"start": "172.31.0.5", "end": "172.31.0.5"}]
    admin.subnet(full, "172.31.0.0/29", enable_dhcp=False, allocation_pools=pool)
    api.make("floatingip", floating_network_id=full["id"])
    refused = api.post("/floatingips", {"floatingip": {"floating_network_id": full["id"]}})
    refused.refused(409, "IpAddressGenerationFailure")


def test_a_quota_limits_them(api: Api, admin: Api, external: Object) -> None:
    admin.put(f"/quotas/{api.project}", {"quota": {"floatingip": 1}}).expect(200)
    made = api.make("floatingip", floating_network_id=external["id"])
    api.post("/floatingips", {"floatingip": {"floating_network_id": external["id"]}}).refused(409, "OverQuota")
    api.delete(f"/floatingips/{made['id']}").expect(204)
    api.make("floatingip", floating_network_id=external["id"])


# --- associations -----------------------------------------------------------------------------------------------------


def test_association(api: Api, external: Object, routed: tuple[Object, Object, Object]) -> None:
    network, _, router = routed
    port = api.port(network, name="vm", device_owner="compute:z", device_id="d")
    address = port["fixed_ips"][0]["ip_address"]
    made = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    assert (made["router_id"], made["port_id"], made["fixed_ip_address"]) == (router["id"], port["id"], address)
    details = {n: port[n] for n in ("name", "network_id", "mac_address", "status", "device_id", "device_owner")}
    assert made["port_details"] == {**details, "admin_state_up": True}
    assert api.show("floatingip", made["id"]) == made
    api.change("port", port["id"], name="renamed")
    assert api.show("floatingip", made["id"])["port_details"]["name"] == "renamed"
    assert [f["id"] for f in api.all("/floatingips", {"port_id": port["id"]})] == [made["id"]]
    assert [f["id"] for f in api.all("/floatingips", {"router_id": router["id"]})] == [made["id"]]
    other = api.port(network)
    moved = api.change("floatingip", made["id"], port_id=other["id"])
    assert (moved["port_id"], moved["status"], moved["revision_number"]) == (other["id"], "DOWN", 1)
    assert api.change("floatingip", made["id"], description="x")["port_id"] == other["id"]
    off = api.change("floatingip", made["id"], port_id=None)
    assert (off["port_id"], off["router_id"], off["fixed_ip_address"]) == (None, None, None)
    revision = api.show("router", router["id"])["revision_number"]
    api.change("floatingip", made["id"], port_id=port["id"])
    assert api.show("router", router["id"])["revision_number"] == revision + 1
    blank = api.put(f"/floatingips/{made['id']}", {"floatingip": {}}).expect(200).body["floatingip"]
    assert (blank["port_id"], blank["router_id"], blank["description"]) == (None, None, "x")


def test_a_port_with_several_addresses(api: Api, external: Object, routed: tuple[Object, Object, Object]) -> None:
    network, subnet, _ = routed
    fixed = [{"subnet_id": subnet["id"], "ip_address": f"10.0.0.{i}"} for i in (21, 22)]
    port = api.port(network, fixed_ips=fixed)
    wanted = {"floating_network_id": external["id"], "port_id": port["id"]}
    api.post("/floatingips", {"floatingip": wanted}).refused(400, "BadRequest")
    first = api.make("floatingip", **wanted, fixed_ip_address="10.0.0.21")
    taken = {**wanted, "fixed_ip_address": "10.0.0.21"}
    api.post("/floatingips", {"floatingip": taken}).refused(409, "FloatingIPPortAlreadyAssociated")
    api.make("floatingip", **wanted, fixed_ip_address="10.0.0.22")
    body = {"floatingip": {"fixed_ip_address": "10.0.0.22"}}
    api.put(f"/floatingips/{first['id']}", body).refused(409, "FloatingIPPortAlreadyAssociated")
    body = {"floatingip": {"fixed_ip_address": "10.0.0.250"}}
    api.put(f"/floatingips/{first['id']}", body).refused(400, "BadRequest")


def test_associations_that_cannot_be(
    api: Api, admin: Api, external: Object, routed: tuple[Object, Object, Object]
) -> None:
    network, _, _ = routed
    floating = api.make("floatingip", floating_network_id=external["id"])

    def refused(status: int, kind: str, **values: Any) -> None:
        api.put(f"/floatingips/{floating['id']}", {"floatingip": values}).refused(status, kind)

    refused(404, "PortNotFound", port_id=network["id"])
    refused(400, "BadRequest", fixed_ip_address="10.0.0.5")
    refused(400, "HTTPBadRequest", floating_ip_address="172.24.0.9")
    refused(400, "BadRequest", router_id=network["id"])
    lone, _ = inside(api, "10.8.0.0/24")
    refused(404, "ExternalGatewayForFloatingIPNotFound", port_id=api.port(lone)["id"])
    refused(400, "BadRequest", port_id=api.port(api.network())["id"])
    stranger = api.as_stranger()
    theirs = inside(stranger)[0]
    refused(404, "PortNotFound", port_id=stranger.port(theirs)["id"])
    on_mine = admin.make("port", network_id=network["id"], project_id=stranger.project)
    refused(400, "BadRequest", port_id=on_mine["id"])
    assert api.show("floatingip", floating["id"])["revision_number"] == 0


def test_objects_that_a_floating_ip_keeps_from_deletion(
    api: Api, external: Object, routed: tuple[Object, Object, Object]
) -> None:
    network, subnet, router = routed
    port = api.port(network)
    floating = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    detach(api, router, subnet_id=subnet["id"]).refused(409, "RouterInterfaceInUseByFloatingIP")
    body = {"router": {"external_gateway_info": None}}
    api.put(f"/routers/{router['id']}", body).refused(409, "RouterExternalGatewayInUseByFloatingIp")
    api.delete(f"/routers/{router['id']}").refused(409, "RouterInUse")
    elsewhere = {"port": {"fixed_ips": [{"ip_address": "10.0.0.250"}]}}
    api.put(f"/ports/{port['id']}", elsewhere).refused(400, "BadRequest")
    api.delete(f"/floatingips/{floating['id']}").expect(204)
    api.put(f"/ports/{port['id']}", elsewhere).expect(200)
    detach(api, router, subnet_id=subnet["id"]).expect(200)


@pytest.mark.every_database
def test_a_deleted_port_disassociates_its_floating_ip(
    api: Api, admin: Api, server: Server, external: Object, routed: tuple[Object, Object, Object]
) -> None:
    network, _, router = routed
    port = api.port(network)
    floating = api.make("floatingip", floating_network_id=external["id"], port_id=port["id"])
    with server.db.transaction() as tx:  # as a host's report would have it
        tx.execute(sa.update(floatingips).where(floatingips.c.id == floating["id"]).values(status="ACTIVE"))
    api.delete(f"/ports/{port['id']}").expect(204)
    shown = api.show("floatingip", floating["id"])
    assert (shown["port_id"], shown["router_id"], shown["fixed_ip_address"], shown["status"]) == (
        *(None, None, None),
        "DOWN",
    )
    theirs = admin.make("floatingip", floating_network_id=external["id"], project_id="f" * 32)
    kept = api.port(network)
    admin.change("floatingip", theirs["id"], port_id=kept["id"])
    api.delete(f"/ports/{kept['id']}").refused(409, "FipAssociated")
    admin.delete(f"/ports/{kept['id']}").expect(204)
    api.change("router", router["id"], external_gateway_info=None)


@pytest.mark.every_database
def test_unused_floating_ips_are_deleted_with_their_network(api: Api, admin: Api) -> None:
    network = outside(admin, "172.29.0.0/24")
    spare = api.make("floatingip", floating_network_id=network["id"])
    inner, subnet = inside(api)
    router = api.make("router", external_gateway_info=gateway(network))
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    port = api.port(inner)
    used = api.make("floatingip", floating_network_id=network["id"], port_id=port["id"])
    admin.delete(f"/networks/{network['id']}").refused(409, "NetworkInUse")
    assert api.show("floatingip", spare["id"])["status"] == "DOWN"  # a refusal changes nothing
    api.delete(f"/ports/{port['id']}").expect(204)
    detach(api, router, subnet_id=subnet["id"]).expect(200)
    admin.put(f"/networks/{network['id']}", {"network": {"router:external": False}}).refused(409)
    api.delete(f"/routers/{router['id']}").expect(204)
    admin.change("network", network["id"], router__external=False)
    assert api.all("/floatingips") == []
    admin.change("network", network["id"], router__external=True)
    again = api.make("floatingip", floating_network_id=network["id"])
    admin.delete(f"/networks/{network['id']}").expect(204)
    for gone in (spare, used, again):
        api.get(f"/floatingips/{gone['id']}").expect(404)


@pytest.mark.every_database
def test_names_tags_pools_and_bulk(api: Api, admin: Api, external: Object) -> None:
    wanted = {"floating_network_id": external["id"], "dns_name": "www", "dns_domain": "example.org."}
    made = api.make("floatingip", **wanted)
    assert (made["dns_name"], made["dns_domain"]) == ("www", "example.org.")
    api.put(f"/floatingips/{made['id']}/tags/red").expect(201)
    assert [f["id"] for f in api.all("/floatingips", {"tags": "red"})] == [made["id"]]
    pools = api.get("/floatingip_pools").expect(200).body["floatingip_pools"]
    assert external["id"] in {pool["network_id"] for pool in pools}
    for roles, sees in (("reader", True), ("admin", True), ("member", False), ("creator", False)):
        assert bool(api.get("/floatingip_pools", roles=roles).expect(200).body["floatingip_pools"]) is sees
    two = [{"floating_network_id": external["id"]}] * 2
    assert len(api.post("/floatingips", {"floatingips": two}).expect(201).body["floatingips"]) == 2
    bad = [*two, {"floating_network_id": made["id"]}]
    api.post("/floatingips", {"floatingips": bad}).refused(404, "NetworkNotFound")
    assert len(api.all("/floatingips")) == 3


def test_a_list_is_a_fixed_number_of_queries(
    api: Api, server: Server, external: Object, routed: tuple[Object, Object, Object]
) -> None:
    network, _, _ = routed

    def queries() -> int:
        seen: list[str] = []
        engine = server.db._reads
        listen = lambda conn, cursor, statement, *rest: seen.append(statement)  # noqa: E731
        sa.event.listen(engine, "before_cursor_execute", listen)
        try:
            api.all("/floatingips")
        finally:
            sa.event.remove(engine, "before_cursor_execute", listen)
        return len(seen)

    counts = []
    for _ in range(3):
        api.make("floatingip", floating_network_id=external["id"], port_id=api.port(network)["id"])
        counts.append(queries())
    assert counts == [counts[0]] * 3
    assert counts[0] <= 3
