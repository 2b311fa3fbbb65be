"""Visibility between projects: by RBAC policies, on external networks, and by a policy file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.client import Api


def share(api: Api, kind: str, key: str, target: str, action: str = "access_as_shared") -> dict[str, Any]:
    return api.make("rbac_policy", object_type=kind, object_id=key, target_tenant=target, action=action)


@pytest.fixture
def friend(api: Api) -> Api:
    return api.as_stranger()


@pytest.fixture
def stranger(api: Api) -> Api:
    return api.as_stranger()


def sees(api: Api, collection: str, key: str) -> bool:
    """Whether a caller sees an object; a list and the object's own address must agree."""
    listed = any(row["id"] == key for row in api.all(f"/{collection}"))
    shown = api.get(f"/{collection}/{key}")
    assert shown.status == (200 if listed else 404)
    return listed


def test_what_nobody_shared_is_the_projects_own(api: Api, stranger: Api) -> None:
    network = api.network()
    subnet, port = api.subnet(network), api.port(network)
    for collection, one in (("networks", network), ("subnets", subnet), ("ports", port)):
        assert sees(api, collection, one["id"])
        assert sees(api.as_admin(), collection, one["id"])
        assert sees(api.as_reader(), collection, one["id"])
        assert not sees(stranger, collection, one["id"])
        stranger.put(f"/{collection}/{one['id']}", {collection[:-1]: {"name": "mine"}}).expect(404)
        stranger.delete(f"/{collection}/{one['id']}").expect(404)
        api.as_reader().delete(f"/{collection}/{one['id']}").expect(403)
    stranger.post("/ports", {"port": {"network_id": network["id"]}}).refused(404, "NetworkNotFound")
    stranger.post("/subnets", {"subnet": {"network_id": network["id"], "cidr": "10.9.0.0/24", "ip_version": 4}}).expect(
        403
    )


def test_a_network_shared_with_one_project(api: Api, friend: Api, stranger: Api) -> None:
    network = api.network()
    subnet = api.subnet(network)
    own = api.port(network)
    policy = share(api, "network", network["id"], friend.project)
    assert sees(friend, "networks", network["id"])
    assert sees(friend, "subnets", subnet["id"])
    assert not sees(friend, "ports", own["id"])
    assert not sees(stranger, "networks", network["id"])
    assert friend.show("network", network["id"])["shared"] is True
    assert api.show("network", network["id"])["shared"] is False
    theirs = friend.port(network)
    assert sees(api, "ports", theirs["id"])  # the network's owner sees who is on it
    assert not sees(stranger, "ports", theirs["id"])
    friend.put(f"/networks/{network['id']}", {"network": {"name": "mine"}}).refused(403)
    api.delete(f"/rbac-policies/{policy['id']}").refused(409, "RbacPolicyInUse")
    friend.delete(f"/ports/{theirs['id']}").expect(204)
    api.delete(f"/rbac-policies/{policy['id']}").expect(204)
    assert not sees(friend, "networks", network["id"])
    assert not sees(friend, "subnets", subnet["id"])


def test_a_network_shared_with_all(api: Api, admin: Api, stranger: Api) -> None:
    network = api.network()
    api.post(
        "/rbac-policies",
        {
            "rbac_policy": {
                "object_type": "network",
                "object_id": network["id"],
                "target_tenant": "*",
                "action": "access_as_shared",
            }
        },
    ).refused(403)
    share(admin, "network", network["id"], "*")
    assert sees(stranger, "networks", network["id"])
    assert stranger.show("network", network["id"])["shared"] is True
    assert any(n["id"] == network["id"] for n in stranger.all("/networks", {"shared": "true"}))
    assert not any(n["id"] == network["id"] for n in stranger.all("/networks", {"shared": "false"}))
    stranger.post("/ports", {"port": {"network_id": network["id"], "mac_address": "02:00:00:00:00:01"}}).expect(403)
    stranger.post("/ports", {"port": {"network_id": network["id"], "fixed_ips": [{"ip_address": "10.0.0.5"}]}}).expect(
        403
    )


def test_external_access_for_one_project(admin: Api, friend: Api, stranger: Api) -> None:
    network = admin.network()
    subnet = admin.subnet(network)
    policy = share(admin, "network", network["id"], friend.project, "access_as_external")
    assert sees(friend, "networks", network["id"])
    assert friend.show("network", network["id"])["router:external"] is True
    assert sees(friend, "subnets", subnet["id"])
    assert not sees(stranger, "networks", network["id"])
    assert not sees(stranger, "subnets", subnet["id"])
    admin.delete(f"/rbac-policies/{policy['id']}").expect(204)
    assert not sees(friend, "networks", network["id"])
    assert admin.show("network", network["id"])["router:external"] is False


def test_subnets_and_their_network_are_seen_together(api: Api, admin: Api, stranger: Api) -> None:
    network = admin.network(router__external=True)
    subnet = admin.subnet(network)
    assert sees(stranger, "networks", network["id"])
    assert sees(stranger, "subnets", subnet["id"])
    admin.change("network", network["id"], router__external=False)
    assert not sees(stranger, "subnets", subnet["id"])


@pytest.mark.parametrize(
    ("kind", "collection", "values"),
    [
        ("security_group", "security-groups", {"name": "web"}),
        ("address_scope", "address-scopes", {"name": "scope", "ip_version": 4}),
        ("subnetpool", "subnetpools", {"name": "pool", "prefixes": ["10.0.0.0/8"]}),
        ("address_group", "address-groups", {"name": "hosts", "addresses": ["10.0.0.1/32"]}),
    ],
)
def test_other_things_shared(api: Api, friend: Api, stranger: Api, kind: str, collection: str, values: Any) -> None:
    made = api.make(kind, collection, **values)
    path = f"/{collection}/{made['id']}"
    assert friend.get(path).status == stranger.get(path).status == 404
    policy = share(api, kind, made["id"], friend.project)
    assert friend.get(path).expect(200).body[kind]["shared"] is True
    assert any(row["id"] == made["id"] for row in friend.all(f"/{collection}"))
    assert stranger.get(path).status == 404
    if kind == "address_group":  # as Neutron has it, for this kind alone
        friend.delete(path).refused(404, "AddressGroupNotFound")
        friend.put(path, {kind: {"name": "mine"}}).refused(404, "AddressGroupNotFound")
        for action in ("add_addresses", "remove_addresses"):
            friend.put(f"{path}/{action}", {"addresses": ["10.0.0.1/32"]}).refused(404, "AddressGroupNotFound")
        api.as_reader().delete(path).refused(403)
    else:
        friend.delete(path).refused(403)
    assert api.change("rbac_policy", policy["id"], target_tenant=stranger.project)["target_tenant"] == stranger.project
    assert (friend.get(path).status, stranger.get(path).status) == (404, 200)
    api.delete(f"/rbac-policies/{policy['id']}").expect(204)
    assert stranger.get(path).status == 404


def test_a_shared_group_is_usable_and_then_needed(api: Api, friend: Api, stranger: Api) -> None:
    group = api.make("security_group", name="web")
    network, theirs = friend.network(), stranger.network()
    policy = share(api, "security_group", group["id"], friend.project)
    port = friend.port(network, security_groups=[group["id"]])
    stranger.post("/ports", {"port": {"network_id": theirs["id"], "security_groups": [group["id"]]}}).refused(
        404, "SecurityGroupNotFound"
    )
    api.delete(f"/rbac-policies/{policy['id']}").refused(409, "RbacPolicyInUse")
    api.delete(f"/security-groups/{group['id']}").refused(409, "SecurityGroupInUse")
    friend.delete(f"/ports/{port['id']}").expect(204)
    api.delete(f"/rbac-policies/{policy['id']}").expect(204)


def test_policies_go_with_their_object(api: Api, friend: Api) -> None:
    network = api.network()
    policy = share(api, "network", network["id"], friend.project)
    api.delete(f"/networks/{network['id']}").expect(204)
    api.get(f"/rbac-policies/{policy['id']}").refused(404, "RbacPolicyNotFound")
    details = api.get(f"/quotas/{api.project}/details").expect(200).body["quota"]
    assert details["rbac_policy"]["used"] == 0


def test_policies_are_the_sharers_business(api: Api, friend: Api) -> None:
    network = api.network()
    policy = share(api, "network", network["id"], friend.project)
    friend.get(f"/rbac-policies/{policy['id']}").refused(404)
    body = {
        "object_type": "network",
        "object_id": network["id"],
        "target_tenant": friend.project,
        "action": "access_as_shared",
    }
    api.post("/rbac-policies", {"rbac_policy": body}).refused(409, "DuplicateRbacPolicy")
    friend.post("/rbac-policies", {"rbac_policy": {**body, "target_tenant": "x"}}).expect(400)
    api.post("/rbac-policies", {"rbac_policy": {**body, "action": "access_as_owner"}}).expect(400)
    api.post("/rbac-policies", {"rbac_policy": {**body, "object_type": "security_group"}}).expect(400)


def test_a_port_in_a_machine_is_not_its_owners_to_delete(api: Api) -> None:
    port = api.port(api.network(), device_owner="compute:nova", device_id="vm")
    api.delete(f"/ports/{port['id']}").refused(403)
    api.as_service().delete(f"/ports/{port['id']}").expect(204)


def test_an_operators_policy_file(another_server: Any, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text('"create_network": "rule:admin_only"\n"get_network:mtu": "rule:admin_only"\n')
    api = Api(another_server({"oslo_policy": {"policy_file": str(path)}}).app)
    api.post("/networks", {"network": {}}).refused(403, "PolicyNotAuthorized")
    made = api.as_admin().network()
    assert made["mtu"] == 1450
    assert "mtu" not in api.show("network", made["id"])
