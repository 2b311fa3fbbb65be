"""Ports: addresses and MACs, names, DHCP options, address pairs, security, and what an update touches."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.client import Api


@pytest.fixture
def network(api: Api) -> dict[str, Any]:
    made = api.network()
    api.subnet(made, "10.0.0.0/24")
    return made


def fixed(port: dict[str, Any]) -> list[str]:
    return [one["ip_address"] for one in port["fixed_ips"]]


def test_one_address_of_each_version(api: Api, network: dict[str, Any]) -> None:
    api.subnet(network, "10.0.1.0/24")
    api.subnet(network, "fd00::/64")
    port = api.port(network)
    assert sorted(":" in a for a in fixed(port)) == [False, True]
    assert api.port(network, fixed_ips=[])["fixed_ips"] == []


@pytest.mark.every_database
def test_an_address_is_allocated_once(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, fixed_ips=[{"ip_address": "10.0.0.7"}])
    body = {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": "10.0.0.7"}]}}
    api.post("/ports", body).refused(409, "IpAddressAlreadyAllocated")
    for address in ("10.9.0.1", "10.0.0.255", "10.0.0.0", "fd00::1", "x"):
        api.post("/ports", {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": address}]}}).expect(400)
    changed = api.change("port", port["id"], fixed_ips=[{"ip_address": "10.0.0.8"}])
    assert fixed(changed) == ["10.0.0.8"]
    api.post("/ports", body).expect(201)
    both = api.change("port", port["id"], fixed_ips=[{"ip_address": "10.0.0.8"}, {"ip_address": "10.0.0.9"}])
    assert fixed(both) == ["10.0.0.8", "10.0.0.9"]
    subnet_id = both["fixed_ips"][0]["subnet_id"]
    assert fixed(api.change("port", port["id"], fixed_ips=[{"subnet_id": subnet_id}])) == ["10.0.0.8"]
    one = {"subnet_id": subnet_id, "ip_address": "10.0.0.10"}
    assert api.change("port", port["id"], fixed_ips=[{**one, "subnet": None}])["fixed_ips"] == [one]
    assert api.change("port", port["id"], fixed_ips=[])["fixed_ips"] == []
    api.put(f"/ports/{port['id']}", {"port": {"fixed_ips": [{"ip_address": "10.0.0.7"}]}}).expect(409)


@pytest.mark.every_database
def test_several_at_once_get_different_addresses(api: Api, network: dict[str, Any]) -> None:
    made = api.post("/ports", {"ports": [{"network_id": network["id"]}] * 40}).expect(201).body["ports"]
    assert len({a for p in made for a in fixed(p)}) == len({p["mac_address"] for p in made}) == 40
    wrapped = [{"port": {"network_id": network["id"], "name": name}} for name in "ab"]
    assert [p["name"] for p in api.post("/ports", {"ports": wrapped}).expect(201).body["ports"]] == ["a", "b"]
    twice = [{"network_id": network["id"], "fixed_ips": [{"ip_address": "10.0.0.250"}]}] * 2
    api.post("/ports", {"ports": twice}).expect(409)
    assert len(api.all("/ports")) == 42


@pytest.mark.every_database
def test_a_mac_is_unique_on_a_network(api: Api, admin: Api, network: dict[str, Any]) -> None:
    first = api.port(network, mac_address="FA:16:3E:00:00:0A")
    assert first["mac_address"] == "fa:16:3e:00:00:0a"
    assert admin.change("port", first["id"], mac_address="11:22:33:44:55:66")["mac_address"] == "11:22:33:44:55:66"
    admin.change("port", first["id"], mac_address="fa:16:3e:00:00:0a")
    body = {"port": {"network_id": network["id"], "mac_address": "fa:16:3e:00:00:0a"}}
    api.post("/ports", body).refused(409, "MacAddressInUse")
    api.port(api.network(), mac_address="fa:16:3e:00:00:0a")
    bulk = {"ports": [{"network_id": network["id"], "mac_address": "fa:16:3e:00:00:0b"}] * 2}
    api.post("/ports", bulk).expect(409)
    second = api.port(network)
    admin.put(f"/ports/{second['id']}", {"port": {"mac_address": first["mac_address"]}}).refused(409, "MacAddressInUse")
    api.put(f"/ports/{second['id']}", {"port": {"mac_address": "fa:16:3e:00:00:0c"}}).refused(403)
    assert admin.change("port", second["id"], mac_address="fa:16:3e:00:00:0c")["mac_address"].endswith("0c")


def test_slaac_addresses_follow_a_new_mac(api: Api, admin: Api) -> None:
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    api.subnet(network, "fd00:9::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    port = api.port(network)
    changed = admin.change("port", port["id"], mac_address=None)
    assert changed["mac_address"] != port["mac_address"]
    assert changed["mac_address"].startswith("fa:16:3e:")
    assert changed["fixed_ips"][0] == port["fixed_ips"][0]
    assert changed["fixed_ips"][1] != port["fixed_ips"][1]
    assert changed["fixed_ips"][1]["ip_address"].endswith(changed["mac_address"][-5:].replace(":", "").lstrip("0"))


def test_dns_names(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, dns_name="web", fixed_ips=[{"ip_address": "10.0.0.20"}])
    assert port["dns_assignment"] == [{"hostname": "web", "ip_address": "10.0.0.20", "fqdn": "web.example.org."}]
    changed = api.change("port", port["id"], dns_name="db")
    assert changed["dns_assignment"][0]["fqdn"] == "db.example.org."
    moved = api.change("port", port["id"], fixed_ips=[{"ip_address": "10.0.0.21"}])
    assert [n["ip_address"] for n in moved["dns_assignment"]] == ["10.0.0.21"]
    unnamed = api.port(network, fixed_ips=[{"ip_address": "10.0.0.22"}])
    assert unnamed["dns_assignment"][0]["hostname"] == "host-10-0-0-22"
    api.post("/ports", {"port": {"network_id": network["id"], "dns_name": "-no-"}}).expect(400)


def test_a_name_is_a_label_or_within_the_domain(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, fixed_ips=[{"ip_address": "10.0.0.20"}])
    for name in ("www.google.com.", "google.com", "web.db", "example.org.", "badexample.org.", "example.org.evil."):
        for call, path in ((api.post, "/ports"), (api.put, f"/ports/{port['id']}")):
            more = {"network_id": network["id"]} if call == api.post else {}
            refused = call(path, {"port": {"dns_name": name, **more}}).refused(400, "HTTPBadRequest")
            assert "dns_name" in refused.message
    assert api.show("port", port["id"])["dns_assignment"][0]["fqdn"] == "host-10-0-0-20.example.org."
    for name, label in (("WWW.Example.ORG.", "www"), ("a.b.example.org.", "a")):
        changed = api.change("port", port["id"], dns_name=name)
        assert changed["dns_assignment"] == [{"hostname": label, "ip_address": "10.0.0.20", "fqdn": name.lower()}]
    bulk = {"ports": [{"network_id": network["id"], "dns_name": name} for name in ("web", "www.google.com.")]}
    api.post("/ports", bulk).refused(400, "HTTPBadRequest")


def test_a_dns_name_from_before_the_rules_stays_within_the_domain(
    api: Api, server: Server, network: dict[str, Any]
) -> None:
    port = api.port(network, dns_name="www", fixed_ips=[{"ip_address": "10.0.0.20"}])
    with server.db.transaction() as tx:
        ports = t.ports.c
        tx.execute(sa.update(t.ports).where(ports.id == port["id"]).values(dns_name="www.google.com."))
    moved = api.change("port", port["id"], fixed_ips=[{"ip_address": "10.0.0.21"}])
    assert moved["dns_assignment"][0]["fqdn"] == "www.example.org."


@pytest.mark.every_database
def test_dhcp_options_are_merged(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": "1400"}])
    assert port["extra_dhcp_opts"] == [{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}]
    more = api.change("port", port["id"], extra_dhcp_opts=[{"opt_name": "tftp-server", "opt_value": "10.0.0.3"}])
    assert {o["opt_name"] for o in more["extra_dhcp_opts"]} == {"mtu", "tftp-server"}
    less = api.change("port", port["id"], extra_dhcp_opts=[{"opt_name": "mtu", "opt_value": None}])
    assert {o["opt_name"] for o in less["extra_dhcp_opts"]} == {"tftp-server"}
    six = api.change(
        "port", port["id"], extra_dhcp_opts=[{"opt_name": "tftp-server", "opt_value": "fd00::3", "ip_version": 6}]
    )
    assert len(six["extra_dhcp_opts"]) == 2
    assert api.show("port", port["id"])["extra_dhcp_opts"] == six["extra_dhcp_opts"]
    unknown = {"port": {"extra_dhcp_opts": [{"opt_name": "no-such-option", "opt_value": "1"}]}}
    assert "no-such-option" in api.put(f"/ports/{port['id']}", unknown).refused(400, "InvalidInput").message
    # One of before the check can be removed, whatever its name.
    api.change("port", port["id"], extra_dhcp_opts=[{"opt_name": "no-such-option", "opt_value": None}])


def test_address_pairs(api: Api, network: dict[str, Any]) -> None:
    port = api.port(network, allowed_address_pairs=[{"ip_address": "10.0.0.0/28"}])
    assert port["allowed_address_pairs"] == [{"mac_address": port["mac_address"], "ip_address": "10.0.0.0/28"}]
    path = f"/ports/{port['id']}"
    for pairs in (
        [{"mac_address": "fa:16:3e:00:00:01"}],
        [{"ip_address": "x"}],
        [{"ip_address": "10.0.0.1"}] * 2,
        [{"ip_address": f"10.0.0.{i}"} for i in range(11)],
    ):
        api.put(path, {"port": {"allowed_address_pairs": pairs}}).expect(400)
    pairs = [{"ip_address": "fd00::5", "mac_address": "fa:16:3e:00:00:01"}]
    assert api.change("port", port["id"], allowed_address_pairs=pairs)["allowed_address_pairs"] == pairs
    assert api.change("port", port["id"], allowed_address_pairs=[])["allowed_address_pairs"] == []


def test_port_security(api: Api, network: dict[str, Any]) -> None:
    default = api.all("/security-groups", {"name": "default", "project_id": api.project})[0]
    port = api.port(network)
    assert (port["port_security_enabled"], port["security_groups"]) == (True, [default["id"]])
    path = f"/ports/{port['id']}"
    api.put(path, {"port": {"port_security_enabled": False}}).refused(409, "PortSecurityPortHasSecurityGroup")
    bare = api.change("port", port["id"], port_security_enabled=False, security_groups=[])
    assert (bare["port_security_enabled"], bare["security_groups"]) == (False, [])
    api.put(path, {"port": {"security_groups": [default["id"]]}}).expect(400)
    api.put(path, {"port": {"allowed_address_pairs": [{"ip_address": "10.0.0.9"}]}}).expect(409)
    again = api.change("port", port["id"], port_security_enabled=True, security_groups=[default["id"]])
    assert again["security_groups"] == [default["id"]]
    open_network = api.network(port_security_enabled=False)
    free = api.port(open_network)
    assert (free["port_security_enabled"], free["security_groups"]) == (False, [])


@pytest.mark.every_database
def test_groups_of_a_port(api: Api, network: dict[str, Any]) -> None:
    one, two = api.make("security_group", name="one"), api.make("security_group", name="two")
    port = api.port(network, security_groups=[one["id"]])
    assert api.change("port", port["id"], security_groups=[two["id"]])["security_groups"] == [two["id"]]
    api.delete(f"/security-groups/{one['id']}").expect(204)
    api.delete(f"/security-groups/{two['id']}").refused(409, "SecurityGroupInUse")
    unknown = "00000000-0000-0000-0000-000000000000"
    api.put(f"/ports/{port['id']}", {"port": {"security_groups": [unknown]}}).refused(404, "SecurityGroupNotFound")
    theirs = api.as_stranger().make("security_group", name="theirs")
    api.put(f"/ports/{port['id']}", {"port": {"security_groups": [theirs["id"]]}}).refused(404)


def test_status(api: Api, admin: Api, network: dict[str, Any]) -> None:
    port = api.port(network, propagate_uplink_status=False)
    assert port["propagate_uplink_status"] is False
    assert port["ip_allocation"] == "immediate"
    assert admin.change("port", port["id"], data_plane_status="DOWN")["data_plane_status"] == "DOWN"
    assert admin.change("port", port["id"], data_plane_status=None)["data_plane_status"] is None
    api.put(f"/ports/{port['id']}", {"port": {"data_plane_status": "ACTIVE"}}).refused(403)


@pytest.mark.every_database
def test_tags_with_bulk_creation(api: Api, network: dict[str, Any]) -> None:
    bodies = [{"network_id": network["id"], "tags": ["red"]}, {"network_id": network["id"], "tags": ["blue", "red"]}]
    made = api.post("/ports", {"ports": bodies}).expect(201).body["ports"]
    assert [sorted(p["tags"]) for p in made] == [["red"], ["blue", "red"]]
    assert [p["id"] for p in api.all("/ports", {"tags": "blue"})] == [made[1]["id"]]


def test_invalid_ports_are_refused(api: Api, network: dict[str, Any]) -> None:
    for values in (
        {"network_id": "00000000-0000-0000-0000-000000000000"},
        {"network_id": network["id"], "fixed_ips": [{"subnet_id": "00000000-0000-0000-0000-000000000000"}]},
    ):
        api.post("/ports", {"port": values}).expect(404)
    for values in (
        {},
        {"network_id": "x"},
        {"network_id": network["id"], "mac_address": "x"},
        {"network_id": network["id"], "colour": "red"},
        {"network_id": network["id"], "status": "ACTIVE"},
    ):
        api.post("/ports", {"port": values}).expect(400)
    other = api.subnet(api.network(), "10.5.0.0/24")
    elsewhere = {"network_id": network["id"], "fixed_ips": [{"subnet_id": other["id"]}]}
    api.post("/ports", {"port": elsewhere}).expect(400)
    api.post("/ports", {"port": {"network_id": network["id"], "device_owner": "network:dhcp"}}).expect(201)
    port = api.port(network)
    api.put(f"/ports/{port['id']}", {"port": {"network_id": network["id"]}}).expect(400)
