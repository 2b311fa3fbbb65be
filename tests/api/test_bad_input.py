"""Malformed requests and their errors: status, type, and the name of what is wrong.

What is refused here on SQLite would, on a stricter database, be an error of the database: so every case runs on all.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from falcon import testing

from neutrino.server.main import Server
from tests.api.client import PREFIX, Api

JSON = {"Content-Type": "application/json"}
NOWHERE = "11111111-2222-3333-4444-555555555555"
BAD, INPUT = "HTTPBadRequest", "InvalidInput"


class Answer(NamedTuple):
    status: int
    error: str
    message: str
    headers: Mapping[str, str]
    body: Any


def send(
    server: Server,
    method: str,
    path: str,
    raw: bytes | str | None = None,
    headers: Mapping[str, str] | None = None,
    query: str = "",
) -> Answer:
    """A request in any form, as an administrator; the path is taken as it is."""
    headers = {**JSON, **(headers or {})}
    got = testing.simulate_request(
        server.app, method, path, body=raw, headers=headers, query_string=query, host="127.0.0.1"
    )
    body = json.loads(got.content) if got.content else None
    error = body.get("NeutronError", {}) if isinstance(body, dict) else {}
    return Answer(got.status_code, error.get("type", ""), error.get("message", ""), got.headers, body)


def post(server: Server, collection: str, name: str, values: Any) -> Answer:
    return send(server, "POST", f"{PREFIX}/{collection}", json.dumps({name: values}))


# --- bodies that are no request -----------------------------------------------------------------------------------

BODIES = {
    "nothing": (b"", "no body"),
    "half an object": (b'{"network"', "not JSON"),
    "not UTF-8": (b'{"network": {"name": "\xff"}}', "not JSON"),
    "half a character": (b'{"network": {"name": "\\ud800"}}', ""),
    "not a number": (b'{"network": {"mtu": NaN}}', "not JSON"),
    "too deep": (b"[" * 100_000, "not JSON"),
    "two documents": (b"{}{}", "not JSON"),
    "null": (b"null", "not a JSON object"),
    "a number": (b"7", "not a JSON object"),
    "a list": (b'[{"network": {}}]', "not a JSON object"),
    "a text": (b'"network"', "not a JSON object"),
    "no envelope": (b'{"name": "n"}', "'network'"),
    "another's envelope": (b'{"port": {}}', "'network'"),
    "null in the envelope": (b'{"network": null}', "'network'"),
    "a list in the envelope": (b'{"network": []}', "'network'"),
    "no list of several": (b'{"networks": {}}', "'networks'"),
    "a list of none": (b'{"networks": []}', "'networks'"),
    "a list with null": (b'{"networks": [null]}', "'network'"),
}


@pytest.mark.parametrize("raw, part", BODIES.values(), ids=BODIES.keys())
def test_a_body_that_is_no_request(server: Server, raw: bytes, part: str) -> None:
    answer = send(server, "POST", f"{PREFIX}/networks", raw)
    assert (answer.status, answer.error) == (400, BAD)
    assert part in answer.message


@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data", "json", ";"])
def test_a_body_of_another_type(server: Server, content_type: str) -> None:
    answer = send(server, "POST", f"{PREFIX}/networks", b'{"network": {}}', {"Content-Type": content_type})
    assert (answer.status, answer.error) == (415, "HTTPUnsupportedMediaType")


@pytest.mark.parametrize("content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_a_body_of_the_right_type(server: Server, content_type: str) -> None:
    answer = send(server, "POST", f"{PREFIX}/networks", b'{"network": {}}', {"Content-Type": content_type})
    assert answer.status == 201


def test_a_body_that_is_too_large(server: Server) -> None:
    raw = b'{"network": {"name": "' + b"a" * server.conf.oslo_middleware.max_request_body_size + b'"}}'
    answer = send(server, "POST", f"{PREFIX}/networks", raw)
    assert (answer.status, answer.error) == (413, "HTTPRequestEntityTooLarge")


# --- values ---------------------------------------------------------------------------------------------------------

LONG, NUL, HUGE = "a" * 256, "a\x00b", 2**31
VALUES: list[tuple[str, str, Any, str]] = [
    ("network", "name", 7, BAD),
    ("network", "name", None, BAD),
    ("network", "name", ["a"], BAD),
    ("network", "name", LONG, BAD),
    ("network", "name", NUL, BAD),
    ("network", "description", "é" * 256, BAD),
    ("network", "project_id", LONG, BAD),
    ("network", "project_id", NUL, BAD),
    ("network", "admin_state_up", "perhaps", INPUT),
    ("network", "admin_state_up", None, INPUT),
    ("network", "admin_state_up", {}, INPUT),
    ("network", "mtu", "many", INPUT),
    ("network", "mtu", 1.5, INPUT),
    ("network", "mtu", -1, BAD),
    ("network", "mtu", HUGE, BAD),
    ("network", "mtu", 10**30, ""),
    ("network", "dns_domain", "no dots.", BAD),
    ("network", "dns_domain", f"{'a' * 64}.", BAD),
    ("network", "dns_domain", "not-closed", BAD),
    ("network", "availability_zone_hints", "zone", BAD),
    ("network", "availability_zone_hints", [LONG], BAD),
    ("network", "provider:network_type", LONG, BAD),
    ("network", "provider:physical_network", "p" * 65, BAD),
    ("network", "provider:segmentation_id", HUGE, BAD),
    ("network", "segments", [], BAD),
    ("network", "segments", [{"colour": "red"}], BAD),
    ("network", "extra_dhcp_opts", [{"opt_name": "mtu"}], INPUT),
    ("network", "extra_dhcp_opts", [{"opt_name": "o" * 65, "opt_value": "1"}], INPUT),
    ("subnet", "network_id", "here", BAD),
    ("subnet", "network_id", None, BAD),
    ("subnet", "ip_version", 5, BAD),
    ("subnet", "ip_version", True, BAD),
    ("subnet", "cidr", "10.0.0.0", INPUT),
    ("subnet", "cidr", "10.0.0.0/33", INPUT),
    ("subnet", "cidr", "fe80::%eth0/64", INPUT),
    ("subnet", "gateway_ip", "10.0.0.256", BAD),
    ("subnet", "gateway_ip", f"fe80::1%{'z' * 300}", BAD),
    ("subnet", "allocation_pools", [{"start": "10.0.0.2"}], BAD),
    ("subnet", "allocation_pools", "10.0.0.2", INPUT),
    ("subnet", "allocation_pools", [{"start": "10.0.0.2", "end": "x"}], BAD),
    ("subnet", "dns_nameservers", ["ns.example.org"], BAD),
    ("subnet", "dns_nameservers", ["10.0.0.1", "10.0.0.1"], BAD),
    ("subnet", "host_routes", [{"destination": "10.0.0.0/8"}], BAD),
    ("subnet", "host_routes", [{"destination": "10.0.0.0/8", "nexthop": "x"}], BAD),
    ("subnet", "ipv6_ra_mode", "automatic", BAD),
    ("subnet", "prefixlen", 129, BAD),
    ("subnet", "service_types", "compute:a", BAD),
    ("subnet", "subnetpool_id", "the big one", BAD),
    ("port", "network_id", 5, BAD),
    ("port", "mac_address", "fa:16:3e", BAD),
    ("port", "mac_address", "ff:ff:ff:ff:ff:ff", BAD),
    ("port", "device_id", LONG, BAD),
    ("port", "device_owner", NUL, BAD),
    ("port", "fixed_ips", "10.0.0.5", BAD),
    ("port", "fixed_ips", [{"ip_address": "ten"}], BAD),
    ("port", "fixed_ips", [{"ip_address": "10.0.0.5"}, {"ip_address": "10.0.0.5"}], BAD),
    ("port", "security_groups", ["default"], BAD),
    ("port", "security_groups", [NOWHERE, NOWHERE], BAD),
    ("port", "allowed_address_pairs", [{"ip_address": "ten"}], BAD),
    ("port", "allowed_address_pairs", [{"ip_address": "10.0.0.5", "mac_address": "x"}], BAD),
    ("port", "extra_dhcp_opts", {"opt_name": "mtu"}, INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "no-such-option", "opt_value": "1"}], INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "tag:ipxe,no-such-option", "opt_value": "1", "ip_version": 6}], INPUT),
    ("network", "extra_dhcp_opts", [{"opt_name": "256", "opt_value": "1"}], INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "mtu", "opt_value": "1"}, {"opt_name": "mtu", "opt_value": "2"}], INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "mtu", "opt_value": "b\nc"}], INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "client-id", "opt_value": "\U0001f600" * 255}], INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "caf\u00e9", "opt_value": "b"}], INPUT),
    ("port", "extra_dhcp_opts", [{"opt_name": "mtu", "opt_value": "b\x7f"}], INPUT),
    ("network", "extra_dhcp_opts", [{"opt_name": "mtu", "opt_value": "\u2028b"}], INPUT),
    ("port", "binding:vnic_type", "abnormal", BAD),
    ("port", "binding:host_id", LONG, BAD),
    ("port", "binding:profile", "x", BAD),
    ("port", "binding:profile", {"a": "x" * 5000}, INPUT),
    ("port", "dns_name", "under_score", BAD),
    ("port", "dns_name", "a" * 64, BAD),
    ("port", "tags", ["a"] * 2, BAD),
    ("subnetpool", "name", "", BAD),
    ("subnetpool", "prefixes", "10.0.0.0/8", BAD),
    ("subnetpool", "prefixes", ["10.0.0.0/99"], BAD),
    ("subnetpool", "min_prefixlen", HUGE, BAD),
    ("subnetpool", "default_quota", -1, BAD),
    ("address_scope", "ip_version", "v4", BAD),
    ("address_group", "addresses", ["ten"], BAD),
    ("security_group", "stateful", "sometimes", INPUT),
    ("security_group_rule", "direction", "sideways", BAD),
    ("security_group_rule", "security_group_id", "g" * 37, BAD),
    ("security_group_rule", "description", LONG, BAD),
    ("rbac_policy", "object_type", "weather", INPUT),
    ("rbac_policy", "object_id", "it", BAD),
    ("rbac_policy", "target_tenant", "", BAD),
    ("rbac_policy", "target_tenant", NUL, BAD),
    ("rbac_policy", "target_tenant", LONG, BAD),
]
REQUIRED: dict[str, dict[str, Any]] = {
    "network": {},
    "subnet": {"network_id": NOWHERE, "ip_version": 4},
    "port": {"network_id": NOWHERE},
    "subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"]},
    "address_scope": {"ip_version": 4},
    "address_group": {},
    "security_group": {},
    "security_group_rule": {"security_group_id": NOWHERE, "direction": "ingress"},
    "rbac_policy": {
        "object_type": "network",
        "object_id": NOWHERE,
        "action": "access_as_shared",
        "target_tenant": "*",
    },
}
COLLECTIONS = {name: f"{name}s".replace("_", "-") for name in REQUIRED} | {"rbac_policy": "rbac-policies"}


@pytest.mark.parametrize(
    "name, attribute, value, error", VALUES, ids=lambda v: str(v)[:30] if isinstance(v, str) else ""
)
def test_a_value_that_the_attribute_does_not_take(
    server: Server, name: str, attribute: str, value: Any, error: str
) -> None:
    """The attribute is named, in a create and, where it can be changed, in an update: before anything is looked up."""
    answer = post(server, COLLECTIONS[name], name, {**REQUIRED[name], attribute: value})
    assert answer.status == 400, answer
    assert not error or answer.error == error
    assert f"Invalid input for {attribute}" in answer.message
    assert len(answer.message) < 1500
    changed = send(server, "PUT", f"{PREFIX}/{COLLECTIONS[name]}/{NOWHERE}", json.dumps({name: {attribute: value}}))
    assert changed.status == 400
    assert attribute in changed.message


# Some attributes have refusals of their own, which name the value instead.
OWN: list[tuple[str, dict[str, Any], str]] = [
    ("security_group_rule", {"protocol": "pigeon"}, "SecurityGroupRuleInvalidProtocol"),
    ("security_group_rule", {"protocol": 256}, "SecurityGroupRuleInvalidProtocol"),
    ("security_group_rule", {"protocol": []}, "SecurityGroupRuleInvalidProtocol"),
    ("security_group_rule", {"ethertype": "IPv5"}, "SecurityGroupRuleInvalidEtherType"),
    ("security_group_rule", {"port_range_min": 65536}, "SecurityGroupInvalidPortValue"),
    ("security_group_rule", {"port_range_max": "many"}, "SecurityGroupInvalidPortValue"),
    ("security_group_rule", {"remote_ip_prefix": "ten"}, "InvalidCIDR"),
    ("security_group_rule", {"remote_ip_prefix": "fe80::1%eth0"}, "InvalidCIDR"),
    ("port", {"allowed_address_pairs": [{"mac_address": "fa:16:3e:00:00:01"}]}, "AllowedAddressPairsMissingIP"),
    ("port", {"allowed_address_pairs": [{"ip_address": "10.0.0.1"}] * 2}, "DuplicateAddressPairInRequest"),
    ("subnet", {"service_types": ["kitchen"]}, "InvalidSubnetServiceType"),
    ("subnet", {"service_types": [7]}, "InvalidInputSubnetServiceType"),
    ("network", {"segments": [{"provider:network_type": "vxlan"}] * 2}, "SegmentsContainDuplicateEntry"),
]


@pytest.mark.parametrize("name, values, error", OWN)
def test_a_value_with_a_refusal_of_its_own(server: Server, name: str, values: dict[str, Any], error: str) -> None:
    answer = post(server, COLLECTIONS[name], name, {**REQUIRED[name], **values})
    assert (answer.status, answer.error) == (400, error)


@pytest.mark.parametrize("name", [name for name, values in REQUIRED.items() if values])
def test_a_required_attribute_that_is_missing(server: Server, name: str) -> None:
    for missing in REQUIRED[name]:
        values = {k: v for k, v in REQUIRED[name].items() if k != missing}
        answer = post(server, COLLECTIONS[name], name, values)
        assert (answer.status, answer.error) == (400, BAD)
        assert missing in answer.message


@pytest.mark.parametrize("name", REQUIRED)
def test_an_attribute_that_there_is_not(server: Server, name: str) -> None:
    answer = post(server, COLLECTIONS[name], name, {**REQUIRED[name], "colour": "red"})
    assert (answer.status, answer.error) == (400, BAD)
    assert "'colour'" in answer.message


@pytest.mark.parametrize("name", REQUIRED)
def test_an_attribute_that_is_only_read(server: Server, name: str) -> None:
    raw = json.dumps({name: {"id": str(uuid.uuid4())}})
    created = post(server, COLLECTIONS[name], name, {**REQUIRED[name], "id": str(uuid.uuid4())})
    changed = send(server, "PUT", f"{PREFIX}/{COLLECTIONS[name]}/{NOWHERE}", raw)
    for answer, verb in ((created, "POST"), (changed, "PUT")):
        assert (answer.status, answer.error) == (400, BAD)
        assert "'id'" in answer.message
        assert verb in answer.message


def test_an_attribute_that_cannot_be_changed(server: Server) -> None:
    raw = json.dumps({"subnet": {"cidr": "10.0.0.0/24"}})
    answer = send(server, "PUT", f"{PREFIX}/subnets/{NOWHERE}", raw)
    assert (answer.status, answer.error) == (400, BAD)
    assert "'cidr'" in answer.message
    assert "PUT" in answer.message


def test_two_names_of_one_attribute_that_differ(server: Server) -> None:
    answer = post(server, "networks", "network", {"tenant_id": "a", "project_id": "b"})
    assert answer.status == 400
    assert "project_id" in answer.message


def test_a_project_may_not_be_named_by_those_who_are_not_of_it(api: Api) -> None:
    refused = api.post("/networks", {"network": {"project_id": "another"}}).refused(400, BAD)
    assert "project_id" in refused.message


def test_two_networks_of_one_request_that_want_one_segment(admin: Api) -> None:
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 150}
    admin.post("/networks", {"networks": [vlan, vlan]}).refused(409, "VlanIdInUse")
    assert admin.get("/networks", {"provider:segmentation_id": 150}).body == {"networks": []}


def test_many_networks_of_one_request_in_a_narrow_range(admin: Api) -> None:
    """physnet2 has ten VLANs: guesses that meet are no reason to fail."""
    vlan = {"provider:network_type": "vlan", "provider:physical_network": "physnet2"}
    made = admin.post("/networks", {"networks": [vlan] * 10}).expect(201).body["networks"]
    assert {network["provider:segmentation_id"] for network in made} == set(range(1, 11))
    admin.post("/networks", {"network": vlan}).refused(409, "NoNetworkAvailable")


@pytest.mark.parametrize("name", [" leading", "trailing ", "line\nbreak", "\u00a0", "zero\u200bwidth", "\u2028"])
def test_a_name_has_printable_characters_and_no_space_at_its_ends(api: Api, name: str) -> None:
    """As in Neutron, for every resource whose names it restricts."""
    api.post("/networks", {"network": {"name": name}}).refused(400, "HTTPBadRequest")
    api.post("/security-groups", {"security_group": {"name": name}}).refused(400, "HTTPBadRequest")
    network = api.network(name="inner space")
    api.put(f"/networks/{network['id']}", {"network": {"name": name}}).refused(400, "HTTPBadRequest")
    port = api.port(network)["id"]
    api.post("/taas/tap_services", {"tap_service": {"name": name, "port_id": port}}).refused(400, "HTTPBadRequest")
    assert api.all("/networks", {"name": name}) == []  # a filter may be any text
