"""Subnet pools and address scopes: prefixes given out, bounds and quotas, the default pool, scopes of networks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api


def pool(api: Api, *prefixes: str, **values: Any) -> dict[str, Any]:
    return api.make("subnetpool", prefixes=list(prefixes) or ["10.0.0.0/16"], name="pool", **values)


@pytest.mark.every_database
def test_prefixes_are_allocated_until_the_pool_is_full(api: Api) -> None:
    made = pool(api, "10.0.0.0/24", default_prefixlen=26)
    cidrs = []
    network = api.network()
    for _ in range(4):
        cidrs.append(api.subnet(network, None, subnetpool_id=made["id"])["cidr"])
    assert sorted(cidrs) == [f"10.0.0.{i}/26" for i in (0, 128, 192, 64)]
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "subnetpool_id": made["id"]}}
    api.post("/subnets", body).refused(409, "SubnetAllocationError")
    api.delete(f"/subnetpools/{made['id']}").refused(400, "SubnetPoolDeleteError")


def test_a_requested_prefix(api: Api) -> None:
    made = pool(api, min_prefixlen=20, max_prefixlen=28, default_prefixlen=24)
    network = api.network()
    assert api.subnet(network, None, subnetpool_id=made["id"], prefixlen=28)["cidr"].endswith("/28")
    assert api.subnet(network, "10.0.128.0/24", subnetpool_id=made["id"])["cidr"] == "10.0.128.0/24"
    body = {"network_id": network["id"], "ip_version": 4, "subnetpool_id": made["id"]}
    api.post("/subnets", {"subnet": {**body, "cidr": "10.0.128.0/25"}}).expect(409)
    api.post("/subnets", {"subnet": {**body, "cidr": "192.168.0.0/24"}}).expect(409)
    api.post("/subnets", {"subnet": {**body, "prefixlen": 29}}).refused(400, "MaxPrefixSubnetAllocationError")
    api.post("/subnets", {"subnet": {**body, "prefixlen": 16}}).refused(400, "MinPrefixSubnetAllocationError")
    api.post("/subnets", {"subnet": {**body, "prefixlen": 24, "cidr": "10.0.1.0/24"}}).expect(400)
    api.post("/subnets", {"subnet": {**body, "ip_version": 6}}).expect(400)
    api.post("/subnets", {"subnet": {**body, "subnetpool_id": None, "cidr": "10.77.0.0/24"}}).expect(400)


@pytest.mark.every_database
def test_a_pools_quota_is_in_addresses(api: Api) -> None:
    made = pool(api, default_prefixlen=26, default_quota=128)
    network = api.network()
    for _ in range(2):
        api.subnet(network, None, subnetpool_id=made["id"])
    body = {"subnet": {"network_id": network["id"], "ip_version": 4, "subnetpool_id": made["id"]}}
    api.post("/subnets", body).refused(409, "SubnetPoolQuotaExceeded")


@pytest.mark.every_database
def test_the_default_pool(another_server: Any) -> None:
    api = Api(another_server().app)
    network = api.network()
    body = {"subnet": {"network_id": network["id"], "ip_version": 6, "use_default_subnetpool": True}}
    api.post("/subnets", body).expect(400)
    made = pool(api.as_admin(), "fd00::/48", default_prefixlen=64, is_default=True, shared=True)
    subnet = api.post("/subnets", body).expect(201).body["subnet"]
    assert (subnet["subnetpool_id"], subnet["cidr"]) == (made["id"], "fd00::/64")
    again = {"subnetpool": {"name": "x", "prefixes": ["fd01::/48"], "is_default": True}}
    api.as_admin().post("/subnetpools", again).expect(400)
    api.post("/subnetpools", again).refused(403)


@pytest.mark.every_database
def test_prefixes_grow_and_shrink(api: Api) -> None:
    made = pool(api, "10.0.0.0/24")
    assert api.change("subnetpool", made["id"], prefixes=["10.0.0.0/24", "10.0.1.0/24"])["prefixes"] == ["10.0.0.0/23"]
    api.put(f"/subnetpools/{made['id']}", {"subnetpool": {"prefixes": ["10.0.0.0/24"]}}).expect(400)
    path = f"/subnetpools/{made['id']}"
    added = api.put(f"{path}/add_prefixes", {"prefixes": ["10.5.0.0/24"]}).expect(200).body
    assert added == {"prefixes": ["10.0.0.0/23", "10.5.0.0/24"]}
    api.subnet(api.network(), "10.5.0.0/25", subnetpool_id=made["id"])
    api.put(f"{path}/remove_prefixes", {"prefixes": ["10.5.0.0/24"]}).expect(400)
    api.put(f"{path}/remove_prefixes", {"prefixes": ["10.0.1.0/24"]}).expect(200)
    assert api.show("subnetpool", made["id"])["prefixes"] == ["10.0.0.0/24", "10.5.0.0/24"]


def test_bounds(api: Api) -> None:
    for values in (
        {"prefixes": []},
        {"prefixes": ["10.0.0.0/8", "fd00::/48"]},
        {"prefixes": ["10.0.0.0/8"], "min_prefixlen": 28, "max_prefixlen": 24},
        {"prefixes": ["10.0.0.0/8"], "default_prefixlen": 33},
        {"prefixes": ["ten"]},
    ):
        api.post("/subnetpools", {"subnetpool": {"name": "p", **values}}).expect(400)


def test_a_network_shows_the_scope_of_its_subnets(api: Api) -> None:
    scope = api.make("address_scope", name="s", ip_version=4)
    made = pool(api, "10.0.0.0/16", address_scope_id=scope["id"])
    other = {"subnetpool": {"name": "q", "prefixes": ["10.0.5.0/24"], "address_scope_id": scope["id"]}}
    api.post("/subnetpools", other).refused(409, "AddressScopePrefixConflict")
    network = api.network()
    subnet = api.subnet(network, None, subnetpool_id=made["id"], prefixlen=24)
    assert api.show("network", network["id"])["ipv4_address_scope"] == scope["id"]
    api.delete(f"/address-scopes/{scope['id']}").refused(409, "AddressScopeInUse")
    api.change("subnetpool", made["id"], address_scope_id=None)
    assert api.show("network", network["id"])["ipv4_address_scope"] is None
    api.delete(f"/subnets/{subnet['id']}").expect(204)
    api.delete(f"/address-scopes/{scope['id']}").expect(204)
    api.delete(f"/subnetpools/{made['id']}").expect(204)


def test_scopes(api: Api, admin: Api) -> None:
    scope = api.make("address_scope", name="s", ip_version=6)
    assert api.change("address_scope", scope["id"], name="t")["name"] == "t"
    api.put(f"/address-scopes/{scope['id']}", {"address_scope": {"ip_version": 4}}).expect(400)
    for shared in (True, False):  # refused even if the value stays the same
        api.put(f"/address-scopes/{scope['id']}", {"address_scope": {"shared": shared}}).refused(403)
    assert api.get(f"/address_scopes/{scope['id']}").expect(200)  # by either spelling
    assert admin.change("address_scope", scope["id"], shared=True)["shared"] is True
    assert api.as_stranger().show("address_scope", scope["id"])["name"] == "t"
    wrong = {"subnetpool": {"name": "q", "prefixes": ["10.0.5.0/24"], "address_scope_id": scope["id"]}}
    api.post("/subnetpools", wrong).expect(400)
