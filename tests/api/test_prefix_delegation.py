"""Subnets whose prefix is delegated to their router: requests, and renumbering when a host reports the prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from neutrino.features.router.routers.prefix_delegation import PrefixDelegation
from neutrino.model.agents import DHCP
from neutrino.model.objects import Object
from neutrino.server.ipam.subnet_rules import eui64
from neutrino.server.main import Server
from neutrino.server.ml2.ports.provisioning import L2, Done
from tests.api.agents import report, switch
from tests.api.client import Api
from tests.api.l3 import attach, detach, gateway, l3_agent, outside, ports_of
from tests.faults.integrity import check

SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
STATELESS = {"ipv6_ra_mode": "dhcpv6-stateless", "ipv6_address_mode": "dhcpv6-stateless"}
STATEFUL = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}
POOL = "prefix_delegation"
ASKING: Object = {"ip_version": 6, "subnetpool_id": POOL, **SLAAC}
PROVISIONAL = "::/64"
FIRST, SECOND = "2001:db8:aa:1::/64", "2001:db8:aa:2::/64"


@pytest.fixture
def cloud(another_server: Callable[..., Server]) -> Any:
    """A server of the test's own, with two hosts that route."""
    made: list[Server] = []

    def make(**options: str) -> tuple[Server, Api]:
        server = another_server({"DEFAULT": options})
        made.append(server)
        for host in ("h1", "h2"):
            switch(server, host)
        l3_agent(server, "h1")
        return server, Api(server.app).as_admin()

    yield make
    for server in made:
        check(server.db)


def report_prefix(server: Server, host: str, subnet: Object, prefix: str) -> bool:
    """A host reports the prefix of a subnet."""
    delegation = PrefixDelegation(server.db, server.core.operations, server.core.subnets, server.core.ports)
    return delegation.set_prefix(host, subnet["id"], prefix)


def asking(api: Api, network: Object, **values: Any) -> Object:
    return api.make("subnet", network_id=network["id"], **{**ASKING, **values})


def addressing(api: Api, subnet: Object) -> tuple[str, str, str]:
    shown = api.show("subnet", subnet["id"])
    (pool,) = shown["allocation_pools"]
    return shown["cidr"], shown["gateway_ip"], pool["start"]


def addresses(api: Api, port: Object) -> set[str]:
    return {fixed["ip_address"] for fixed in api.show("port", port["id"])["fixed_ips"]}


# --- the API ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modes", [SLAAC, STATELESS])
def test_a_subnet_without_a_prefix_yet(api: Api, modes: Object) -> None:
    network = api.network()
    subnet = asking(api, network, **modes)
    assert (subnet["cidr"], subnet["gateway_ip"], subnet["subnetpool_id"]) == (PROVISIONAL, "::1", POOL)
    assert api.show("subnet", subnet["id"])["subnetpool_id"] == POOL
    other = api.subnet(api.network(), "fd00::/64")
    assert [s["id"] for s in api.all("/subnets", {"subnetpool_id": POOL})] == [subnet["id"]]
    assert {s["id"] for s in api.all("/subnets", {"sort_key": "subnetpool_id"})} == {subnet["id"], other["id"]}
    port = api.port(network)
    assert addresses(api, port) == {eui64(PROVISIONAL, port["mac_address"])}
    api.delete(f"/ports/{port['id']}").expect(204)
    api.delete(f"/subnets/{subnet['id']}").expect(204)


def test_delegated_subnets_share_a_network_only_with_each_other(api: Api) -> None:
    network = api.network()
    asking(api, network)
    asking(api, network)
    body = {"subnet": {"network_id": network["id"], "ip_version": 6, "cidr": "fd00::/64"}}
    api.post("/subnets", body).refused(400, "NetworkSubnetPoolAffinityError")
    api.subnet(network, "10.0.0.0/24")  # another version's


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"ip_version": 4}, "ip_version"),
        ({"ipv6_ra_mode": None}, "ipv6_ra_mode"),
        ({"ipv6_address_mode": None}, "ipv6_address_mode"),
        (STATEFUL, "ipv6_ra_mode"),
        ({"ipv6_address_mode": "dhcpv6-stateful"}, "ipv6_address_mode"),
        ({"prefixlen": 56}, "prefixlen"),
        ({"gateway_ip": "2001:db8::1"}, "gateway_ip"),
        ({"gateway_ip": None}, "gateway_ip"),
        ({"allocation_pools": [{"start": "::2", "end": "::9"}]}, "allocation_pools"),
        ({"enable_dhcp": False}, "enable_dhcp"),
    ],
)
def test_invalid_requests_are_refused(api: Api, values: Object, named: str) -> None:
    network = api.network()
    body = {"subnet": {"network_id": network["id"], **ASKING, **values}}
    refused = api.post("/subnets", body).expect(400)
    assert named in refused.message
    assert api.show("network", network["id"])["subnets"] == []


def test_a_requested_prefix_is_not_delegated(api: Api) -> None:
    subnet = asking(api, api.network(), cidr="fd00:5::/64")
    assert (subnet["cidr"], subnet["subnetpool_id"]) == ("fd00:5::/64", None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cidr", FIRST),
        ("subnetpool_id", None),
        ("gateway_ip", "2001:db8::1"),
        ("gateway_ip", None),
        ("allocation_pools", [{"start": "::2", "end": "::9"}]),
    ],
)
def test_attributes_derived_from_the_prefix_cannot_be_changed(api: Api, name: str, value: Any) -> None:
    subnet = asking(api, api.network())
    refused = api.put(f"/subnets/{subnet['id']}", {"subnet": {name: value}}).expect(400)
    assert name in refused.message
    assert addressing(api, subnet) == (PROVISIONAL, "::1", "::2")
    changed = api.put(f"/subnets/{subnet['id']}", {"subnet": {"name": "renamed"}}).expect(200).body["subnet"]
    assert (changed["name"], changed["subnetpool_id"]) == ("renamed", POOL)


def test_the_default_pool_of_ipv6(cloud: Any) -> None:
    default = {"ip_version": 6, "use_default_subnetpool": True, **SLAAC}
    _, admin = cloud(ipv6_pd_enabled="true")
    subnet = admin.make("subnet", network_id=admin.network()["id"], **default)
    assert (subnet["cidr"], subnet["subnetpool_id"]) == (PROVISIONAL, POOL)
    four = {"subnet": {"network_id": admin.network()["id"], "ip_version": 4, "use_default_subnetpool": True}}
    admin.post("/subnets", four).expect(400)
    _, other = cloud()
    other.post("/subnets", {"subnet": {"network_id": other.network()["id"], **default}}).expect(400)


# --- renumbering ----------------------------------------------------------------------------------------------------


def routed(admin: Api, **router: Any) -> tuple[Object, Object, Object, Object]:
    """A network with a subnet that requests a prefix, a port on it, and a router with a gateway."""
    network = admin.network()
    subnet = asking(admin, network)
    port = admin.port(network)
    made = admin.make("router", external_gateway_info=gateway(outside(admin)), **router)
    attach(admin, made, subnet_id=subnet["id"]).expect(200)
    return network, subnet, port, made


def test_a_delegated_prefix_renumbers_subnet_and_ports(cloud: Any) -> None:
    server, admin = cloud()
    network, subnet, port, router = routed(admin)
    assert report_prefix(server, "h1", subnet, FIRST)
    assert addressing(admin, subnet) == (FIRST, "2001:db8:aa:1::1", "2001:db8:aa:1::2")
    assert addresses(admin, port) == {eui64(FIRST, port["mac_address"])}
    (inner,) = ports_of(admin, router, "network:router_interface")
    assert addresses(admin, inner) == {"2001:db8:aa:1::1"}
    later = admin.port(network)
    assert addresses(admin, later) == {eui64(FIRST, later["mac_address"])}

    before = admin.show("subnet", subnet["id"]), admin.show("port", port["id"]), admin.show("router", router["id"])
    assert not report_prefix(server, "h1", subnet, FIRST)
    assert before == (
        admin.show("subnet", subnet["id"]),
        admin.show("port", port["id"]),
        admin.show("router", router["id"]),
    )
    assert report_prefix(server, "h1", subnet, SECOND)
    assert addresses(admin, port) == {eui64(SECOND, port["mac_address"])}
    assert report_prefix(server, "h1", subnet, PROVISIONAL)
    assert addressing(admin, subnet)[0] == PROVISIONAL
    assert addresses(admin, port) == {eui64(PROVISIONAL, port["mac_address"])}


def test_dhcp_does_not_block_a_port_before_the_prefix_is_delegated(cloud: Any) -> None:
    server, admin = cloud()
    report(server, DHCP, "h2")
    network, subnet, _, _ = routed(admin)

    def wired(port: Object) -> str:
        server.core.provisioning.complete_all([Done(port["id"], "h2", 99)], L2)
        return str(admin.show("port", port["id"])["status"])

    assert wired(admin.port(network, binding__host_id="h2", device_owner="compute:nova")) == "ACTIVE"
    report_prefix(server, "h1", subnet, FIRST)
    assert wired(admin.port(network, binding__host_id="h2", device_owner="compute:nova")) == "DOWN"


def test_removing_the_interface_withdraws_the_prefix(cloud: Any) -> None:
    server, admin = cloud()
    _, subnet, port, router = routed(admin)
    report_prefix(server, "h1", subnet, FIRST)
    detach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert addressing(admin, subnet) == (PROVISIONAL, "::1", "::2")
    assert addresses(admin, port) == {eui64(PROVISIONAL, port["mac_address"])}
    assert not report_prefix(server, "h1", subnet, FIRST)  # stale report
    assert addressing(admin, subnet)[0] == PROVISIONAL
    attach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert report_prefix(server, "h1", subnet, SECOND)
    (inner,) = ports_of(admin, router, "network:router_interface")
    detach(admin, router, port_id=inner["id"]).expect(200)
    assert addressing(admin, subnet)[0] == PROVISIONAL


def test_clearing_the_gateway_withdraws_the_prefix(cloud: Any) -> None:
    server, admin = cloud()
    _, subnet, port, router = routed(admin)
    second = asking(admin, {"id": subnet["network_id"]})
    attach(admin, router, subnet_id=second["id"]).expect(200)
    assert report_prefix(server, "h1", subnet, FIRST)
    assert report_prefix(server, "h1", second, SECOND)
    mac = port["mac_address"]
    assert addresses(admin, port) == {eui64(FIRST, mac), eui64(SECOND, mac)}

    def set_gateway(info: Object) -> None:
        admin.put(f"/routers/{router['id']}", {"router": {"external_gateway_info": info}}).expect(200)

    set_gateway({})
    assert [addressing(admin, one)[0] for one in (subnet, second)] == [PROVISIONAL, PROVISIONAL]
    assert addresses(admin, port) == {eui64(PROVISIONAL, mac)}
    assert not report_prefix(server, "h1", subnet, FIRST)
    set_gateway(gateway(outside(admin, "172.25.0.0/24")))
    assert report_prefix(server, "h1", subnet, FIRST)
    set_gateway(gateway(outside(admin, "172.26.0.0/24")))  # somebody else's prefixes are to be had there
    assert addressing(admin, subnet)[0] == PROVISIONAL


def test_reports_count_only_for_routers_on_the_host(cloud: Any) -> None:
    server, admin = cloud()
    _, subnet, _, router = routed(admin)
    assert not report_prefix(server, "h2", subnet, FIRST)
    ordinary = admin.subnet(admin.network(), "fd00:9::/64", **SLAAC)
    attach(admin, router, subnet_id=ordinary["id"]).expect(200)
    assert not report_prefix(server, "h1", ordinary, FIRST)
    assert admin.show("subnet", ordinary["id"])["cidr"] == "fd00:9::/64"
    assert not report_prefix(server, "h1", {"id": "11111111-1111-1111-1111-111111111111"}, FIRST)
    assert addressing(admin, subnet)[0] == PROVISIONAL


@pytest.mark.parametrize(
    "prefix", ["", "nonsense", "10.0.0.0/24", "2001:db8::/56", "2001:db8::1/64", "ff02::/64", "fe80::/64", "::/0"]
)
def test_unusable_prefixes_are_ignored(cloud: Any, prefix: str) -> None:
    server, admin = cloud()
    _, subnet, _, _ = routed(admin)
    assert not report_prefix(server, "h1", subnet, prefix)
    assert addressing(admin, subnet)[0] == PROVISIONAL


def test_a_prefix_that_the_router_has_already_is_not_taken(cloud: Any) -> None:
    server, admin = cloud()
    _, subnet, _, router = routed(admin)
    ordinary = admin.subnet(admin.network(), FIRST)
    attach(admin, router, subnet_id=ordinary["id"]).expect(200)
    assert not report_prefix(server, "h1", subnet, FIRST)
    assert addressing(admin, subnet)[0] == PROVISIONAL
    assert report_prefix(server, "h1", subnet, SECOND)


def test_only_the_active_host_of_an_ha_router_reports_prefixes(cloud: Any) -> None:
    server, admin = cloud()
    l3_agent(server, "h2")
    _, subnet, port, router = routed(admin, ha=True)
    assert not report_prefix(server, "h2", subnet, FIRST)
    server.service_plugins["router"].scheduler.set_ha_state("h2", router["id"], "active")
    assert not report_prefix(server, "h1", subnet, FIRST)
    assert report_prefix(server, "h2", subnet, FIRST)
    assert addresses(admin, port) == {eui64(FIRST, port["mac_address"])}


def test_the_ports_of_a_distributed_router_follow(cloud: Any) -> None:
    server, admin = cloud()
    l3_agent(server, "h1", agent_mode="dvr_snat")
    _, subnet, _, router = routed(admin, distributed=True)
    assert report_prefix(server, "h1", subnet, FIRST)
    for owner in ("network:router_interface_distributed", "network:router_centralized_snat"):
        (found,) = ports_of(admin, router, owner)
        assert all(address.startswith("2001:db8:aa:1:") for address in addresses(admin, found)), owner
    detach(admin, router, subnet_id=subnet["id"]).expect(200)
    assert addressing(admin, subnet)[0] == PROVISIONAL
