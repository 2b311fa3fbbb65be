"""Consistency check of a database across tables, run after tests that could have broken it."""

from __future__ import annotations

import ipaddress
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.ipam.allocation import DHCP_OWNER, ROUTER_OWNERS
from neutrino.server.ipam.subnet_rules import is_auto_address
from neutrino.server.ml2.segments import DYNAMIC
from neutrino.server.quota.plugin import recount

GATEWAY = "network:router_gateway"


def check(db: Database) -> None:
    """Raise an AssertionError that names the inconsistency."""
    rows = _rows(db)
    _ports(rows)
    _networks(rows)
    _routers(rows)
    _delegations(rows)
    _floating_ips(rows)
    _policies(rows)
    _firewall_policies(rows)
    _trunks(rows)
    assert rows["journal"] == [], "operations were left unfinished"
    assert recount(db) == [], "quotas were miscounted"


def _rows(db: Database) -> dict[str, Sequence[RowMapping]]:
    """All rows by table, as the driver gives them: SQLAlchemy would compile a hundred statements for each new database."""
    with db.read() as connection:
        name = connection.dialect.identifier_preparer.format_table
        tables = t.metadata.tables.values()
        return {one.name: connection.exec_driver_sql(f"SELECT * FROM {name(one)}").mappings().all() for one in tables}


def _grouped(rows: Any, key: str, *names: str) -> dict[str, set[Any]]:
    out: dict[str, set[Any]] = defaultdict(set)
    for row in rows:
        out[row[key]].add(tuple(row[name] for name in names) if len(names) > 1 else row[names[0]])
    return out


def _ports(rows: Any) -> None:
    addresses = _grouped(rows["ip_allocations"], "port_id", "subnet_id", "ip_address")
    groups = _grouped(rows["port_security_groups"], "port_id", "security_group_id")
    hosts = _grouped([r for r in rows["port_bindings"] if r["status"] == "ACTIVE"], "port_id", "host")
    tags = _grouped(rows["tags"], "object_id", "tag")
    known = _grouped(rows["changes"], "object_id", "kind")
    for port in rows["ports"]:
        key = port["id"]
        shown = [(f["subnet_id"], f["ip_address"]) for f in json.loads(port["fixed_ips"])]
        assert set(shown) == addresses.pop(key, set()), f"port {key}: addresses"
        assert len(shown) == len(set(shown)), f"port {key}: an address twice"
        assert set(json.loads(port["security_groups"])) == groups.pop(key, set()), f"port {key}: groups"
        assert hosts.get(key, set()) == ({port["host"]} if port["host"] else set()), f"port {key}: binding"
        assert set(json.loads(port["tags"])) == tags.get(key, set()), f"port {key}: tags"
        assert "port" in known[key], f"port {key}: not in the change log"
    _slaac(rows)
    assert not addresses, "addresses of ports that do not exist"
    assert not groups, "groups of ports that do not exist"


def _slaac(rows: Any) -> None:
    """A guest forms an address on each SLAAC subnet of its network, so its port has one there."""
    allocated = _grouped(rows["ip_allocations"], "port_id", "subnet_id")
    # Those of segments and service types are for some ports only.
    everywhere = [s for s in rows["subnets"] if s["segment_id"] is None and json.loads(s["service_types"]) == []]
    slaac = _grouped([s for s in everywhere if is_auto_address(s)], "network_id", "id")
    for port in rows["ports"]:
        if port["ip_allocation"] == "immediate" and port["device_owner"] not in (*ROUTER_OWNERS, DHCP_OWNER):
            missing = slaac.get(port["network_id"], set()) - allocated.get(port["id"], set())
            assert not missing, f"port {port['id']}: no address on SLAAC subnets {missing}"


def _networks(rows: Any) -> None:
    subnets = _grouped(rows["subnets"], "network_id", "id")
    segments = _grouped(rows["network_segments"], "network_id", "identity")
    own = [row for row in rows["network_segments"] if row["position"] < DYNAMIC]
    numbers = _grouped(own, "network_id", "network_type", "physical_network", "segmentation_id")
    for network in rows["networks"]:
        key = network["id"]
        assert set(json.loads(network["subnets"])) == subnets.pop(key, set()), f"network {key}: subnets"
        assert segments.pop(key, None), f"network {key}: no segment"
        assert _shown_segments(network) == numbers.get(key, set()), f"network {key}: segments"
    assert not subnets, "subnets of networks that do not exist"
    assert not segments, "segments of networks that do not exist"


def _shown_segments(network: Any) -> set[Any]:
    """The segments as the network's row has them."""
    names = ("network_type", "physical_network", "segmentation_id")
    several = json.loads(network["segments"])
    shown = [{name: one[f"provider:{name}"] for name in names} for one in several] if several else [network]
    return {tuple(one[name] for name in names) for one in shown}


def _routers(rows: Any) -> None:
    ports = {port["id"]: port for port in rows["ports"]}
    types = {row["port_id"]: row for row in rows["router_ports"]}
    known = _grouped(rows["changes"], "object_id", "kind")
    helpers = _grouped(rows["conntrack_helpers"], "router_id", "protocol", "port", "helper")
    for router in rows["routers"]:
        key = router["id"]
        gateways = [p for p, row in types.items() if (row["router_id"], row["port_type"]) == (key, GATEWAY)]
        first, further = router["gw_port_id"], json.loads(router["extra_gw_port_ids"])
        assert sorted(gateways) == sorted([*([first] if first else []), *further]), f"router {key}: gateways"
        assert not further or first, f"router {key}: further gateways without a first one"
        assert (ports[first]["network_id"] if first else None) == router["gw_network_id"], f"router {key}: its network"
        shown = {(h["protocol"], h["port"], h["helper"]) for h in json.loads(router["conntrack_helpers"])}
        assert shown == helpers.get(key, set()), f"router {key}: conntrack helpers"
        assert "router" in known[key], f"router {key}: not in the change log"
    for port_id, row in types.items():
        assert ports[port_id]["device_id"] == row["router_id"], f"port {port_id} is of another router"


def _delegations(rows: Any) -> None:
    """A delegated prefix is routed by a router with a gateway, and all addresses of the subnet are in it."""
    with_gateway = {router["id"] for router in rows["routers"] if router["gw_network_id"]}
    routers = {row["port_id"]: row["router_id"] for row in rows["router_ports"]}
    delegated = {subnet["id"]: subnet for subnet in rows["subnets"] if subnet["prefix_delegated"]}
    gateways = set()
    for row in rows["ip_allocations"]:
        subnet = delegated.get(row["subnet_id"])
        if subnet is not None:
            inside = ipaddress.ip_address(row["ip_address"]) in ipaddress.ip_network(subnet["cidr"])
            assert inside, f"port {row['port_id']}: its address is not on the prefix of subnet {subnet['id']}"
            if row["ip_address"] == subnet["gateway_ip"] and routers.get(row["port_id"]) in with_gateway:
                gateways.add(subnet["id"])
    for key, subnet in delegated.items():
        assert subnet["cidr"] == "::/64" or key in gateways, f"subnet {key}: no router routes its prefix"


def _policies(rows: Any) -> None:
    """The rules of a QoS policy are the same in its row and in theirs."""
    parameters = ("max_kbps", "max_burst_kbps", "min_kbps", "max_kpps", "max_burst_kpps", "min_kpps", "dscp_mark")
    rules = {row["id"]: row for row in rows["qos_rules"]}
    defaults = {row["qos_policy_id"]: row["project_id"] for row in rows["default_qos_policies"]}
    for policy in rows["qos_policies"]:
        for shown in json.loads(policy["rules"]):
            row = rules.pop(shown["id"])
            assert row["qos_policy_id"] == policy["id"], f"rule {row['id']}: its policy"
            assert (row["type"], row["direction"]) == (shown["type"], shown.get("direction", "")), f"rule {row['id']}"
            assert [row[name] for name in parameters] == [shown.get(name) for name in parameters], f"rule {row['id']}"
        default_of = defaults.pop(policy["id"], None)
        assert default_of == (policy["project_id"] if policy["is_default"] else None), f"policy {policy['id']}: default"
    assert not rules, "rules that no policy shows"
    assert not defaults, "defaults that no policy shows"


def _floating_ips(rows: Any) -> None:
    ports = {port["id"]: port for port in rows["ports"]}
    forwarded = _grouped(rows["port_forwardings"], "floatingip_id", "id")
    for floating_ip in rows["floatingips"]:
        key, port = floating_ip["id"], ports.get(floating_ip["port_id"])
        outside = ports[floating_ip["floating_port_id"]]
        assert (outside["device_id"], outside["device_owner"]) == (key, "network:floatingip"), f"floating IP {key}"
        assert floating_ip["floating_ip_address"] in outside["fixed_ips"], f"floating IP {key}: its address"
        shown = {one["id"] for one in json.loads(floating_ip["port_forwardings"])}
        assert shown == forwarded.get(key, set()), f"floating IP {key}: port forwardings"
        assert bool(floating_ip["router_id"]) == bool(port or shown), f"floating IP {key}: router"
        assert port is None or floating_ip["fixed_ip_address"] in port["fixed_ips"], f"floating IP {key}: port"


def _firewall_policies(rows: Any) -> None:
    """The rules of a policy are in its row, to be shown, and in rows of their own, in the same order."""
    ordered = sorted(rows["firewall_policy_rules"], key=lambda row: row["position"])
    for policy in rows["firewall_policies"]:
        own = [row["firewall_rule_id"] for row in ordered if row["firewall_policy_id"] == policy["id"]]
        assert json.loads(policy["firewall_rules"]) == own, f"firewall policy {policy['id']}: rules"
    defaults = {row["id"] for row in rows["firewall_groups"] if row["is_default"]}
    listed = [row["firewall_group_id"] for row in rows["default_firewall_groups"]]
    assert sorted(defaults) == sorted(listed), "default firewall groups"


def _trunks(rows: Any) -> None:
    """Subports are bound where their parent is, and no port is parent and subport; a VLAN is given once by its key."""
    ports = {row["id"]: row for row in rows["ports"]}
    parents = {row["id"]: row["port_id"] for row in rows["trunks"]}
    members = {row["port_id"]: row["trunk_id"] for row in rows["trunk_subports"]}
    assert not {*parents.values()} & members.keys(), "a port is parent and subport"
    for key, trunk in members.items():
        assert ports[key]["host"] == ports[parents[trunk]]["host"], f"subport {key} is not where its parent is"
    left = [key for key, row in ports.items() if row["device_owner"] == "trunk:subport" and key not in members]
    assert left == [], "ports that were removed from a trunk are still marked as subports"
