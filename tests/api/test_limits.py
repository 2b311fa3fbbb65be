"""Limits of a request: lengths of lists, objects of a bulk create, filters, sort keys, size of a body.

The table of list attributes is compared with the definitions: a new list attribute without a limit, or without a row
here, fails.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from neutrino.model.agents import DHCP, L3, AgentState
from neutrino.model.objects import Object
from neutrino.server.api.stages.body import MAX_BULK
from neutrino.server.api.stages.query_string import MAX_SORT_KEYS, MAX_TAGS, MAX_VALUES
from neutrino.server.main import Server
from tests.api.client import PLURALS, Api
from tests.api.l3 import gateway, outside
from tests.support.resources import RESOURCES

UNBOUND = (
    *("network", "subnet", "port", "router", "floatingip", "subnetpool"),
    *("security_group", "security_group_rule", "router_route", "firewall_rule", "firewall_policy", "firewall_group"),
)
GENEROUS = {
    "DEFAULT": {"max_dns_nameservers": "100", "max_subnet_host_routes": "1000", "max_allowed_address_pair": "1000"},
    "quotas": {f"quota_{name}": "-1" for name in UNBOUND},
    "ml2_type_vlan": {"network_vlan_ranges": "physnet1:100:299"},
}


# --- which lists there are --------------------------------------------------------------------------------------------


def arrays(schema: Any, path: str) -> Iterator[tuple[str, int | None]]:
    """The arrays in a schema, each with its greatest length."""
    if schema.get("type") == "array":
        yield path, schema.get("maxItems")
        yield from arrays(schema.get("items", {}), path)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from arrays(part, path)
    for name, part in schema.get("properties", {}).items():
        yield from arrays(part, f"{path}.{name}")


def limits() -> dict[str, int | None]:
    """The list attributes that clients give, by resource and name, and how long each may be."""
    return {
        f"{resource.name}.{path}": most
        for resource in RESOURCES
        for attribute in resource.attributes
        if attribute.post or attribute.put
        for path, most in arrays(attribute.type.schema(), attribute.name)
    }


# --- a value of any length for each -----------------------------------------------------------------------------------


def address(i: int, first: str = "10") -> str:
    return f"{first}.{i // 65536 % 256}.{i // 256 % 256}.{i % 256}"


@dataclass(frozen=True)
class LimitSetup:
    """A server where every list can be filled, and what the lists refer to."""

    server: Server
    admin: Api
    network: Object
    subnet: Object
    external: Object
    groups: list[str]
    profiles: list[str]

    def port(self, **values: Any) -> tuple[str, Object]:
        return "/ports", {"port": {"network_id": self.network["id"], **values}}

    def own_subnet(self, **values: Any) -> tuple[str, Object]:
        network = self.admin.network()["id"]
        return "/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/16", **values}}


def fixed_ips(subnet: Object, n: int, first: int) -> list[Object]:
    network = subnet["cidr"].split(".")
    return [
        {
            "subnet_id": subnet["id"],
            "ip_address": f"{network[0]}.{network[1]}.{(first + i) // 250}.{(first + i) % 250 + 1}",
        }
        for i in range(n)
    ]


def routes(n: int, hop: str) -> list[Object]:
    return [{"destination": f"{address(i, '11')}/32", "nexthop": hop} for i in range(n)]


def tunnel(setup: LimitSetup, **values: Any) -> Object:
    """A VPN connection of a new router."""
    router, make = routed(setup), setup.admin.make
    setup.admin.change("router", router["id"], external_gateway_info=gateway(setup.external))
    owned = {"device_id": router["id"], "device_owner": "network:router_interface"}
    (port,) = setup.admin.all("/ports", owned)
    service = make("vpnservice", router_id=router["id"], subnet_id=port["fixed_ips"][0]["subnet_id"])
    return {
        "vpnservice_id": service["id"],
        "ikepolicy_id": make("ikepolicy")["id"],
        "ipsecpolicy_id": make("ipsecpolicy")["id"],
        "peer_address": "192.0.2.9",
        "peer_id": "192.0.2.9",
        "psk": "key",
        **values,
    }


Fill = Callable[[LimitSetup, int], tuple[str, Object]]
FILLS: dict[str, Fill] = {
    "network.availability_zone_hints": lambda setup, n: (
        "/networks",
        {"network": {"availability_zone_hints": [f"zone{i}" for i in range(n)]}},
    ),
    "network.extra_dhcp_opts": lambda setup, n: ("/networks", {"network": {"extra_dhcp_opts": options(n)}}),
    "network.segments": lambda setup, n: ("/networks", {"network": {"segments": [vlan(100 + i) for i in range(n)]}}),
    "subnet.allocation_pools": lambda setup, n: setup.own_subnet(
        allocation_pools=[{"start": address(4 * i + 4), "end": address(4 * i + 5)} for i in range(n)]
    ),
    "subnet.dns_nameservers": lambda setup, n: setup.own_subnet(dns_nameservers=[address(i) for i in range(1, n + 1)]),
    "subnet.host_routes": lambda setup, n: setup.own_subnet(host_routes=routes(n, "10.0.0.9")),
    "subnet.service_types": lambda setup, n: setup.own_subnet(service_types=[f"compute:{i}" for i in range(n)]),
    "port.fixed_ips": lambda setup, n: setup.port(fixed_ips=fixed_ips(setup.subnet, n, 300)),
    "port.security_groups": lambda setup, n: setup.port(security_groups=(setup.groups * 20)[:n]),
    "port.allowed_address_pairs": lambda setup, n: setup.port(
        allowed_address_pairs=[{"ip_address": address(i)} for i in range(1, n + 1)]
    ),
    "port.extra_dhcp_opts": lambda setup, n: setup.port(extra_dhcp_opts=options(n)),
    "port.tags": lambda setup, n: setup.port(tags=[f"t{i}" for i in range(n)]),
    "subnetpool.prefixes": lambda setup, n: (
        "/subnetpools",
        {"subnetpool": {"name": "p", "prefixes": [f"{address(i * 512)}/24" for i in range(n)]}},
    ),
    "address_group.addresses": lambda setup, n: (
        "/address-groups",
        {"address_group": {"name": "g", "addresses": [f"{address(i)}/32" for i in range(n)]}},
    ),
    "router.external_gateway_info.external_fixed_ips": lambda setup, n: (
        "/routers",
        {
            "router": {
                "external_gateway_info": gateway(
                    setup.external, external_fixed_ips=fixed_ips(setup.external["subnet"], n, 300)
                )
            }
        },
    ),
    "router.routes": lambda setup, n: (
        f"/routers/{routed(setup)['id']}",
        {"router": {"routes": routes(n, "10.9.0.9")}},
    ),
    "router.availability_zone_hints": lambda setup, n: (
        "/routers",
        {"router": {"availability_zone_hints": [f"zone{i}" for i in range(n)]}},
    ),
    "flavor.service_profiles": lambda setup, n: (
        "/flavors",
        {"flavor": {"name": "f", "service_type": "L3_ROUTER_NAT", "service_profiles": (setup.profiles * 20)[:n]}},
    ),
    "endpoint_group.endpoints": lambda setup, n: (
        "/vpn/endpoint-groups",
        {"endpoint_group": {"type": "cidr", "endpoints": [f"{address(i * 512)}/24" for i in range(n)]}},
    ),
    "ipsec_site_connection.peer_cidrs": lambda setup, n: (
        "/vpn/ipsec-site-connections",
        {"ipsec_site_connection": tunnel(setup, peer_cidrs=[f"{address(i * 512, '11')}/24" for i in range(n)])},
    ),
    "firewall_policy.firewall_rules": lambda setup, n: (
        "/fwaas/firewall_policies",
        {"firewall_policy": {"firewall_rules": created(setup, "/fwaas/firewall_rules", "firewall_rules", n)}},
    ),
    "firewall_group.ports": lambda setup, n: (
        "/fwaas/firewall_groups",
        {
            "firewall_group": {
                "ports": created(
                    *(setup, "/ports", "ports", n), network_id=setup.network["id"], device_owner="compute:x"
                )
            }
        },
    ),
    "trunk.sub_ports": lambda setup, n: (
        "/trunks",
        {
            "trunk": {
                "port_id": created(setup, "/ports", "ports", 1, network_id=setup.network["id"])[0],
                "sub_ports": subports(created(setup, "/ports", "ports", n, network_id=setup.network["id"])),
            }
        },
    ),
}
BULK = 500  # objects that a request creates at most


def subports(ports: Sequence[str]) -> list[Object]:
    return [{"port_id": key, "segmentation_type": "vlan", "segmentation_id": i} for i, key in enumerate(ports, 1)]


def created(setup: LimitSetup, path: str, collection: str, n: int, **values: Any) -> list[str]:
    """Ids of n new objects; of none for a list that is refused by its length."""
    if n > 1000:
        return [str(uuid.uuid4()) for _ in range(n)]
    found: list[str] = []
    while len(found) < n:
        body = {collection: [values] * min(BULK, n - len(found))}
        found += [each["id"] for each in setup.admin.post(path, body).expect(201).body[collection]]
    return found


def vlan(number: int) -> Object:
    keys = ("provider:network_type", "provider:physical_network", "provider:segmentation_id")
    return dict(zip(keys, ("vlan", "physnet1", number), strict=True))


def options(n: int) -> list[Object]:
    return [{"opt_name": f"{i}", "opt_value": "x"} for i in range(1, n + 1)]


def routed(setup: LimitSetup) -> Object:
    """A router with an interface, where routes have a nexthop."""
    network = setup.admin.network()
    subnet = setup.admin.subnet(network, "10.9.0.0/16")
    router = setup.admin.make("router")
    setup.admin.put(f"/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]}).expect(200)
    return router


@pytest.fixture(scope="module")
def limit_setup(
    request: pytest.FixtureRequest, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LimitSetup]:
    from tests.api.conftest import start
    from tests.support.databases import prepared_database

    directory = tmp_path_factory.mktemp("limits")
    server = start(directory, prepared_database(request, database, directory), GENEROUS)
    for i in range(40):
        for kind, binary in ((DHCP, "neutron-dhcp-agent"), (L3, "neutron-l3-agent")):
            server.registry.report(AgentState(kind, binary, f"h{i}", "topic", f"zone{i}", start_flag=True))
    admin = Api(server.app).as_admin()
    network = admin.network()
    subnet = admin.subnet(network, "10.0.0.0/16")
    external = outside(admin, "172.24.0.0/16")
    external["subnet"] = admin.all("/subnets", {"network_id": external["id"]})[0]
    body = {"security_groups": [{"name": f"g{i}"} for i in range(100)]}
    groups = [group["id"] for group in admin.post("/security-groups", body).expect(201).body["security_groups"]]
    driver = "neutron.services.l3_router.service_providers.single_node.SingleNodeDriver"
    profiles = [admin.make("service_profile", driver=driver, description=f"{i}")["id"] for i in range(100)]
    yield LimitSetup(server, admin, network, subnet, external, groups, profiles)
    server.close()


def send(setup: LimitSetup, name: str, n: int) -> Any:
    path, body = FILLS[name](setup, n)
    return setup.admin.put(path, body) if "/routers/" in path else setup.admin.post(path, body)


# --- lists ------------------------------------------------------------------------------------------------------------


def test_every_list_that_clients_give_has_a_limit(limit_setup: LimitSetup) -> None:
    known = limits()
    assert [name for name, most in known.items() if most is None] == []
    assert set(known) == set(FILLS)


@pytest.mark.parametrize("name", FILLS)
def test_a_list_at_its_limit_is_taken_and_a_longer_one_is_refused_by_name(limit_setup: LimitSetup, name: str) -> None:
    most = limits()[name]
    assert most is not None
    answer = send(limit_setup, name, most)
    assert answer.status in (200, 201), answer.body
    resource, _, path = name.partition(".")
    shown = answer.body[resource]
    for part in path.split("."):
        shown = shown[part]
    assert len(shown) == most
    refused = send(limit_setup, name, most + 1).refused(400, "HTTPBadRequest")
    assert path.split(".")[0] in refused.message
    assert f"at most {most}" in refused.message
    tenfold = send(limit_setup, name, 10 * most)
    assert (tenfold.status, tenfold.error) in ((400, "HTTPBadRequest"), (413, "HTTPRequestEntityTooLarge"))
    if tenfold.status == 400:
        assert path.split(".")[0] in tenfold.message


ACTIONS: dict[str, tuple[Callable[[LimitSetup], str], Callable[[int], Object], int]] = {
    "add_addresses": (
        lambda setup: f"/address-groups/{setup.admin.make('address_group', name='g')['id']}/add_addresses",
        lambda n: {"addresses": [f"{address(i)}/32" for i in range(n)]},
        1000,
    ),
    "add_prefixes": (
        lambda setup: (
            f"/subnetpools/{setup.admin.make('subnetpool', name='p', prefixes=['10.0.0.0/24'])['id']}/add_prefixes"
        ),
        lambda n: {"prefixes": [f"{address(i * 512)}/24" for i in range(n)]},
        1000,
    ),
    "add_extraroutes": (
        lambda setup: f"/routers/{routed(setup)['id']}/add_extraroutes",
        lambda n: {"router": {"routes": routes(n, "10.9.0.9")}},
        1000,
    ),
    "tags": (
        lambda setup: f"/networks/{setup.admin.network()['id']}/tags",
        lambda n: {"tags": [f"t{i}" for i in range(n)]},
        50,
    ),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_list_of_an_action_has_a_limit(limit_setup: LimitSetup, action: str) -> None:
    path, body, most = ACTIONS[action]
    limit_setup.admin.put(path(limit_setup), body(most)).expect(200)
    refused = limit_setup.admin.put(path(limit_setup), body(most + 1))
    assert refused.status == 400
    assert "at most" in refused.message
    assert limit_setup.admin.put(path(limit_setup), body(10 * most)).status in (400, 413)


def test_a_pool_does_not_grow_beyond_its_limit_by_many_requests(limit_setup: LimitSetup) -> None:
    prefixes = [f"{address(i * 512)}/24" for i in range(1000)]
    pool = limit_setup.admin.make("subnetpool", name="p", prefixes=prefixes)
    path = f"/subnetpools/{pool['id']}"
    refused = limit_setup.admin.put(f"{path}/add_prefixes", {"prefixes": ["192.168.0.0/24"]}).refused(
        400, "HTTPBadRequest"
    )
    assert "prefixes" in refused.message
    limit_setup.admin.put(f"{path}/remove_prefixes", {"prefixes": ["10.0.0.128/32"]}).refused(400, "HTTPBadRequest")
    assert sorted(limit_setup.admin.show("subnetpool", pool["id"])["prefixes"]) == sorted(prefixes)


# --- objects at once --------------------------------------------------------------------------------------------------


def test_objects_at_once_have_a_limit(limit_setup: LimitSetup) -> None:
    for resource in RESOURCES:
        if not resource.owned or "create" not in resource.verbs or resource.parent:
            continue
        path = f"/{PLURALS.get(resource.name, resource.collection)}"
        for n in (MAX_BULK + 1, 10 * MAX_BULK):
            refused = limit_setup.admin.post(path, {resource.collection: [{}] * n}).refused(400, "HTTPBadRequest")
            assert resource.collection in refused.message
    made = limit_setup.admin.post("/networks", {"networks": [{}] * MAX_BULK}).expect(201)
    assert len(made.body["networks"]) == MAX_BULK


def test_a_hundred_full_ports_fit_into_a_body(limit_setup: LimitSetup) -> None:
    one = {
        "network_id": limit_setup.network["id"],
        "name": "n" * 64,
        "fixed_ips": [{"subnet_id": limit_setup.subnet["id"]}],
        "security_groups": limit_setup.groups[:5],
        "device_id": limit_setup.subnet["id"],
        "device_owner": "compute:nova",
        "binding:host_id": "h" * 64,
        "allowed_address_pairs": [{"ip_address": "10.0.0.1"}],
        "tags": ["a", "b"],
    }
    assert len(json.dumps({"ports": [one] * 100})) < limit_setup.server.conf.oslo_middleware.max_request_body_size
    assert len(limit_setup.admin.post("/ports", {"ports": [one] * 100}).expect(201).body["ports"]) == 100


def test_the_body_limit_is_an_option(another_server: Callable[..., Server]) -> None:
    server = another_server({"oslo_middleware": {"max_request_body_size": "2000"}})
    api = Api(server.app)
    api.post("/networks", {"networks": [{"name": "n" * 100}] * 10}).expect(201)
    refused = api.post("/networks", {"networks": [{"name": "n" * 100}] * 20})
    refused.refused(413, "HTTPRequestEntityTooLarge")
    assert "2000" in refused.message


def test_the_body_limit_is_as_neutrons(server: Server) -> None:
    assert server.conf.oslo_middleware.max_request_body_size == 114688


# --- lists of objects -------------------------------------------------------------------------------------------------


def test_values_of_a_filter_have_a_limit(api: Api) -> None:
    network = api.network()["id"]
    ids = [address(i) for i in range(MAX_VALUES - 1)]
    found = api.get("/networks", [("id", one) for one in [network, *ids]]).expect(200).body["networks"]
    assert [one["id"] for one in found] == [network]
    refused = api.get("/networks", [("name", f"{i}") for i in range(MAX_VALUES + 1)]).refused(400, "HTTPBadRequest")
    assert "name" in refused.message
    refused = api.get("/ports", [("tags", f"{i}") for i in range(MAX_TAGS + 1)]).refused(400, "HTTPBadRequest")
    assert "tags" in refused.message
    assert api.get("/networks", [("name", f"{i}") for i in range(2001)]).status == 400
    part = "ip_address_substr="
    api.get("/ports", [("fixed_ips", f"{part}{i}") for i in range(32)]).expect(200)
    refused = api.get("/ports", [("fixed_ips", f"{part}{i}") for i in range(33)]).refused(400, "InvalidInput")
    assert "fixed_ips" in refused.message


def test_a_value_that_is_repeated_counts_once(api: Api) -> None:
    network = api.network(name="again")
    found = api.get("/networks", [("name", "again")] * 1900).expect(200).body["networks"]
    assert [one["id"] for one in found] == [network["id"]]


def test_sort_keys_have_a_limit(api: Api) -> None:
    networks = [api.network(name=name, description=d) for name, d in (("a", "2"), ("a", "1"), ("b", "0"))]
    order = [networks[i]["id"] for i in (1, 0, 2)]
    keys = [("sort_key", "name"), ("sort_key", "description")] * (MAX_SORT_KEYS // 2)
    seen, marker = [], []
    while True:  # page by page, as the marker is what made repeated keys dear
        page = api.get("/networks", [*keys, ("limit", 1), *marker]).expect(200).body["networks"]
        if not page:
            break
        seen.append(page[0]["id"])
        marker = [("marker", page[0]["id"])]
    assert seen == order
    for n in (MAX_SORT_KEYS + 1, 10 * MAX_SORT_KEYS, 200):
        refused = api.get("/networks", [("sort_key", "name")] * n).refused(400, "HTTPBadRequest")
        assert "sort_key" in refused.message
