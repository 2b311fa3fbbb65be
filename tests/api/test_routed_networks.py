"""Ports of routed networks: addresses of the host's segment, deferred until there is a host; bindings, gateways."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.l3 import l3_agent
from tests.api.segments import SETTINGS, RoutedNetwork, routed_network
from tests.support.databases import prepared_database

HOSTS = itertools.count()


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory: Path = tmp_path_factory.mktemp("server")
    made = start(directory, prepared_database(request, database, directory), SETTINGS)
    yield made
    made.close()


def host(server: Server, *racks: str) -> str:
    name = f"host-{next(HOSTS)}"
    switch(server, name, bridge_mappings={rack: f"br-{rack}" for rack in racks})
    return name


def subnets_of(port: dict[str, Any]) -> list[str]:
    return [fixed["subnet_id"] for fixed in port["fixed_ips"]]


def bound_segment(server: Server, admin: Api, port: dict[str, Any]) -> int:
    """The VLAN of the segment that a port is bound to, as its host gets it."""
    from neutrino.server.feed.readers.l2 import read_ports

    with server.db.read() as connection:
        ((_, record),) = read_ports(connection, [port["id"]])
    (bound,) = record.bound.values()
    return int(admin.get(f"/segments/{bound.segment_id}").body["segment"]["segmentation_id"])


@pytest.fixture
def routed(admin: Api) -> RoutedNetwork:
    return routed_network(admin)


@pytest.mark.every_database
def test_a_new_port_gets_addresses_of_its_hosts_segment(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    for number, rack in enumerate(("rack1", "rack2")):
        port = admin.make("port", network_id=routed.id, binding__host_id=host(server, rack, "physnet1"))
        assert subnets_of(port) == [routed.subnets[number]["id"]]
        assert port["ip_allocation"] == "immediate"
        assert bound_segment(server, admin, port) == routed.segments[number]["segmentation_id"]


@pytest.mark.every_database
def test_addresses_are_deferred_until_there_is_a_host(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    port = admin.make("port", network_id=routed.id)
    assert (port["fixed_ips"], port["ip_allocation"]) == ([], "deferred")
    named = admin.change("port", port["id"], name="still waiting")
    assert (named["fixed_ips"], named["ip_allocation"]) == ([], "deferred")
    placed = admin.change("port", port["id"], **{"binding:host_id": host(server, "rack2")})
    assert subnets_of(placed) == [routed.subnets[1]["id"]]
    assert (placed["ip_allocation"], placed["binding:vif_type"]) == ("immediate", "ovs")
    assert placed["dns_assignment"][0]["ip_address"] == placed["fixed_ips"][0]["ip_address"]
    shown = admin.get(f"/ports/{port['id']}").body["port"]
    assert (shown["fixed_ips"], shown["ip_allocation"]) == (placed["fixed_ips"], "immediate")


def test_hosts_with_no_or_several_segments_are_refused(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    port = admin.make("port", network_id=routed.id)
    for name, error in (
        (host(server, "physnet1"), "HostNotConnectedToAnySegment"),
        ("unknown", "HostNotConnectedToAnySegment"),
        (host(server, "rack1", "rack2"), "HostConnectedToMultipleSegments"),
    ):
        values = {"binding:host_id": name}
        admin.post("/ports", {"port": {"network_id": routed.id, **values}}).refused(409, error)
        admin.put(f"/ports/{port['id']}", {"port": values}).refused(409, error)
    assert admin.get(f"/ports/{port['id']}").body["port"]["ip_allocation"] == "deferred"


def test_requested_addresses_are_given_without_a_host(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    fixed = [{"ip_address": "10.2.0.77"}]
    port = admin.make("port", network_id=routed.id, fixed_ips=fixed)
    assert (port["ip_allocation"], subnets_of(port)) == ("immediate", [routed.subnets[1]["id"]])
    by_subnet = admin.make("port", network_id=routed.id, fixed_ips=[{"subnet_id": routed.subnets[0]["id"]}])
    assert subnets_of(by_subnet) == [routed.subnets[0]["id"]]
    both = [{"subnet_id": one["id"]} for one in routed.subnets]
    admin.post("/ports", {"port": {"network_id": routed.id, "fixed_ips": both}}).refused(
        400, "FixedIpsSubnetsNotOnSameSegment"
    )
    wrong = {"binding:host_id": host(server, "rack1")}
    admin.put(f"/ports/{port['id']}", {"port": wrong}).refused(409, "HostNotCompatibleWithFixedIps")
    right = admin.change("port", port["id"], **{"binding:host_id": host(server, "rack2")})
    assert right["binding:vif_type"] == "ovs"


def test_a_host_restricts_requested_addresses(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    on_first, other = host(server, "rack1"), [{"subnet_id": routed.subnets[1]["id"]}]
    body = {"network_id": routed.id, "fixed_ips": other, "binding:host_id": on_first}
    admin.post("/ports", {"port": body}).refused(400, "InvalidInput")
    port = admin.make("port", network_id=routed.id, binding__host_id=on_first)
    admin.put(f"/ports/{port['id']}", {"port": {"fixed_ips": other}}).refused(400, "InvalidInput")
    # With another host and addresses of its segment the port moves.
    moved = admin.change("port", port["id"], **{"binding:host_id": host(server, "rack2"), "fixed_ips": other})
    assert subnets_of(moved) == [routed.subnets[1]["id"]]
    assert bound_segment(server, admin, moved) == routed.segments[1]["segmentation_id"]


def test_a_port_stays_on_the_segment_of_its_addresses(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    port = admin.make("port", network_id=routed.id, binding__host_id=host(server, "rack1"))
    wrong = {"binding:host_id": host(server, "rack2")}
    admin.put(f"/ports/{port['id']}", {"port": wrong}).refused(409, "HostNotCompatibleWithFixedIps")
    moved = admin.change("port", port["id"], **{"binding:host_id": host(server, "rack1")})
    assert moved["fixed_ips"] == port["fixed_ips"]
    assert admin.change("port", port["id"], **{"binding:host_id": ""})["fixed_ips"] == port["fixed_ips"]


def test_a_live_migration_stays_on_the_segment(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    here = host(server, "rack1")
    port = admin.make("port", network_id=routed.id, binding__host_id=here, device_owner="compute:z")
    service = admin.as_service()
    path = f"/ports/{port['id']}/bindings"
    service.post(path, {"binding": {"host": host(server, "rack2")}}).refused(409, "PortBindingError")
    service.post(path, {"binding": {"host": host(server, "rack1")}}).expect(201)


def test_a_port_without_addresses_is_not_deferred(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    port = admin.make("port", network_id=routed.id, fixed_ips=[])
    assert port["ip_allocation"] == "none"
    placed = admin.change("port", port["id"], **{"binding:host_id": host(server, "rack1")})
    assert (placed["fixed_ips"], placed["ip_allocation"]) == ([], "none")


def test_a_port_of_before_the_subnets_is_not_deferred(server: Server, admin: Api) -> None:
    network = admin.make("network", provider__network_type="vlan", provider__physical_network="rack1")
    port = admin.make("port", network_id=network["id"])
    (segment,) = admin.all("/segments", {"network_id": network["id"]})
    admin.make("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24", segment_id=segment["id"])
    placed = admin.change("port", port["id"], **{"binding:host_id": host(server, "rack1")})
    assert (placed["fixed_ips"], placed["ip_allocation"]) == ([], "immediate")


def test_ports_on_a_host_with_several_segments_that_is_not_routed(server: Server, admin: Api) -> None:
    """A network with several segments and plain subnets: any segment of the host is good."""
    network = admin.make("network", provider__network_type="vlan", provider__physical_network="rack1")
    admin.make("segment", network_id=network["id"], network_type="vlan", physical_network="rack2")
    admin.make("subnet", network_id=network["id"], ip_version=4, cidr="10.0.0.0/24")
    port = admin.make("port", network_id=network["id"], binding__host_id=host(server, "rack1", "rack2"))
    assert (port["binding:vif_type"], len(port["fixed_ips"])) == ("ovs", 1)


def test_slaac_addresses_are_those_of_the_segment(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    ports = [admin.make("port", network_id=routed.id, binding__host_id=host(server, f"rack{n}")) for n in (1, 2)]
    waiting = admin.make("port", network_id=routed.id)
    made = admin.make(
        "subnet", network_id=routed.id, ip_version=6, cidr="2001:db8:1::/64", segment_id=routed.segments[0]["id"],
        ipv6_ra_mode="slaac", ipv6_address_mode="slaac",
    )  # fmt: skip
    first, second, third = (admin.get(f"/ports/{p['id']}").body["port"] for p in (*ports, waiting))
    assert subnets_of(first) == [routed.subnets[0]["id"], made["id"]]
    assert subnets_of(second) == [routed.subnets[1]["id"]]
    assert subnets_of(third) == []
    placed = admin.change("port", waiting["id"], **{"binding:host_id": host(server, "rack1")})
    assert subnets_of(placed) == [routed.subnets[0]["id"], made["id"]]
    only = admin.make("port", network_id=routed.id, fixed_ips=[{"subnet_id": made["id"]}])
    admin.delete(f"/subnets/{made['id']}").refused(409, "SubnetInUse")
    admin.delete(f"/ports/{only['id']}").expect(204)
    admin.delete(f"/subnets/{made['id']}").expect(204)


# --- routers and floating IPs -----------------------------------------------------------------------------------------


def test_a_gateway_gets_its_address_with_its_host(server: Server, admin: Api) -> None:
    outside = routed_network(admin, router__external=True)
    router = admin.make("router", external_gateway_info={"network_id": outside.id})
    assert router["external_gateway_info"]["external_fixed_ips"] == []
    name = host(server, "rack2")
    l3_agent(server, name)
    shown = admin.get(f"/routers/{router['id']}").body["router"]["external_gateway_info"]["external_fixed_ips"]
    assert [fixed["subnet_id"] for fixed in shown] == [outside.subnets[1]["id"]]
    gateway = admin.all("/ports", {"device_id": router["id"], "device_owner": "network:router_gateway"})[0]
    assert (gateway["binding:host_id"], gateway["binding:vif_type"]) == (name, "ovs")


def test_a_router_connects_subnets_of_segments(server: Server, admin: Api, routed: RoutedNetwork) -> None:
    router = admin.make("router")
    for one in routed.subnets:
        path = f"/routers/{router['id']}/add_router_interface"
        admin.put(path, {"subnet_id": one["id"]}).expect(200)
    ports = admin.all("/ports", {"device_id": router["id"]})
    assert sorted(fixed["ip_address"] for port in ports for fixed in port["fixed_ips"]) == ["10.1.0.1", "10.2.0.1"]


def test_a_floating_ip_needs_a_subnet_on_a_routed_network(server: Server, admin: Api) -> None:
    outside = routed_network(admin, router__external=True)
    given = {"floating_network_id": outside.id}
    admin.post("/floatingips", {"floatingip": given}).refused(400, "ExternalIpAddressExhausted")
    made = admin.make("floatingip", **given, subnet_id=outside.subnets[1]["id"])
    assert ipaddress.ip_address(made["floating_ip_address"]) in ipaddress.ip_network("10.2.0.0/24")
