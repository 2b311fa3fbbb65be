"""Subnets and addresses: prefixes, pools and gateways, IPv6 modes, service types, and running out."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.races import before_next_write
from tests.faults.integrity import check

SLAAC = {"ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
STATELESS = {"ipv6_ra_mode": "dhcpv6-stateless", "ipv6_address_mode": "dhcpv6-stateless"}
STATEFUL = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}


def addresses(port: dict[str, Any]) -> list[str]:
    return [fixed["ip_address"] for fixed in port["fixed_ips"]]


def test_defaults(api: Api) -> None:
    network = api.network()
    four = api.subnet(network, "10.0.0.5/24")
    assert (four["cidr"], four["gateway_ip"]) == ("10.0.0.0/24", "10.0.0.1")
    assert four["allocation_pools"] == [{"start": "10.0.0.2", "end": "10.0.0.254"}]
    six = api.subnet(network, "fd00::/64")
    assert six["ip_version"] == 6
    assert api.show("network", network["id"])["subnets"] == [four["id"], six["id"]]


V4: dict[str, Any] = {"cidr": "10.0.0.0/24", "ip_version": 4}
POOL = [{"start": "10.0.0.2", "end": "10.0.0.9"}]


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"cidr": "10.0.0.0/24", "ip_version": 6}, 400),
        ({"cidr": "ten", "ip_version": 4}, 400),
        ({"cidr": "0.0.0.0/0", "ip_version": 4}, 400),
        ({"cidr": "224.0.0.0/24", "ip_version": 4}, 400),
        ({**V4, "gateway_ip": "10.0.0.255"}, 400),
        ({**V4, "gateway_ip": "fd00::1"}, 400),
        ({**V4, "allocation_pools": [{"start": "10.0.1.1", "end": "10.0.1.9"}]}, 400),
        ({**V4, "allocation_pools": [{"start": "10.0.0.9", "end": "10.0.0.2"}]}, 400),
        ({**V4, "ipv6_ra_mode": "slaac"}, 400),
        ({"cidr": "fd00::/63", "ip_version": 6, **SLAAC}, 400),
        ({"cidr": "fd00::/64", "ip_version": 6, **SLAAC, "ipv6_address_mode": "dhcpv6-stateful"}, 400),
        ({**V4, "host_routes": [{"destination": "fd00::/64", "nexthop": "fd00::1"}]}, 400),
        ({**V4, "dns_nameservers": [f"10.9.9.{i}" for i in range(1, 8)]}, 400),
        ({**V4, "gateway_ip": "10.0.0.5", "allocation_pools": POOL}, 409),
        ({"ip_version": 4}, 400),
        ({"cidr": "10.0.0.0/24", "ip_version": 5}, 400),
    ],
)
def test_invalid_subnets_are_refused(api: Api, values: dict[str, Any], status: int) -> None:
    network = api.network()
    api.post("/subnets", {"subnet": {"network_id": network["id"], **values}}).expect(status)
    assert api.show("network", network["id"])["subnets"] == []


@pytest.mark.parametrize(("version", "cidr", "others"), [(4, "10.0.0.0/24", "fd00::53"), (6, "fd00::/64", "10.9.9.9")])
def test_name_servers_need_the_subnets_ip_version(api: Api, version: int, cidr: str, others: str) -> None:
    network = api.network()
    own = {4: "192.0.2.53", 6: "2001:db8::53"}[version]
    body = {"network_id": network["id"], "ip_version": version, "cidr": cidr}
    for servers in ([others], [own, others]):
        api.post("/subnets", {"subnet": {**body, "dns_nameservers": servers}}).refused(400, "InvalidInput")
        api.post("/subnets", {"subnets": [{**body, "dns_nameservers": servers}]}).refused(400, "InvalidInput")
    subnet = api.subnet(network, cidr, dns_nameservers=[own])
    refused = api.put(f"/subnets/{subnet['id']}", {"subnet": {"dns_nameservers": [others]}})
    assert others in refused.refused(400, "InvalidInput").message
    assert api.change("subnet", subnet["id"], dns_nameservers=[])["dns_nameservers"] == []


def test_an_empty_list_of_pools_means_the_default(api: Api) -> None:
    for cidr in ("10.0.0.0/24", "fd00::/64"):
        usual = api.subnet(api.network(), cidr)["allocation_pools"]
        assert usual
        network = api.network()
        subnet = api.subnet(network, cidr, allocation_pools=[])
        assert subnet["allocation_pools"] == usual
        assert api.port(network)["fixed_ips"][0]["subnet_id"] == subnet["id"]


@pytest.mark.every_database
def test_prefixes_of_a_network_do_not_overlap(api: Api) -> None:
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.128/25"}}
    api.post("/subnets", body).expect(400)
    api.subnet(api.network(), "10.0.0.128/25")


@pytest.mark.every_database
def test_a_bulk_create_is_all_or_nothing(api: Api) -> None:
    network = api.network()
    good = {"network_id": network["id"], "ip_version": 4, "cidr": "10.1.0.0/24"}
    api.post("/subnets", {"subnets": [good, {**good, "cidr": "10.1.0.0/25"}]}).expect(400)
    assert api.show("network", network["id"])["subnets"] == []
    made = api.post("/subnets", {"subnets": [good, {**good, "cidr": "10.2.0.0/24"}]}).expect(201).body["subnets"]
    assert [s["cidr"] for s in made] == ["10.1.0.0/24", "10.2.0.0/24"]


def test_update(api: Api) -> None:
    subnet = api.subnet(api.network())
    changed = api.change(
        "subnet",
        subnet["id"],
        gateway_ip="10.0.0.254",
        allocation_pools=[{"start": "10.0.0.10", "end": "10.0.0.20"}],
        dns_nameservers=["10.9.9.9"],
        host_routes=[{"destination": "10.7.0.0/16", "nexthop": "10.0.0.3"}],
        enable_dhcp=False,
    )
    assert changed["gateway_ip"] == "10.0.0.254"
    assert changed["allocation_pools"] == [{"start": "10.0.0.10", "end": "10.0.0.20"}]
    assert changed["revision_number"] == subnet["revision_number"] + 1
    assert api.show("subnet", subnet["id"]) == changed
    api.put(f"/subnets/{subnet['id']}", {"subnet": {"gateway_ip": "10.0.0.15"}}).expect(409)
    api.put(f"/subnets/{subnet['id']}", {"subnet": {"cidr": "10.8.0.0/24"}}).expect(400)


def test_a_subnet_in_use_cannot_be_deleted(api: Api, admin: Api) -> None:
    network = api.network()
    subnet = api.subnet(network)
    dhcp = admin.port(network, device_owner="network:dhcp", device_id="agent")
    port = api.port(network)
    api.delete(f"/subnets/{subnet['id']}").refused(409, "SubnetInUse")
    api.delete(f"/ports/{port['id']}").expect(204)
    api.delete(f"/subnets/{subnet['id']}").expect(204)
    admin.get(f"/ports/{dhcp['id']}").expect(404)
    assert api.show("network", network["id"])["subnets"] == []


@pytest.mark.every_database
def test_exhausted_and_released_addresses(api: Api) -> None:
    network = api.network()
    api.subnet(network, "10.0.0.0/28", allocation_pools=[{"start": "10.0.0.4", "end": "10.0.0.9"}])
    made = [api.port(network) for _ in range(6)]
    assert sorted(a for p in made for a in addresses(p)) == [f"10.0.0.{i}" for i in range(4, 10)]
    api.post("/ports", {"port": {"network_id": network["id"]}}).refused(409, "IpAddressGenerationFailure")
    api.delete(f"/ports/{made[2]['id']}").expect(204)
    assert addresses(api.port(network)) == addresses(made[2])
    assert addresses(api.port(network, fixed_ips=[{"ip_address": "10.0.0.12"}])) == ["10.0.0.12"]  # outside of the pool


@pytest.mark.every_database
def test_a_full_subnet_is_followed_by_the_next(api: Api) -> None:
    network = api.network()
    api.subnet(network, "10.0.0.0/30")
    second = api.subnet(network, "10.0.1.0/30")
    owners = [api.port(network)["fixed_ips"][0]["subnet_id"] for _ in range(2)]
    assert owners.count(second["id"]) == 1
    bulk = {"ports": [{"network_id": network["id"]}] * 2}
    api.post("/ports", bulk).refused(409, "IpAddressGenerationFailure")


@pytest.mark.parametrize("mode", [SLAAC, STATELESS])
def test_slaac_addresses_follow_their_subnet(api: Api, mode: dict[str, str]) -> None:
    network = api.network()
    api.subnet(network)
    before = api.port(network, mac_address="fa:16:3e:11:22:33", dns_name="web")
    subnet = api.subnet(network, "fd00:1::/64", **mode)
    own = "fd00:1::f816:3eff:fe11:2233"
    after = api.show("port", before["id"])
    assert addresses(after) == [*addresses(before), own]
    assert after["revision_number"] > before["revision_number"]
    assert own in {entry["ip_address"] for entry in after["dns_assignment"]}
    assert len(addresses(api.port(network))) == 2
    api.delete(f"/subnets/{subnet['id']}").expect(204)
    left = api.show("port", before["id"])
    assert addresses(left) == addresses(before)
    assert own not in {entry["ip_address"] for entry in left["dns_assignment"]}


def test_a_stateful_ipv6_subnet_allocates_addresses(api: Api) -> None:
    network = api.network()
    subnet = api.subnet(network, "fd00:2::/64", **STATEFUL)
    port = api.port(network)
    assert ipaddress.ip_address(addresses(port)[0]) in ipaddress.ip_network("fd00:2::/64")
    api.delete(f"/subnets/{subnet['id']}").refused(409, "SubnetInUse")


@pytest.mark.every_database
@pytest.mark.parametrize("first", ["port", "subnet"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_port_and_a_slaac_subnet_created_at_once(
    server: Server, api: Api, first: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither request sees the other before its commit."""
    network = api.network()
    api.subnet(network, "10.0.0.0/24")

    def create_ports() -> None:
        body = [{"network_id": network["id"]}] * count
        api.post("/ports", {"ports": body} if count > 1 else {"port": body[0]}).expect(201)

    def create_subnet() -> None:
        api.subnet(network, "fd00:9::/64", **SLAAC)

    inner, outer = (create_ports, create_subnet) if first == "port" else (create_subnet, create_ports)
    before_next_write(server, monkeypatch, inner)
    outer()
    ports = api.all("/ports", {"network_id": network["id"]})
    assert [len(port["fixed_ips"]) for port in ports] == [2] * count
    check(server.db)


@pytest.mark.every_database
def test_a_port_that_gets_its_first_address_while_a_slaac_subnet_is_created(
    server: Server, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = api.network()
    port = api.make("port", network_id=network["id"])
    subnet = api.subnet(network, "10.0.0.0/24")
    before_next_write(server, monkeypatch, lambda: api.subnet(network, "fd00:9::/64", **SLAAC))
    api.change("port", port["id"], fixed_ips=[{"subnet_id": subnet["id"]}])
    assert len(api.show("port", port["id"])["fixed_ips"]) == 2
    check(server.db)


@pytest.mark.every_database
def test_a_slaac_subnet_that_is_deleted_at_once(server: Server, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    network = api.network()

    def create_and_delete() -> None:
        subnet = api.subnet(network, "fd00:9::/64", **SLAAC)
        api.delete(f"/subnets/{subnet['id']}").expect(204)

    before_next_write(server, monkeypatch, create_and_delete)
    port = api.make("port", network_id=network["id"])
    assert api.show("port", port["id"])["fixed_ips"] == []


def test_a_slaac_address_cannot_be_chosen(api: Api) -> None:
    network = api.network()
    subnet = api.subnet(network, "fd00:3::/64", **SLAAC)
    fixed_ip = {"subnet_id": subnet["id"], "ip_address": "fd00:3::5"}
    api.post("/ports", {"port": {"network_id": network["id"], "fixed_ips": [fixed_ip]}}).expect(400)
    port = api.port(network, fixed_ips=[{"subnet_id": subnet["id"]}], mac_address="fa:16:3e:00:00:01")
    assert addresses(port) == ["fd00:3::f816:3eff:fe00:1"]


@pytest.mark.every_database
def test_service_types(api: Api, admin: Api) -> None:
    network = api.network()
    values = {"network_id": network["id"], "ip_version": 4, "cidr": "10.0.0.0/24", "service_types": ["compute:nova"]}
    made = api.post("/subnets", {"subnet": values}).expect(201).body["subnet"]
    assert made["service_types"] == ["compute:nova"]
    api.delete(f"/subnets/{made['id']}").expect(204)
    shared = admin.network(shared=True)
    api.as_stranger().post("/subnets", {"subnet": {**values, "network_id": shared["id"]}}).expect(403)
    kept = api.subnet(network, "10.0.0.0/24", service_types=["network:dhcp"])
    raised = api.change("subnet", kept["id"], service_types=["network:floatingip"])["revision_number"]
    assert raised == kept["revision_number"] + 1
    assert api.change("subnet", kept["id"], name="named")["service_types"] == ["network:floatingip"]
    api.post("/ports", {"port": {"network_id": network["id"]}}).refused(409, "IpAddressGenerationFailure")
    general = api.subnet(network, "10.0.1.0/24")
    assert api.port(network)["fixed_ips"][0]["subnet_id"] == general["id"]
    floating = admin.port(network, device_owner="network:floatingip")
    assert floating["fixed_ips"][0]["subnet_id"] == kept["id"]
    for asked in ({"subnet_id": kept["id"]}, {"subnet_id": kept["id"], "ip_address": "10.0.0.77"}):
        body = {"port": {"network_id": network["id"], "fixed_ips": [asked]}}
        assert kept["id"] in api.post("/ports", body).refused(400, "InvalidInput").message
    body = {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": "10.0.0.77"}]}}
    api.post("/ports", body).refused(400, "InvalidIpForNetwork")
    moved = {"port": {"fixed_ips": [{"subnet_id": kept["id"]}]}}
    api.put(f"/ports/{api.port(network)['id']}", moved).refused(400, "InvalidInput")
    # A port that has an address there already keeps it, whatever its owner is now.
    kept_address = admin.change("port", floating["id"], device_owner="compute:nova", fixed_ips=floating["fixed_ips"])
    assert kept_address["fixed_ips"] == floating["fixed_ips"]
    changed = admin.change("subnet", kept["id"], service_types=["compute:nova"])
    assert changed["service_types"] == ["compute:nova"]
    assert admin.change("subnet", kept["id"], service_types=["kuryr:pod"])["service_types"] == ["kuryr:pod"]
    admin.put(f"/subnets/{kept['id']}", {"subnet": {"service_types": ["kitchen"]}}).expect(400)
