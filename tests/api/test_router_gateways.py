"""Several external gateways of a router: their actions, what they show, refuse and keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api, Response
from tests.api.l3 import attach, gateway, inside, l3_agent, outside, ports_of
from tests.faults.integrity import check

GATEWAY = "network:router_gateway"


@pytest.fixture(autouse=True)
def sound(server: Server) -> Iterator[None]:
    yield
    check(server.db)


@pytest.fixture(scope="module")
def one(server: Server) -> Object:
    l3_agent(server, "h1")
    return outside(Api(server.app).as_admin(), "172.24.0.0/24")


@pytest.fixture(scope="module")
def two(server: Server) -> Object:
    return outside(Api(server.app).as_admin(), "172.25.0.0/24")


@pytest.fixture(scope="module")
def three(server: Server) -> Object:
    return outside(Api(server.app).as_admin(), "172.26.0.0/24")


def act(api: Api, verb: str, router: Object, *gateways: Object) -> Response:
    body = {"router": {"external_gateways": list(gateways)}}
    return api.put(f"/routers/{router['id']}/{verb}_external_gateways", body)


def networks(router: Object) -> list[str]:
    return [each["network_id"] for each in router["external_gateways"]]


def addresses(router: Object) -> list[list[str]]:
    return [[f["ip_address"] for f in each["external_fixed_ips"]] for each in router["external_gateways"]]


def fixed(network: Object, *ips: str) -> Object:
    return gateway(network, external_fixed_ips=[{"ip_address": ip} for ip in ips])


def agreeing(api: Api, router: Object) -> Object:
    """The router as it is shown, in a list too, with the first gateway under both names."""
    shown = api.show("router", router["id"])
    (listed,) = api.all("/routers", {"id": router["id"]})
    assert listed == shown
    first = shown["external_gateway_info"]
    assert [first["network_id"], first["external_fixed_ips"]] == list(shown["external_gateways"][0].values())
    return shown


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_the_first_gateway_is_the_external_gateway_info(api: Api, one: Object, two: Object) -> None:
    router = api.make("router")
    assert router["external_gateways"] == []
    assert api.show("router", router["id"])["external_gateways"] == []
    made = api.make("router", external_gateway_info=gateway(one))
    assert agreeing(api, made) == made
    changed = api.change("router", made["id"], external_gateway_info=gateway(two))
    assert networks(changed) == [two["id"]]
    assert agreeing(api, made) == changed
    assert api.change("router", made["id"], external_gateway_info=None)["external_gateways"] == []


def test_gateways_are_set_only_by_actions(api: Api, one: Object) -> None:
    api.post("/routers", {"router": {"external_gateways": [gateway(one)]}}).refused(400)
    router = api.make("router")
    api.put(f"/routers/{router['id']}", {"router": {"external_gateways": [gateway(one)]}}).refused(400)


# --- adding -----------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_gateways_are_added(api: Api, admin: Api, one: Object, two: Object) -> None:
    router = api.make("router")
    added = act(api, "add", router, gateway(one), gateway(two)).expect(200).body["router"]
    assert networks(added) == [one["id"], two["id"]]
    assert agreeing(api, router) == added
    assert added["external_gateway_info"]["enable_snat"] is True
    ports = ports_of(admin, router, GATEWAY)
    assert {p["network_id"] for p in ports} == {one["id"], two["id"]}
    assert {p["binding:host_id"] for p in ports} == {"h1"}
    assert {p["project_id"] for p in ports} == {""}
    again = act(api, "add", router, gateway(one)).expect(200).body["router"]
    assert networks(again) == [one["id"], two["id"], one["id"]]
    assert addresses(again)[:2] == addresses(added)
    assert again["revision_number"] > added["revision_number"]
    assert agreeing(api, router) == again
    api.delete(f"/routers/{router['id']}").expect(204)
    assert ports_of(admin, router) == []


def test_two_on_one_network_get_addresses_of_their_own(api: Api, one: Object) -> None:
    router = api.make("router")
    for _ in range(3):
        added = act(api, "add", router, gateway(one), gateway(one)).expect(200).body["router"]
    assert len({ip for several in addresses(added) for ip in several}) == 6


def test_an_administrator_chooses_addresses(admin: Api, one: Object, two: Object) -> None:
    router = admin.make("router")
    act(admin, "add", router, fixed(one, "172.24.0.201"), fixed(two, "172.25.0.201")).expect(200)
    shown = agreeing(admin, router)
    assert addresses(shown) == [["172.24.0.201"], ["172.25.0.201"]]
    act(admin, "add", router, fixed(two, "172.25.0.201")).refused(409, "IpAddressAlreadyAllocated")
    act(admin, "add", router, fixed(two, "172.25.0.1")).refused(400, "BadRequest")
    assert agreeing(admin, router) == shown
    admin.delete(f"/routers/{router['id']}").expect(204)


def test_nothing_to_add_or_remove(api: Api, one: Object) -> None:
    router = api.make("router", external_gateway_info=gateway(one))
    for verb in ("add", "remove"):
        assert act(api, verb, router).expect(200).body["router"] == agreeing(api, router)
    # `openstack router unset` sends this, whatever it unsets.
    body = {"router": {"external_gateways": {}}}
    answer = api.put(f"/routers/{router['id']}/remove_external_gateways", body).expect(200)
    assert answer.body["router"] == agreeing(api, router)


# --- removing ---------------------------------------------------------------------------------------------------------


def test_a_gateway_is_removed_by_network(api: Api, admin: Api, one: Object, two: Object) -> None:
    router = api.make("router")
    added = act(api, "add", router, gateway(one), gateway(two)).expect(200).body["router"]
    left = act(api, "remove", router, gateway(two)).expect(200).body["router"]
    assert left["external_gateways"] == added["external_gateways"][:1]
    assert agreeing(api, router) == left
    assert len(ports_of(admin, router)) == 1


@pytest.mark.every_database
def test_the_next_gateway_becomes_the_first(api: Api, admin: Api, one: Object, two: Object, three: Object) -> None:
    router = api.make("router")
    added = act(api, "add", router, gateway(one), gateway(two), gateway(three)).expect(200).body["router"]
    left = act(api, "remove", router, gateway(one)).expect(200).body["router"]
    assert left["external_gateways"] == added["external_gateways"][1:]
    assert left["external_gateway_info"]["network_id"] == two["id"]
    assert agreeing(api, router) == left
    last = api.change("router", router["id"], external_gateway_info=None)
    assert last["external_gateways"] == added["external_gateways"][2:]
    assert agreeing(api, router) == last
    none = act(api, "remove", router, gateway(three)).expect(200).body["router"]
    assert (none["external_gateways"], none["external_gateway_info"]) == ([], None)
    assert ports_of(admin, router) == []


def test_one_of_several_on_a_network_is_removed_by_address(admin: Api, one: Object) -> None:
    router = admin.make("router")
    ips = ["172.24.0.211", "172.24.0.212", "172.24.0.213"]
    act(admin, "add", router, *(fixed(one, ip) for ip in ips)).expect(200)
    act(admin, "remove", router, gateway(one)).refused(400, "UnableToMatchGateways")
    act(admin, "remove", router, fixed(one, "172.24.0.219")).refused(400, "UnableToMatchGateways")
    left = act(admin, "remove", router, fixed(one, ips[1])).expect(200).body["router"]
    assert addresses(left) == [[ips[0]], [ips[2]]]
    admin.delete(f"/routers/{router['id']}").expect(204)


def test_what_cannot_be_removed(api: Api, one: Object, two: Object) -> None:
    router = api.make("router")
    act(api, "remove", router, gateway(one)).refused(400, "UnableToRemoveGateways")
    act(api, "add", router, gateway(one)).expect(200)
    answer = act(api, "remove", router, gateway(one), gateway(two)).refused(400, "UnableToMatchGateways")
    assert "external_gateways" in answer.body["NeutronError"]["message"]
    assert networks(agreeing(api, router)) == [one["id"]]


# --- updating ---------------------------------------------------------------------------------------------------------


def test_an_update_keeps_what_matches(api: Api, one: Object, two: Object, three: Object) -> None:
    router = api.make("router")
    added = act(api, "add", router, gateway(one), gateway(two)).expect(200).body["router"]
    kept = {each["network_id"]: each for each in added["external_gateways"]}
    changed = act(api, "update", router, gateway(two), gateway(three)).expect(200).body["router"]
    assert networks(changed) == [two["id"], three["id"]]
    assert changed["external_gateways"][0] == kept[two["id"]]
    assert agreeing(api, router) == changed
    swapped = act(api, "update", router, gateway(three), gateway(two)).expect(200).body["router"]
    assert swapped["external_gateways"] == changed["external_gateways"][::-1]
    assert agreeing(api, router) == swapped
    assert act(api, "update", router).expect(200).body["router"]["external_gateways"] == []


@pytest.mark.every_database
def test_an_update_changes_addresses(admin: Api, one: Object, two: Object) -> None:
    router = admin.make("router")
    act(admin, "add", router, fixed(one, "172.24.0.221"), fixed(two, "172.25.0.221")).expect(200)
    ports = {p["network_id"]: p["id"] for p in ports_of(admin, router)}
    wanted = fixed(one, "172.24.0.222"), fixed(two, "172.25.0.221", "172.25.0.222")
    changed = act(admin, "update", router, *wanted).expect(200).body["router"]
    assert addresses(changed) == [["172.24.0.222"], ["172.25.0.221", "172.25.0.222"]]
    assert agreeing(admin, router) == changed
    assert {p["network_id"]: p["id"] for p in ports_of(admin, router)} == ports
    admin.delete(f"/routers/{router['id']}").expect(204)


def test_external_gateway_info_leaves_the_others(api: Api, admin: Api, one: Object, two: Object, three: Object) -> None:
    router = api.make("router")
    added = act(api, "add", router, gateway(one), gateway(two)).expect(200).body["router"]
    changed = api.change("router", router["id"], external_gateway_info=gateway(three), name="n")
    assert networks(changed) == [three["id"], two["id"]]
    assert changed["external_gateways"][1] == added["external_gateways"][1]
    assert agreeing(api, router) == changed
    snat = admin.change("router", router["id"], external_gateway_info=gateway(three, enable_snat=False))
    assert snat["external_gateway_info"]["enable_snat"] is False
    assert snat["external_gateways"] == changed["external_gateways"]
    renamed = api.change("router", router["id"], name="o")
    assert renamed["external_gateways"] == changed["external_gateways"]


# --- what needs a gateway ---------------------------------------------------------------------------------------------


def test_floating_ips_of_every_network(api: Api, one: Object, two: Object) -> None:
    network, subnet = inside(api)
    router = api.make("router")
    attach(api, router, subnet_id=subnet["id"]).expect(200)
    act(api, "add", router, gateway(one), gateway(two)).expect(200)
    port = api.port(network)
    floating = [api.make("floatingip", floating_network_id=n["id"], port_id=port["id"]) for n in (one, two)]
    assert {f["router_id"] for f in floating} == {router["id"]}
    for n in (one, two):
        act(api, "remove", router, gateway(n)).refused(409, "RouterExternalGatewayInUseByFloatingIp")
    act(api, "update", router).refused(409, "RouterExternalGatewayInUseByFloatingIp")
    none = {"router": {"external_gateway_info": None}}
    api.put(f"/routers/{router['id']}", none).refused(409, "RouterExternalGatewayInUseByFloatingIp")
    assert networks(agreeing(api, router)) == [one["id"], two["id"]]
    # The order of gateways does not matter to floating IPs, nor does a second port on the same network.
    act(api, "update", router, gateway(two), gateway(one)).expect(200)
    more = act(api, "add", router, gateway(two)).expect(200).body["router"]
    last = {"network_id": two["id"], "external_fixed_ips": more["external_gateways"][2]["external_fixed_ips"]}
    act(api, "remove", router, last).expect(200)
    api.delete(f"/floatingips/{floating[1]['id']}").expect(204)
    act(api, "remove", router, gateway(two)).expect(200)
    third = api.make("floatingip", floating_network_id=two["id"])
    body = {"floatingip": {"port_id": port["id"]}}
    api.put(f"/floatingips/{third['id']}", body).refused(404, "ExternalGatewayForFloatingIPNotFound")


def test_routes_need_their_gateway(api: Api, one: Object, two: Object) -> None:
    router = api.make("router")
    act(api, "add", router, gateway(one), gateway(two)).expect(200)
    api.change("router", router["id"], routes=[{"destination": "192.0.2.0/24", "nexthop": "172.25.0.9"}])
    act(api, "remove", router, gateway(two)).refused(400, "InvalidRoutes")
    act(api, "remove", router, gateway(one)).expect(200)
    none = {"router": {"external_gateway_info": None}}
    api.put(f"/routers/{router['id']}", none).refused(400, "InvalidRoutes")
    assert networks(agreeing(api, router)) == [two["id"]]


def test_networks_of_a_router_do_not_overlap(api: Api, admin: Api, one: Object, two: Object) -> None:
    overlapping = outside(admin, "172.25.0.0/26")
    router = api.make("router")
    act(api, "add", router, gateway(one), gateway(two)).expect(200)
    act(api, "add", router, gateway(overlapping)).refused(400, "BadRequest")
    _, subnet = inside(api, "172.25.0.0/25")
    attach(api, router, subnet_id=subnet["id"]).refused(400, "BadRequest")
    other = api.make("router")
    attach(api, other, subnet_id=subnet["id"]).expect(200)
    act(api, "add", other, gateway(one), gateway(two)).refused(400, "BadRequest")
    assert api.show("router", other["id"])["external_gateways"] == []


def test_a_network_with_a_further_gateway_stays_external(api: Api, admin: Api, one: Object) -> None:
    network = outside(admin, "172.27.0.0/24")
    router = api.make("router")
    act(api, "add", router, gateway(one), gateway(network)).expect(200)
    internal = {"network": {"router:external": False}}
    admin.put(f"/networks/{network['id']}", internal).refused(409, "ExternalNetworkInUse")
    admin.delete(f"/networks/{network['id']}").refused(409, "NetworkInUse")
    (port,) = [p for p in ports_of(admin, router) if p["network_id"] == network["id"]]
    admin.delete(f"/ports/{port['id']}").refused(409, "ServicePortInUse")


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["add", "update", "remove"])
def test_malformed_bodies(api: Api, one: Object, verb: str) -> None:
    router = api.make("router")
    path = f"/routers/{router['id']}/{verb}_external_gateways"
    for body in ({}, {"router": {}}, {"router": []}, {"external_gateways": []}, {"router": {"routes": []}}, []):
        api.put(path, body).refused(400)
    malformed: tuple[Any, ...] = (
        None,
        [{}],
        "x",
        [None],
        [{"network_id": "x"}],
        [gateway(one, x=1)],
        [gateway(one)] * 17,
    )
    for value in malformed:
        answer = api.put(path, {"router": {"external_gateways": value}}).refused(400)
        assert "external_gateways" in answer.body["NeutronError"]["message"]
    fixed_ips = [{"network_id": one["id"], "external_fixed_ips": [{"ip_address": "x"}]}]
    api.as_admin().put(path, {"router": {"external_gateways": fixed_ips}}).refused(400)


def test_a_limit_of_gateways(api: Api, admin: Api) -> None:
    network = outside(admin, "172.28.0.0/24")
    router = api.make("router")
    act(api, "add", router, *[gateway(network)] * 16).expect(200)
    act(api, "add", router, gateway(network)).refused(400, "BadRequest")
    assert len(api.show("router", router["id"])["external_gateways"]) == 16


def test_who_may_change_gateways(api: Api, admin: Api, one: Object) -> None:
    router = api.make("router", external_gateway_info=gateway(one))
    for verb in ("add", "update", "remove"):
        act(api.as_stranger(), verb, router, gateway(one)).refused(404, "RouterNotFound")
        act(api.as_reader(), verb, router, gateway(one)).refused(403, "PolicyNotAuthorized")
    for verb in ("add", "update"):
        act(api, verb, router, fixed(one, "172.24.0.240")).refused(403, "PolicyNotAuthorized")
        act(api, verb, router, gateway(one, enable_snat=True)).refused(403, "PolicyNotAuthorized")
    (own,) = addresses(router)
    act(api, "remove", router, fixed(one, *own)).expect(200)
    act(api, "add", router, gateway(api.as_stranger().network())).refused(404)
    mine = api.network()
    act(api, "add", router, gateway(mine)).refused(400, "BadRequest")


# --- flags of default routes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("flag", ["enable_default_route_ecmp", "enable_default_route_bfd"])
def test_flags_of_default_routes(api: Api, admin: Api, flag: str) -> None:
    router = api.make("router")
    assert router[flag] is False
    body = {"router": {flag: True}}
    api.post("/routers", body).refused(403, "PolicyNotAuthorized")
    api.put(f"/routers/{router['id']}", body).refused(403, "PolicyNotAuthorized")
    assert admin.change("router", router["id"], **{flag: True})[flag] is True
    assert admin.change("router", router["id"], **{flag: None}, name="x")[flag] is True
    assert api.show("router", router["id"])[flag] is True
    made = admin.make("router", **{flag: True})
    assert admin.show("router", made["id"])[flag] is True
    admin.post("/routers", {"router": {flag: "x"}}).refused(400)
