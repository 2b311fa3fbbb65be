"""Every resource with ordinary values; every attribute, filter and path with odd ones: accepted or refused, never a 5xx.

What one database stores without a word is an error of the next (a character that it has no room for, a number beyond its
integers, a text longer than the column), so such values are tried on all of them; what the code alone judges, on SQLite.
"""

from __future__ import annotations

import itertools
import json
import operator
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest

from neutrino.server.api.definition import Resource
from neutrino.server.api.types import Anything, Type
from neutrino.server.errors import ApiError
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import ADMIN, Api, Response
from tests.api.ndp import scoped
from tests.support.resources import RESOURCES

pytestmark = pytest.mark.slow
# In these databases differ: the sizes of numbers and texts, characters, quotes; alone, in lists and in objects.
DIFFERENT: list[Any] = [
    *(None, 2**31 - 1, 2**31, 2**63, 10**30, 1e308),
    *("", "a" * 255, "a" * 256, "a" * 70_000, "😀" * 255, "\x00", "a\x00b", "\ud800", "%", "'", "\\"),
    *(["a\x00"], ["\ud800"], ["a" * 256], [2**70], {"a\x00": "\x00"}, {"a": "x" * 70_000}),
    *(["compute:a\x00"], ["compute:" + "a" * 300]),
    [{"ip_address": "fe80::1%e", "subnet_id": "\x00"}],
    [{"opt_name": "a\x00", "opt_value": "b"}],
    [{"opt_name": "😀" * 64, "opt_value": None, "ip_version": "6"}],
    [{"provider:network_type": "vlan", "provider:physical_network": "physnet1", "provider:segmentation_id": 2**31}],
    [{"provider:network_type": "flat", "provider:physical_network": "p" * 64}, {"provider:network_type": "vxlan"}],
    [{"provider:network_type": "a\x00"}, {}],
]
ODD: list[Any] = [
    *DIFFERENT,
    *(True, 0, -1, 1.5, " ", "a", "a\nb", "٣", "1e5", "*", "default", str(uuid.uuid4()), uuid.uuid4().hex),
    *("0.0.0.0/0", "::/0", "10.0.0.1", "2001:db8::1", "fe80::1%eth0", "fe80::1%" + "z" * 300, "10.0.0.1/0.0.0.0"),
    *([], [None], [[]], [{}], ["a", "a"], [str(uuid.uuid4())], {}, {"": None}, {"a": {"b": [{}]}}),
    *(["::/0"], ["10.0.0.0/8"]),
    [{"ip_address": "0.0.0.0"}],
    [{"ip_address": "10.0.0.0/8", "mac_address": "fa:16:3e:00:00:02"}],
    [{"start": "::1", "end": "10.0.0.2"}],
    [{"start": "255.255.255.255", "end": "0.0.0.0"}],
    [{"destination": "::/0", "nexthop": "10.0.0.1"}],
]
PAGING = ("fields", "limit", "marker", "sort_key", "sort_dir", "changed_since")
HOST = "odd-host"
SERVICE = f"{ADMIN},service"
WRITTEN = [r for r in RESOURCES if any(a.post for a in r.attributes)]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def ids() -> dict[str, str]:
    return {}


@pytest.fixture(scope="module")
def odd(database: str) -> Odd:
    return Odd(database)


@dataclass(frozen=True)
class Odd:
    """The values that are tried on a database: all on SQLite, on the others those that are theirs to judge.

    What a type refuses reaches no database, and the refusal depends on the type alone: SQLite's server is asked once for
    each type, whichever resource has the first attribute of that type.
    """

    database: str
    seen: set[tuple[str, str, str]] = field(default_factory=set)

    def values(self, use: str, type_: Type[object]) -> list[Any]:
        """Those for an attribute, in a request of this method or in a filter."""
        if self.database != "sqlite":
            return [value for value in DIFFERENT if not refused(type_, value)]
        return [value for value in ODD if not refused(type_, value) or self.is_first(use, type_, value)]

    def words(self, use: str, type_: Type[object]) -> list[str]:
        return texts(self.values(use, type_))

    def is_first(self, use: str, type_: Type[object], value: object = None) -> bool:
        """Whether the value is tried for the first time with a type that has these settings."""
        key = (use, repr(type_), json.dumps(value))
        first = key not in self.seen
        self.seen.add(key)
        return first

    def keys(self) -> list[str]:
        """Those in the place of a key in a path."""
        return texts(ODD if self.database == "sqlite" else DIFFERENT)

    def together(self, caller: Api, path: str, queries: list[str]) -> bool:
        """Whether all values of a filter are taken in one query: then there is no need to try each alone."""
        status = caller.get(f"{path}?{'&'.join(queries)}").status
        assert status < 500, queries
        return status == 200

    def methods(self) -> tuple[str, ...]:
        return ("GET", "PUT", "POST", "DELETE", "PATCH", "HEAD") if self.database == "sqlite" else ("GET", "PUT")


def refused(type_: Type[object], value: Any) -> bool:
    try:
        type_.parse(value)
    except (ValueError, ApiError):
        return True
    return False


def texts(odd: list[Any]) -> list[str]:
    return [value for value in odd if isinstance(value, str) and value]


@pytest.fixture
def caller(server: Server, admin: Api, ids: dict[str, str]) -> Api:
    """One project for all of it, without limits, with a network, a port and a group to refer to."""
    one = Api(admin.app, project="odd", roles=SERVICE)
    names = [
        "network",
        "subnet",
        "port",
        "security_group",
        "security_group_rule",
        "rbac_policy",
        "subnetpool",
        "router",
        "floatingip",
    ]
    one.put("/quotas/odd", {"quota": dict.fromkeys(names, -1)}).expect(200)
    switch(server, HOST)  # each time: an agent that has not reported for a minute is dead
    if "network" not in ids or one.get(f"/ports/{ids['port']}").status != 200:
        network = one.network()
        one.subnet(network, "192.168.0.0/24")
        port = one.port(network, device_owner="compute:a", device_id="a")
        ids |= {"network": network["id"], "port": port["id"], "group": one.make("security_group")["id"]}
        ids |= {"address": port["fixed_ips"][0]["ip_address"], **routed(one, network)}
    return one


def routed(one: Api, network: dict[str, Any]) -> dict[str, str]:
    """A router from the network to an external one, and a floating IP there; a flavor and a profile of service."""
    outside = one.network(router__external=True)
    one.subnet(outside, "172.16.0.0/16", enable_dhcp=False)
    router = one.make("router", external_gateway_info={"network_id": outside["id"]})
    subnet = network_subnet(one, network)
    one.put(f"/routers/{router['id']}/add_router_interface", {"subnet_id": subnet}).expect(200)
    return {
        "outside": outside["id"],
        "router": router["id"],
        "floatingip": one.make("floatingip", floating_network_id=outside["id"])["id"],
        "flavor": one.make("flavor", service_type="L3_ROUTER_NAT")["id"],
        "service_profile": one.make("service_profile", metainfo="{}")["id"],
        "policy": one.make("policy")["id"],
        "label": one.make("metering_label")["id"],
        **proxying(one),
        "vpnservice_id": one.make("vpnservice", router_id=router["id"], subnet_id=subnet)["id"],
        "ikepolicy_id": one.make("ikepolicy")["id"],
        "ipsecpolicy_id": one.make("ipsecpolicy")["id"],
        "local_ip": one.make("local_ip", network_id=network["id"])["id"],
        "tap_service": one.make("tap_service", port_id=one.port(network)["id"])["id"],
    }


def proxying(one: Api) -> dict[str, str]:
    """A router that may have NDP proxies, and a port behind it."""
    made = scoped(one)
    return {"ndp_router": made.router["id"], "ndp_port": one.port(made.network)["id"]}


def network_subnet(one: Api, network: dict[str, Any]) -> str:
    subnet: str = one.show("network", network["id"])["subnets"][0]
    return subnet


def sensible(resource: Resource, ids: dict[str, str]) -> dict[str, Any]:
    """A request that would be taken; its numbers are new each time."""
    n = next(_numbers)
    cidr = f"10.{n // 250 % 250}.{n % 250}.0/24"
    values: dict[str, dict[str, Any]] = {
        "subnet": {"network_id": ids["network"], "ip_version": 4, "cidr": cidr},
        "port": {"network_id": ids["network"]},
        "segment": {"network_id": ids["network"], "network_type": "vxlan"},
        "network_segment_range": {"network_type": "vxlan", "minimum": 1_000_000 + n, "maximum": 1_000_000 + n},
        "subnetpool": {"name": "p", "prefixes": [cidr]},
        "address_scope": {"ip_version": 4},
        "security_group_rule": {"security_group_id": ids["group"], "direction": "ingress", "description": str(n)},
        "default_security_group_rule": {
            "direction": "ingress",
            "protocol": "tcp",
            "port_range_min": n,
            "port_range_max": n,
            "used_in_default_sg": False,
            "used_in_non_default_sg": False,
        },
        "rbac_policy": {
            "object_type": "network",
            "object_id": ids["network"],
            "action": "access_as_shared",
            "target_tenant": str(n),
        },
        "binding": {"host": HOST},
        "floatingip": {"floating_network_id": ids["outside"]},
        "port_forwarding": {
            "internal_port_id": ids["port"],
            "internal_ip_address": ids["address"],
            "internal_port": n,
            "external_port": n,
            "protocol": "tcp",
        },
        "local_ip": {"network_id": ids["network"]},
        "port_association": {"fixed_port_id": ids["port"]},
        "tap_service": {"port_id": ids["port"]},
        "tap_flow": {"tap_service_id": ids["tap_service"], "source_port": ids["port"], "direction": "IN"},
        "tap_mirror": {
            "port_id": ids["port"],
            "directions": {"IN": n},
            "remote_ip": "192.0.2.9",
            "mirror_type": "gre",
        },
        "log": {"resource_type": "security_group"},
        "conntrack_helper": {"protocol": "udp", "port": n, "helper": "tftp"},
        "metering_label_rule": {
            "metering_label_id": ids["label"],
            "direction": "ingress",
            "source_ip_prefix": cidr,
        },
        "bgp_speaker": {"local_as": n, "ip_version": 4},
        "bgp_peer": {"peer_ip": ids["address"], "remote_as": n, "auth_type": "none"},
        "vpnservice": {"router_id": ids["router"]},
        "endpoint_group": {"type": "cidr", "endpoints": [cidr]},
        "ipsec_site_connection": {
            **{name: ids[name] for name in ("vpnservice_id", "ikepolicy_id", "ipsecpolicy_id")},
            "peer_address": "192.0.2.9",
            "peer_id": "peer",
            "peer_cidrs": [cidr],
            "psk": "key",
        },
        "ndp_proxy": {"router_id": ids["ndp_router"], "port_id": ids["ndp_port"]},
        "flavor": {"service_type": "L3_ROUTER_NAT"},
        "service_profile": {"id": ids["service_profile"]} if resource.parent else {"metainfo": "{}"},
        "bandwidth_limit_rule": {"max_kbps": 1000},
        "dscp_marking_rule": {"dscp_mark": 26},
        "minimum_bandwidth_rule": {"min_kbps": 1000},
        "packet_rate_limit_rule": {"max_kpps": 10},
        "minimum_packet_rate_rule": {"min_kpps": 10},
        "trunk": {"port_id": ids["port"]},
        "trace": {"source_port_id": ids["port"], "destination_address": "10.0.0.1"},
    }
    return values.get(resource.name, {})


def path_of(resource: Resource, ids: dict[str, str]) -> str:
    return "/" + resource.url.format(parent=ids[resource.parent.name] if resource.parent else "")


def escaped(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def fails(resource: Resource, caller: Api, ids: dict[str, str], odd: Odd) -> Iterator[str]:
    """Create with each attribute odd, then change one object so; what was made is taken away again."""
    path = path_of(resource, ids)
    for attribute, value in [(a, value) for a in resource.attributes if a.post for value in odd.values("POST", a.type)]:
        made = caller.post(path, {resource.name: {**sensible(resource, ids), attribute.name: value}})
        if made.status >= 500:
            yield f"POST {path} {attribute.name}={json.dumps(value)[:80]}: {made.status}"
        elif made.status == 201 and "delete" in resource.verbs:
            gone = removed(resource, caller, f"{path}/{escaped(made.body[resource.name][resource.key])}")
            if gone.status >= 500:
                yield f"DELETE after {attribute.name}={json.dumps(value)[:80]}: {gone.status}"
    first = caller.post(path, {resource.name: sensible(resource, ids)})
    first.expect(201)
    if "update" not in resource.verbs:
        return
    member = f"{path}/{first.body[resource.name][resource.key]}"
    for attribute, value in [(a, value) for a in resource.attributes if a.put for value in odd.values("PUT", a.type)]:
        changed = caller.put(member, {resource.name: {attribute.name: value}})
        shown = caller.get(member) if changed.status == 200 else changed
        if max(changed.status, shown.status) >= 500:
            yield f"PUT {path} {attribute.name}={json.dumps(value)[:80]}: {changed.status}, {shown.status}"
    removed(resource, caller, member)


def removed(resource: Resource, caller: Api, member: str) -> Response:
    """The answer to the deletion of an object. A trunk that is disabled is enabled first."""
    if resource.name == "trunk":
        caller.put(member, {"trunk": {"admin_state_up": True}})
    return caller.delete(member)


@pytest.mark.parametrize("resource", [r for r in WRITTEN if r.name != "trace"], ids=lambda r: r.name)  # never stored
def test_ordinary_values(resource: Resource, caller: Api, ids: dict[str, str]) -> None:
    """Each table is written and read on each database: an object is created, changed, shown, listed and deleted."""
    path, values = path_of(resource, ids), sensible(resource, ids)
    key = caller.post(path, {resource.name: values}).expect(201).body[resource.name][resource.key]
    member = f"{path}/{key}"
    names = [a.name for a in resource.attributes if a.put and a.name in ("name", "description")]
    if "update" in resource.verbs and names and resource.name != "security_group_rule":  # these refuse every change
        texts = dict.fromkeys(names, "ü 😀")
        caller.put(member, {resource.name: texts}).expect(200)
        values |= texts
    if "show" in resource.verbs:
        shown = caller.get(member).expect(200).body[resource.name]
        assert {name: shown[name] for name in values if name in shown} == {n: values[n] for n in values if n in shown}
    if "index" in resource.verbs:
        assert key in [one[resource.key] for one in caller.get(path).expect(200).body[resource.collection]]
    if "delete" in resource.verbs:
        assert removed(resource, caller, member).status == 204
        if "show" in resource.verbs:
            caller.get(member).expect(404)


@pytest.mark.parametrize("resource", WRITTEN, ids=lambda r: r.name)
def test_attributes(resource: Resource, caller: Api, ids: dict[str, str], odd: Odd) -> None:
    assert list(fails(resource, caller, ids, odd)) == []
    assert caller.get(path_of(resource, ids)).status == (200 if "index" in resource.verbs else 405)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.name)
def test_queries(resource: Resource, caller: Api, ids: dict[str, str], odd: Odd) -> None:
    path = path_of(resource, ids)
    filters = {a.name: a.filter_as or a.type for a in resource.attributes if a.filter}
    filters |= dict.fromkeys(resource.tag_filters, Anything())
    failed = []
    many = ["&".join(f"{{}}={i}" for i in range(900)), "{}=" + ",".join(map(str, range(1200)))]
    for number, (name, type_) in enumerate({**filters, **dict.fromkeys(PAGING, Anything())}.items()):
        values = ["", *odd.words("filter", type_), *map(str, [True, -1, 2**31, 10**30])]
        queries = [f"{escaped(name)}={escaped(value)}" for value in values]
        if name in PAGING:  # read by the same code for all resources
            queries = [query for query in queries if query == queries[0] or odd.is_first(query, type_)]
        else:
            judged = [refused(type_, value) for value in values]
            if odd.together(caller, path, [*itertools.compress(queries, map(operator.not_, judged))]):
                queries = [*itertools.compress(queries, judged)]
        if number == 0 or (odd.database == "sqlite" and odd.is_first("many", type_)):
            queries += [text.replace("{}", escaped(name)) for text in many]
        queries += [f"limit=2&sort_key={escaped(name)}&sort_dir=desc&marker={ids['network']}&page_reverse=true"]
        failed += [query[:100] for query in queries if caller.get(f"{path}?{query}").status >= 500]
    assert failed == []


def test_paths(caller: Api, ids: dict[str, str], odd: Odd) -> None:
    members = [f"{path_of(r, ids)}/{{}}" for r in RESOURCES]
    members += [f"{path_of(r, ids)}/{{}}/tags" for r in RESOURCES if r.tagged]
    members += [f"{path_of(r, ids)}/{{}}/{action}" for r in RESOURCES for action in r.actions]
    members += [f"/networks/{ids['network']}/tags/{{}}", "/ports/{}/bindings", "/ports/{}/bindings/h", "/extensions/{}"]
    members += ["/quotas/{}", "/quotas/{}/default", "/quotas/{}/details", "/agents/{}/dhcp-networks"]
    members += ["/agents/a/dhcp-networks/{}", "/networks/{}/dhcp-agents"]
    members += ["/agents/{}/l3-routers", "/agents/a/l3-routers/{}", "/routers/{}/l3-agents"]
    members += ["/floatingips/{}/port_forwardings", "/routers/{}/conntrack_helpers", "/auto-allocated-topology/{}"]
    bodies = {
        "PUT": {"quota": {"network": 1}, "tags": ["a"]},
        "POST": {"network_id": "\x00", "router_id": "\x00", "tags": ["a"]},
    }
    each = [*odd.keys(), ".", "..", "a/b", ".json", "{key}"]
    failed = []
    for member, word, method in itertools.product(members, each, odd.methods()):
        # A server hands the path on as the bytes that it got, each as one character.
        path = member.replace("{}", word).encode("utf-8", "surrogatepass").decode("latin-1")
        answer = caller.call(method, "/v2.0" + path.replace("?", ""), bodies.get(method))
        if answer.status >= 500:
            failed.append(f"{method} {path[:100]}: {answer.status}")
    assert failed == []
