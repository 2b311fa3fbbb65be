"""Quotas: limits and usage, counted with every write and never exceeded."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from neutrino.server.main import Server
from neutrino.server.quota.plugin import recount
from tests.api.client import Api
from tests.api.races import before_next_write


def details(api: Api, resource: str) -> dict[str, int]:
    found: dict[str, int] = api.get(f"/quotas/{api.project}/details").expect(200).body["quota"][resource]
    return found


def limit(api: Api, **limits: int) -> None:
    api.as_admin().put(f"/quotas/{api.project}", {"quota": limits}).expect(200)


@pytest.mark.parametrize("suffix", ["", "/default", "/details"])
def test_quotas_of_other_projects_are_the_administrators(api: Api, admin: Api, suffix: str) -> None:
    other = api.as_stranger().project
    for roles in ("manager,member,reader", "member,reader", "reader", "creator"):
        caller = Api(api.app, project=api.project, roles=roles)
        caller.get(f"/quotas/{api.project}{suffix}").expect(200)
        caller.get(f"/quotas/{other}{suffix}").refused(403, "PolicyNotAuthorized")
        caller.get("/quotas").refused(403, "PolicyNotAuthorized")
    admin.get(f"/quotas/{other}{suffix}").expect(200)


def test_defaults_and_limits_of_ones_own(api: Api, admin: Api) -> None:
    path = f"/quotas/{api.project}"
    default = api.get(f"{path}/default").expect(200).body["quota"]
    assert api.get(path).expect(200).body["quota"] == default
    assert admin.put(path, {"quota": {"port": 7, "network": -1}}).expect(200).body["quota"]["port"] == 7
    assert any(q["project_id"] == api.project and q["port"] == 7 for q in admin.get("/quotas").body["quotas"])
    admin.delete(path).expect(204)
    assert api.get(path).body["quota"] == default
    admin.delete(path).refused(404, "TenantQuotaNotFound")
    api.put(path, {"quota": {"port": 9}}).refused(403)
    api.get(f"/quotas/{api.as_stranger().project}").expect(403)
    for wrong in ({"port": -2}, {"port": "many"}, {"kitchen": 1}):
        admin.put(path, {"quota": wrong}).expect(400)


def test_the_default_quota_is_for_what_has_none_of_its_own(another_server: Callable[..., Server]) -> None:
    """As in Neutron, which has no option for most kinds of objects: the limits of the others stay."""
    server = another_server({"quotas": {"default_quota": "2", "quota_qos_policy": "-1"}})
    api = Api(server.app, project=uuid.uuid4().hex)
    default = api.get(f"/quotas/{api.project}/default").expect(200).body["quota"]
    assert (default["trunk"], default["subnetpool"]) == (2, 2)
    assert (default["qos_policy"], default["port"], default["router"]) == (-1, 500, 10)
    pool = {"prefixes": ["10.0.0.0/16"], "default_prefixlen": 24}
    for name in ("a", "b"):
        api.post("/subnetpools", {"subnetpool": {"name": name, **pool}}).expect(201)
    api.post("/subnetpools", {"subnetpool": {"name": "c", **pool}}).refused(409, "OverQuota")


def test_a_quota_error_comes_before_others(api: Api) -> None:
    """Clients expect it first, whatever else is wrong with a well-formed request."""
    network = api.network()
    limit(api, network=1, port=0)
    forbidden = {"network": {"provider:network_type": "local"}}
    api.post("/networks", forbidden).refused(409, "OverQuota")
    missing = {"network_id": "00000000-0000-0000-0000-000000000001"}
    api.post("/ports", {"port": missing}).refused(409, "OverQuota")
    api.post("/ports", {"port": {"network_id": network["id"], "mac_address": "no"}}).expect(400)
    limit(api, network=2, port=1)
    api.post("/networks", forbidden).refused(403, "PolicyNotAuthorized")
    api.post("/ports", {"port": missing}).refused(404, "NetworkNotFound")


def test_nothing_passes_a_limit(api: Api) -> None:
    limit(api, port=3)
    network = api.network()
    made = [api.port(network) for _ in range(3)]
    api.post("/ports", {"port": {"network_id": network["id"]}}).refused(409, "OverQuota")
    api.delete(f"/ports/{made[0]['id']}").expect(204)
    api.post("/ports", {"ports": [{"network_id": network["id"]}] * 2}).refused(409, "OverQuota")
    assert details(api, "port") == {"limit": 3, "used": 2, "reserved": 0}
    api.port(network)
    api.as_admin().put(f"/quotas/{api.project}", {"quota": {"port": 1}}).expect(400)
    api.as_admin().put(f"/quotas/{api.project}", {"quota": {"port": 1, "force": True}}).expect(200)


def test_whose_quota_it_is(api: Api, admin: Api) -> None:
    """An object counts for the project it belongs to, not for who made it."""
    other = api.as_stranger()
    network = admin.network(project_id=other.project)
    assert (network["project_id"], details(other, "network")["used"], details(api, "network")["used"]) == (
        other.project,
        1,
        0,
    )


def test_counters_follow_everything(api: Api, admin: Api, server: Server) -> None:
    network = api.network()
    subnet = api.subnet(network)
    api.port(network, device_owner="")
    group = api.make("security_group", name="web")
    api.make(
        "rbac_policy", object_type="network", object_id=network["id"], target_tenant="x", action="access_as_shared"
    )
    pool = api.make("subnetpool", name="p", prefixes=["10.0.0.0/8"])
    admin.port(network, device_owner="network:dhcp", device_id="d")
    used: dict[str, Any] = {
        k: v["used"] for k, v in api.get(f"/quotas/{api.project}/details").body["quota"].items() if v["used"]
    }
    assert used == {
        "network": 1,
        "subnet": 1,
        "port": 2,
        "security_group": 2,
        "security_group_rule": 6,
        "rbac_policy": 1,
        "subnetpool": 1,
    }
    for port in api.all("/ports", {"device_owner": ""}):
        api.delete(f"/ports/{port['id']}").expect(204)
    assert subnet["id"] in api.show("network", network["id"])["subnets"]
    api.delete(f"/networks/{network['id']}").expect(204)
    api.delete(f"/security-groups/{group['id']}").expect(204)
    api.delete(f"/subnetpools/{pool['id']}").expect(204)
    used = {k: v["used"] for k, v in api.get(f"/quotas/{api.project}/details").body["quota"].items() if v["used"]}
    assert used == {"security_group": 1, "security_group_rule": 4}
    assert recount(server.db) == []


def test_a_shared_network_counts_its_policy(admin: Api, server: Server) -> None:
    network = admin.network(shared=True)
    admin.change("network", network["id"], shared=False)
    admin.change("network", network["id"], shared=True, router__external=True)
    assert recount(server.db) == []
    admin.delete(f"/networks/{network['id']}").expect(204)
    assert recount(server.db) == []


def test_address_groups_have_a_quota_and_a_size(another_server: Any) -> None:
    server = another_server({"DEFAULT": {"max_address_group_addresses": "3"}})
    api = Api(server.app)
    limit(api, address_group=2)
    groups = [api.make("address_group", name=name, addresses=["10.0.0.1/32"]) for name in ("a", "b")]
    api.post("/address-groups", {"address_group": {"name": "c"}}).refused(409, "OverQuota")
    assert details(api, "address_group") == {"limit": 2, "used": 2, "reserved": 0}
    path = f"/address-groups/{groups[0]['id']}"
    two, three = ["10.0.1.1/32", "10.0.1.2/32"], ["10.0.1.1/32", "10.0.1.2/32", "10.0.1.3/32"]
    api.put(f"{path}/add_addresses", {"addresses": three}).refused(400, "InvalidInput")
    api.put(f"{path}/add_addresses", {"addresses": two}).expect(200)
    api.put(f"{path}/remove_addresses", {"addresses": two}).expect(200)
    api.delete(path).expect(204)
    body = {"name": "d", "addresses": ["10.0.2.1/32", *three]}
    api.post("/address-groups", {"address_group": body}).refused(400, "InvalidInput")
    bulk = [{"name": "e"}, {"name": "f"}]
    api.post("/address-groups", {"address_groups": bulk}).refused(409, "OverQuota")
    api.make("address_group", name="g", addresses=three)
    assert recount(server.db) == []


def test_a_port_that_is_deleted_while_its_network_is_counts_once(
    api: Api, admin: Api, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = api.network()
    port = admin.port(network, device_owner="network:dhcp", device_id="d", project_id=api.project)
    limit(api, port=5)
    before_next_write(server, monkeypatch, lambda: admin.delete(f"/ports/{port['id']}").expect(204))
    api.delete(f"/networks/{network['id']}").expect(204)
    assert recount(server.db) == []
    assert details(api, "port")["used"] == 0
