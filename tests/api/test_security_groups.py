"""Security groups, rules and address groups: what the recorded exchanges do not cover."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api


def rule(api: Api, group: dict[str, Any], **values: Any) -> dict[str, Any]:
    return api.make("security_group_rule", security_group_id=group["id"], **{"direction": "ingress", **values})


@pytest.mark.every_database
def test_every_project_has_one_default_group(api: Api) -> None:
    groups = api.all("/security-groups")
    assert [g["name"] for g in groups] == ["default"]
    assert len(groups[0]["security_group_rules"]) == 4
    default = groups[0]["id"]
    api.delete(f"/security-groups/{default}").refused(409, "SecurityGroupCannotRemoveDefault")
    api.put(f"/security-groups/{default}", {"security_group": {"name": "x"}}).refused(409)
    api.post("/security-groups", {"security_group": {"name": "default"}}).expect(409)
    assert api.change("security_group", default, description="ours")["description"] == "ours"


def test_stateless(api: Api) -> None:
    group = api.make("security_group", name="fast", stateful=False)
    assert group["stateful"] is False
    assert api.change("security_group", group["id"], stateful=True)["stateful"] is True
    api.port(api.network(), security_groups=[group["id"]])
    api.put(f"/security-groups/{group['id']}", {"security_group": {"stateful": False}}).refused(409)
    assert [g["id"] for g in api.all("/security-groups", {"stateful": "true", "name": "fast"})] == [group["id"]]


def test_rules_belong_to_their_group(api: Api) -> None:
    group = api.make("security_group", name="web")
    made = rule(api, group, protocol="tcp", port_range_min=80, port_range_max=88, remote_ip_prefix="10.0.0.9/8")
    assert made["normalized_cidr"] == "10.0.0.0/8"
    shown = api.show("security_group", group["id"])
    assert made["id"] in {r["id"] for r in shown["security_group_rules"]}
    assert shown["revision_number"] == group["revision_number"] + 1
    body = {k: made[k] for k in ("security_group_id", "direction", "protocol", "port_range_min", "port_range_max")}
    body["remote_ip_prefix"] = "10.0.0.9/8"
    api.post("/security-group-rules", {"security_group_rule": body}).refused(409, "SecurityGroupRuleExists")
    api.as_stranger().delete(f"/security-group-rules/{made['id']}").expect(404)
    api.delete(f"/security-group-rules/{made['id']}").expect(204)
    api.delete(f"/security-group-rules/{made['id']}").refused(404, "SecurityGroupRuleNotFound")
    assert api.show("security_group", group["id"])["revision_number"] == group["revision_number"] + 2
    found = api.all("/security-group-rules", {"security_group_id": group["id"], "direction": "egress"})
    assert {r["ethertype"] for r in found} == {"IPv4", "IPv6"}
    by_port = api.all("/security-group-rules", {"security_group_id": group["id"], "port_range_min": 80})
    assert by_port == []


def test_invalid_rules_are_refused(api: Api) -> None:
    group = api.make("security_group", name="web")
    for values in (
        {"port_range_min": 80, "port_range_max": 80},
        {"protocol": "tcp", "port_range_min": 90, "port_range_max": 80},
        {"protocol": "tcp", "port_range_min": 0, "port_range_max": 70000},
        {"protocol": "nonsense"},
        {"direction": "sideways"},
        {"ethertype": "IPX"},
        {"remote_ip_prefix": "fd00::/64", "ethertype": "IPv4"},
        {"remote_ip_prefix": "10.0.0.0/8", "remote_group_id": group["id"]},
        {"protocol": "icmp", "port_range_max": 3},
    ):
        body = {"security_group_id": group["id"], "direction": "ingress", **values}
        api.post("/security-group-rules", {"security_group_rule": body}).expect(400)
    for nobody in ("00000000-0000-0000-0000-000000000000", "no id at all"):
        body = {"security_group_id": group["id"], "direction": "ingress", "remote_group_id": nobody}
        api.post("/security-group-rules", {"security_group_rule": body}).refused(404, "SecurityGroupNotFound")
    assert len(api.show("security_group", group["id"])["security_group_rules"]) == 2


@pytest.mark.every_database
def test_a_bulk_create_of_rules_is_all_or_nothing(api: Api) -> None:
    group = api.make("security_group", name="web")
    one = {"security_group_id": group["id"], "direction": "ingress", "protocol": "tcp"}
    api.post("/security-group-rules", {"security_group_rules": [one, one]}).expect(409)
    assert len(api.show("security_group", group["id"])["security_group_rules"]) == 2
    both = {"security_group_rules": [one, {**one, "protocol": "udp", "ethertype": "IPv6"}]}
    assert len(api.post("/security-group-rules", both).expect(201).body["security_group_rules"]) == 2


@pytest.mark.every_database
def test_rules_that_refer_to_a_group_are_deleted_with_it(api: Api) -> None:
    one, two = api.make("security_group", name="one"), api.make("security_group", name="two")
    about = rule(api, two, remote_group_id=one["id"])
    api.delete(f"/security-groups/{one['id']}").expect(204)
    api.get(f"/security-group-rules/{about['id']}").expect(404)
    used = api.get(f"/quotas/{api.project}/details").body["quota"]["security_group_rule"]["used"]
    assert used == len(api.all("/security-group-rules"))


@pytest.mark.every_database
def test_address_groups(api: Api) -> None:
    made = api.make("address_group", name="hosts", addresses=["10.0.0.1/32", "fd00::/64"])
    path = f"/address-groups/{made['id']}"
    added = api.put(f"{path}/add_addresses", {"addresses": ["10.0.0.2/32"]}).expect(200).body
    assert len(added["address_group"]["addresses"]) == 3
    api.put(f"{path}/add_addresses", {"addresses": ["10.0.0.2/32"]}).expect(400)
    api.put(f"{path}/remove_addresses", {"addresses": ["10.9.9.9/32"]}).expect(404)
    left = api.put(f"{path}/remove_addresses", {"addresses": ["fd00::/64"]}).expect(200).body
    assert sorted(left["address_group"]["addresses"]) == ["10.0.0.1/32", "10.0.0.2/32"]
    group = api.make("security_group", name="web")
    used_by = rule(api, group, remote_address_group_id=made["id"])
    api.delete(path).refused(409, "AddressGroupInUse")
    api.delete(f"/security-group-rules/{used_by['id']}").expect(204)
    api.delete(path).expect(204)
    api.get(path).expect(404)
