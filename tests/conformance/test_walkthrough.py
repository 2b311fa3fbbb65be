"""A network, a subnet and a port with minimal attributes, on a cloud whose tenant networks are VLANs.

The requests are those of the command-line client; the answers hold every field that its users have always seen.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.server import PROJECT, LiveServer

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MAC = re.compile(r"fa:16:3e(:[0-9a-f]{2}){3}")
HOST = re.compile(r"192\.168\.0\.(?!1$)\d+")
VLANS = range(1000, 4001)

# A value, or its format.
NETWORK: dict[str, Any] = {
    "status": "ACTIVE",
    "subnets": [],
    "name": "xxx",
    "provider:physical_network": "physnet1",
    "admin_state_up": True,
    "tenant_id": PROJECT,
    "provider:network_type": "vlan",
    "router:external": False,
    "shared": False,
    "port_security_enabled": True,
    "id": UUID,
    "provider:segmentation_id": VLANS,
    "extra_dhcp_opts": [],
}
SUBNET: dict[str, Any] = {
    "name": "",
    "enable_dhcp": True,
    "network_id": UUID,
    "tenant_id": PROJECT,
    "dns_nameservers": [],
    "gateway_ip": "192.168.0.1",
    "ipv6_ra_mode": None,
    "allocation_pools": [{"start": "192.168.0.2", "end": "192.168.0.254"}],
    "host_routes": [],
    "ip_version": 4,
    "ipv6_address_mode": None,
    "cidr": "192.168.0.0/24",
    "id": UUID,
}
PORT: dict[str, Any] = {
    "status": "DOWN",
    "binding:host_id": "",
    "allowed_address_pairs": [],
    "device_owner": "",
    "binding:profile": {},
    "port_security_enabled": True,
    "fixed_ips": [{"subnet_id": UUID, "ip_address": HOST}],
    "id": UUID,
    "security_groups": [UUID],
    "device_id": "",
    "name": "",
    "admin_state_up": True,
    "network_id": UUID,
    "tenant_id": PROJECT,
    "binding:vif_details": {},
    "binding:vnic_type": "normal",
    "binding:vif_type": "unbound",
    "mac_address": MAC,
}
NAMED_SUBNET: dict[str, Any] = {
    **SUBNET,
    "name": "external_om",
    "gateway_ip": "4.13.53.1",
    "allocation_pools": [{"start": "4.13.53.2", "end": "4.13.53.30"}],
    "cidr": "4.13.53.0/24",
}


def matches(want: Any, got: Any) -> bool:
    if isinstance(want, re.Pattern):
        return isinstance(got, str) and want.fullmatch(got) is not None
    if isinstance(want, range):
        return type(got) is int and got in want
    if isinstance(want, dict) and want:
        return isinstance(got, dict) and all(name in got and matches(value, got[name]) for name, value in want.items())
    if isinstance(want, list) and want:
        pairs = zip(want, got, strict=False)
        return isinstance(got, list) and len(want) == len(got) and all(matches(a, b) for a, b in pairs)
    return type(want) is type(got) and want == got


def unlike(want: dict[str, Any], got: dict[str, Any]) -> dict[str, Any]:
    """The fields that are missing or differ, with their values."""
    return {k: got.get(k, "missing") for k, v in want.items() if k not in got or not matches(v, got[k])}


@pytest.fixture(scope="module")
def network(server: LiveServer) -> dict[str, Any]:
    body = {"network": {"name": "xxx", "admin_state_up": True}}
    made: dict[str, Any] = server.ask("POST", "/v2.0/networks.json", body)["network"]
    return made


@pytest.fixture(scope="module")
def subnet(server: LiveServer, network: dict[str, Any]) -> dict[str, Any]:
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "cidr": "192.168.0.1/24"}}
    made: dict[str, Any] = server.ask("POST", "/v2.0/subnets.json", body)["subnet"]
    return made


@pytest.fixture(scope="module")
def port(server: LiveServer, network: dict[str, Any], subnet: dict[str, Any]) -> dict[str, Any]:
    body = {"port": {"network_id": network["id"], "admin_state_up": True}}
    made: dict[str, Any] = server.ask("POST", "/v2.0/ports.json", body)["port"]
    return made


def test_a_network(network: dict[str, Any]) -> None:
    assert unlike(NETWORK, network) == {}


def test_a_subnet(network: dict[str, Any], subnet: dict[str, Any]) -> None:
    assert unlike({**SUBNET, "network_id": network["id"]}, subnet) == {}


def test_a_port(network: dict[str, Any], subnet: dict[str, Any], port: dict[str, Any]) -> None:
    assert unlike({**PORT, "network_id": network["id"]}, port) == {}
    assert port["fixed_ips"][0]["subnet_id"] == subnet["id"]


def test_what_was_made_is_shown_and_listed_alike(
    server: LiveServer, network: dict[str, Any], subnet: dict[str, Any], port: dict[str, Any]
) -> None:
    with_subnet = {**NETWORK, "subnets": [subnet["id"]]}
    for path, name, made, want in (
        ("networks", "network", network, with_subnet),
        ("subnets", "subnet", subnet, SUBNET),
        ("ports", "port", port, PORT),
    ):
        shown = server.ask("GET", f"/v2.0/{path}/{made['id']}.json")[name]
        assert unlike(want, shown) == {}
        assert server.ask("GET", f"/v2.0/{path}.json?id={made['id']}")[path] == [shown]


def test_a_network_by_its_vlan_with_a_subnet_of_few_addresses(server: LiveServer) -> None:
    values = {
        "name": "external_om",
        "provider:network_type": "vlan",
        "provider:physical_network": "physnet1",
        "provider:segmentation_id": 1353,
    }
    network = server.ask("POST", "/v2.0/networks.json", {"network": values})["network"]
    assert unlike({**NETWORK, **values}, network) == {}
    body = {
        "network_id": network["id"],
        "name": "external_om",
        "ip_version": 4,
        "cidr": "4.13.53.0/24",
        "allocation_pools": [{"start": "4.13.53.2", "end": "4.13.53.30"}],
    }
    subnet = server.ask("POST", "/v2.0/subnets.json", {"subnet": body})["subnet"]
    assert unlike({**NAMED_SUBNET, "network_id": network["id"]}, subnet) == {}


def test_dhcp_options_of_a_network(server: LiveServer) -> None:
    options = [{"opt_name": "ntp-server", "opt_value": "192.0.2.1", "ip_version": 4}]
    body: dict[str, Any]
    body = {"network": {"name": "options", "extra_dhcp_opts": [{"opt_name": "ntp-server", "opt_value": "192.0.2.1"}]}}
    network = server.ask("POST", "/v2.0/networks.json", body)["network"]
    assert network["extra_dhcp_opts"] == options
    path = f"/v2.0/networks/{network['id']}.json"
    changed = [{"opt_name": "mtu", "opt_value": "1400", "ip_version": 4}]
    for body, want in (
        ({"network": {"name": "same options"}}, options),
        ({"network": {"extra_dhcp_opts": changed}}, changed),
        ({"network": {"extra_dhcp_opts": []}}, []),
    ):
        shown = server.ask("PUT", path, body)["network"]["extra_dhcp_opts"]
        assert shown == want == server.ask("GET", path)["network"]["extra_dhcp_opts"]


def test_dhcp_options_that_are_none_are_refused(server: LiveServer) -> None:
    for options in ("x", [{"opt_name": "mtu"}], [{"opt_name": "", "opt_value": "1"}]):
        status, answer = server.exchange("POST", "/v2.0/networks", {"network": {"extra_dhcp_opts": options}})
        assert status == 400
        assert "extra_dhcp_opts" in answer["NeutronError"]["message"]


@pytest.mark.parametrize(
    ("want", "got", "alike"),
    [
        (True, 1, False),
        (0, False, False),
        ({}, {}, True),
        ({}, {"a": 1}, False),
        ([], [1], False),
        ([UUID], [], False),
        ({"a": 1}, {"a": 1, "b": 2}, True),
        (VLANS, "1000", False),
        (HOST, "192.168.0.1", False),
        (HOST, "192.168.0.10", True),
    ],
)
def test_values_are_compared_with_their_types(want: Any, got: Any, alike: bool) -> None:
    assert matches(want, got) is alike
