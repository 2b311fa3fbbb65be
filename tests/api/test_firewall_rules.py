"""Firewall rules and policies: validation, order, sharing, audited, refusals, quotas, tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.errors import RefusedToStart
from neutrino.features.firewall.resources import MAX_RULES
from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.firewalls import policy_with

RULES, POLICIES = "/fwaas/firewall_rules", "/fwaas/firewall_policies"


# --- rules ------------------------------------------------------------------------------------------------------------


def test_a_rule_has_neutrons_defaults(api: Api) -> None:
    rule = api.make("firewall_rule")
    wanted: Object = {
        "name": "",
        "description": "",
        "action": "deny",
        "enabled": True,
        "shared": False,
        "ip_version": 4,
        "firewall_policy_id": None,
        "tags": [],
        "project_id": api.project,
        "tenant_id": api.project,
    }
    wanted |= dict.fromkeys(
        ("protocol", "source_ip_address", "destination_ip_address", "source_port", "destination_port")
    )
    assert {name: rule[name] for name in wanted} == wanted
    assert api.show("firewall_rule", rule["id"]) == rule
    api.delete(f"{RULES}/{rule['id']}").expect(204)
    api.get(f"{RULES}/{rule['id']}").refused(404, "FirewallRuleNotFound")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"protocol": "TCP", "destination_port": 80}, {"protocol": "tcp", "destination_port": "80"}),
        ({"protocol": "udp", "source_port": "53:53"}, {"source_port": "53"}),
        ({"protocol": "6", "source_port": "1024:65535"}, {"protocol": "6", "source_port": "1024:65535"}),
        ({"protocol": 47, "action": "REJECT"}, {"protocol": "47", "action": "reject"}),
        ({"source_ip_address": "192.0.2.7/24"}, {"source_ip_address": "192.0.2.7/24"}),
        ({"ip_version": "6", "destination_ip_address": "2001:db8::1"}, {"ip_version": 6}),
        ({"protocol": "ipv6-icmp", "ip_version": 6}, {"protocol": "ipv6-icmp"}),
    ],
)
def test_values_that_a_rule_takes(api: Api, given: Object, shown: Object) -> None:
    rule = api.make("firewall_rule", **given)
    assert {name: rule[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"protocol": "nonsense"}, "InvalidInput"),
        ({"protocol": "256"}, "InvalidInput"),
        ({"protocol": True}, "InvalidInput"),
        ({"action": "drop"}, "HTTPBadRequest"),
        ({"action": 1}, "InvalidInput"),
        ({"ip_version": 5}, "HTTPBadRequest"),
        ({"source_port": "80", "protocol": None}, "FirewallRuleWithPortWithoutProtocolInvalid"),
        ({"destination_port": "80", "protocol": "icmp"}, "FirewallRuleInvalidICMPParameter"),
        ({"destination_port": "80", "protocol": "sctp"}, "FirewallRuleInvalidICMPParameter"),
        ({"source_port": "90:80", "protocol": "tcp"}, "HTTPBadRequest"),
        ({"source_port": "80:", "protocol": "tcp"}, "HTTPBadRequest"),
        ({"source_port": "65536", "protocol": "tcp"}, "HTTPBadRequest"),
        ({"source_port": "1:2:3", "protocol": "tcp"}, "HTTPBadRequest"),
        ({"source_port": "٣", "protocol": "tcp"}, "HTTPBadRequest"),
        ({"source_ip_address": "2001:db8::/64"}, "FirewallIpAddressConflict"),
        ({"destination_ip_address": "192.0.2.1", "ip_version": 6}, "FirewallIpAddressConflict"),
        ({"source_ip_address": "somewhere"}, "HTTPBadRequest"),
        ({"source_ip_address": f"10.0.0.0/{'0' * 300}8"}, "HTTPBadRequest"),
        ({"source_ip_address": "fe80::1%eth0", "ip_version": 6}, "HTTPBadRequest"),
        ({"position": 1}, "HTTPBadRequest"),
        ({"firewall_policy_id": []}, "HTTPBadRequest"),
    ],
)
def test_values_that_a_rule_refuses(api: Api, values: Object, error: str) -> None:
    api.post(RULES, {"firewall_rule": values}).refused(400, error)


def test_an_update_is_checked_together_with_what_stays(api: Api) -> None:
    rule = api.make("firewall_rule", protocol="tcp", destination_port="80", source_ip_address="192.0.2.1")
    path = f"{RULES}/{rule['id']}"
    for values, error in (
        ({"protocol": "icmp"}, "FirewallRuleInvalidICMPParameter"),
        ({"protocol": None}, "FirewallRuleWithPortWithoutProtocolInvalid"),
        ({"ip_version": 6}, "FirewallIpAddressConflict"),
    ):
        api.put(path, {"firewall_rule": values}).refused(400, error)
    changed = api.change("firewall_rule", rule["id"], protocol=None, destination_port=None, action="allow")
    assert (changed["protocol"], changed["destination_port"], changed["action"]) == (None, None, "allow")
    assert changed["revision_number"] == rule["revision_number"] + 1


def test_a_rule_shows_its_policies_and_stays_while_it_has_some(api: Api) -> None:
    rule = api.make("firewall_rule")
    policies = sorted(api.make("firewall_policy", firewall_rules=[rule["id"]])["id"] for _ in range(2))
    assert api.show("firewall_rule", rule["id"])["firewall_policy_id"] == policies
    assert api.change("firewall_rule", rule["id"], name="x")["firewall_policy_id"] == policies
    assert [each["firewall_policy_id"] for each in api.all(RULES, {"id": rule["id"]})] == [policies]
    assert [each["id"] for each in api.all(RULES, {"firewall_policy_id": policies[1]})] == [rule["id"]]
    api.delete(f"{RULES}/{rule['id']}").refused(409, "FirewallRuleInUse")
    for policy in policies:
        api.delete(f"{POLICIES}/{policy}").expect(204)
    api.delete(f"{RULES}/{rule['id']}").expect(204)


def test_a_changed_rule_updates_its_groups_by_the_ids_of_policies(api: Api) -> None:
    """By a subquery, PostgreSQL and MariaDB would read all groups."""
    policy = policy_with(api, {})
    group = api.make("firewall_group", egress_firewall_policy_id=policy["id"])
    other = api.make("firewall_group", egress_firewall_policy_id=policy_with(api, {})["id"])
    updates = list[str]()

    def listen(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("UPDATE firewall_groups"):
            updates.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", listen)
    try:
        api.change("firewall_rule", policy["firewall_rules"][0], action="allow")
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", listen)
    assert len(updates) == 1
    assert "SELECT" not in updates[0]
    assert api.show("firewall_group", group["id"])["revision_number"] == group["revision_number"] + 1
    assert api.show("firewall_group", other["id"])["revision_number"] == other["revision_number"]


@pytest.mark.every_database
def test_lists_filter_rules(api: Api) -> None:
    web = api.make("firewall_rule", protocol="tcp", destination_port="80", action="allow", name="web")
    dns = api.make("firewall_rule", protocol="udp", destination_port="53", enabled=False)

    def found(**query: str) -> list[str]:
        default = ("default ingress", "default egress")  # rules of the project's default group
        return sorted(each["id"] for each in api.all(RULES, query) if not each["name"].startswith(default))

    assert found() == sorted([web["id"], dns["id"]])
    for query in ({"name": "web"}, {"protocol": "tcp"}, {"action": "allow"}, {"destination_port": "80"}):
        assert found(**query) == [web["id"]]
    assert found(enabled="False") == [dns["id"]]
    assert found(ip_version="6") == []


# --- policies ---------------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_rules_are_inserted_and_removed(api: Api) -> None:
    policy = policy_with(api)
    rules = [api.make("firewall_rule")["id"] for _ in range(4)]
    path = f"{POLICIES}/{policy['id']}"

    def insert(rule: str, **where: str) -> Object:
        answer = api.put(f"{path}/insert_rule", {"firewall_rule_id": rule, **where}).expect(200).body
        assert "firewall_policy" not in answer  # as in Neutron, without an envelope
        assert answer == api.show("firewall_policy", policy["id"])
        return dict(answer)

    a, b, c, d = rules
    assert insert(a, insert_before="", insert_after="")["firewall_rules"] == [a]
    assert insert(b)["firewall_rules"] == [b, a]
    assert insert(c, insert_after=b)["firewall_rules"] == [b, c, a]
    assert insert(d, insert_before=a, insert_after=b)["firewall_rules"] == [b, c, d, a]
    removed = api.put(f"{path}/remove_rule", {"firewall_rule_id": c}).expect(200).body
    assert removed["firewall_rules"] == [b, d, a]
    assert api.show("firewall_rule", c)["firewall_policy_id"] is None
    assert api.change("firewall_policy", policy["id"], firewall_rules=[a, c])["firewall_rules"] == [a, c]
    assert [each["id"] for each in api.all(POLICIES, {"firewall_rules": c})] == [policy["id"]]
    assert api.all(POLICIES, {"firewall_rules": d}) == []


def test_rules_that_cannot_be_inserted_or_removed(api: Api, admin: Api) -> None:
    policy = policy_with(api, {})
    rule, other = policy["firewall_rules"][0], api.make("firewall_rule")["id"]
    foreign = api.as_stranger().make("firewall_rule")["id"]
    unknown = "11111111-2222-3333-4444-555555555555"
    for verb in ("insert_rule", "remove_rule"):
        path = f"{POLICIES}/{policy['id']}/{verb}"
        for body in ({}, None, [], {"rule": rule}):
            api.put(path, body).refused(400, "FirewallRuleInfoMissing")
        for key in (unknown, "no id", 5):
            api.put(path, {"firewall_rule_id": key}).refused(404, "FirewallRuleNotFound")
    insert, remove = f"{POLICIES}/{policy['id']}/insert_rule", f"{POLICIES}/{policy['id']}/remove_rule"
    api.put(insert, {"firewall_rule_id": rule}).refused(409, "FirewallRuleAlreadyAssociated")
    api.put(insert, {"firewall_rule_id": foreign}).refused(404, "FirewallRuleNotFound")
    admin.put(insert, {"firewall_rule_id": foreign}).refused(409, "FirewallRuleConflict")
    for where in ("insert_before", "insert_after"):
        body = {"firewall_rule_id": other, where: foreign}
        api.put(insert, body).refused(400, "FirewallRuleNotAssociatedWithPolicy")
    api.put(insert, {"firewall_rule_id": other, "insert_after": ["x"]}).refused(
        400, "FirewallRuleNotAssociatedWithPolicy"
    )
    api.put(remove, {"firewall_rule_id": other}).refused(400, "FirewallRuleNotAssociatedWithPolicy")
    api.as_stranger().put(insert, {"firewall_rule_id": other}).refused(404, "FirewallPolicyNotFound")
    api.as_reader().put(insert, {"firewall_rule_id": other}).refused(403, "PolicyNotAuthorized")


def test_inserted_rules_are_checked_as_those_of_an_update(api: Api, admin: Api) -> None:
    shared = policy_with(admin, shared=True, project_id=api.project)["id"]
    body = {"firewall_rule_id": api.make("firewall_rule")["id"]}
    api.put(f"{POLICIES}/{shared}/insert_rule", body).refused(404, "FirewallRuleSharingConflict")
    assert api.show("firewall_policy", shared)["firewall_rules"] == []


def test_a_policy_has_a_limited_number_of_rules(api: Api, admin: Api) -> None:
    admin.put(f"/quotas/{api.project}", {"quota": {"firewall_rule": -1}}).expect(200)
    bulk = {"firewall_rules": [{}] * (MAX_RULES // 2)}
    rules = [rule["id"] for _ in range(2) for rule in api.post(RULES, bulk).expect(201).body["firewall_rules"]]
    policy, one = api.make("firewall_policy", firewall_rules=rules[1:])["id"], api.make("firewall_rule")["id"]
    path = f"{POLICIES}/{policy}/insert_rule"
    assert len(api.put(path, {"firewall_rule_id": rules[0]}).expect(200).body["firewall_rules"]) == MAX_RULES
    refused = api.put(path, {"firewall_rule_id": one}).refused(400, "InvalidInput")
    assert f"at most {MAX_RULES} are allowed" in str(refused)


def test_only_administrators_change_the_rules_of_default_policies(api: Api, admin: Api) -> None:
    (group,) = api.all("/fwaas/firewall_groups")
    key = group["ingress_firewall_policy_id"]
    own = api.make("firewall_rule")["id"]
    made = api.show("firewall_policy", key)["firewall_rules"]
    for verb, rule, left in (("insert_rule", own, [own, *made]), ("remove_rule", own, made)):
        path, body = f"{POLICIES}/{key}/{verb}", {"firewall_rule_id": rule}
        api.put(path, body).refused(409, "FirewallDefaultObjectUpdateRestricted")
        assert admin.put(path, body).expect(200).body["firewall_rules"] == left


def test_changes_reset_audited_unless_they_set_it(api: Api) -> None:
    policy = policy_with(api, {}, audited=True)
    rule, key = policy["firewall_rules"][0], policy["id"]
    other = api.make("firewall_rule")["id"]
    assert policy["audited"] is True
    changes: list[Callable[[], object]] = [
        lambda: api.change("firewall_policy", key, name="renamed"),
        lambda: api.change("firewall_rule", rule, description="x"),
        lambda: api.put(f"{POLICIES}/{key}/insert_rule", {"firewall_rule_id": other}).expect(200),
        lambda: api.put(f"{POLICIES}/{key}/remove_rule", {"firewall_rule_id": other}).expect(200),
    ]
    for change in changes:
        assert api.change("firewall_policy", key, audited=True)["audited"] is True
        change()
        assert api.show("firewall_policy", key)["audited"] is False
    assert api.change("firewall_policy", key, firewall_rules=[], audited=True)["audited"] is True


def test_refused_rules_of_a_policy(api: Api, admin: Api) -> None:
    own, foreign = api.make("firewall_rule")["id"], api.as_stranger().make("firewall_rule")["id"]
    unknown = "11111111-2222-3333-4444-555555555555"

    def post(who: Api, **values: Any) -> Any:
        return who.post(POLICIES, {"firewall_policy": values})

    post(api, firewall_rules=[unknown]).refused(404, "FirewallRuleNotFound")
    post(api, firewall_rules=[foreign]).refused(404, "FirewallRuleNotFound")
    post(admin, firewall_rules=[foreign]).refused(409, "FirewallRuleConflict")
    post(api, firewall_rules=[own, own]).refused(400, "HTTPBadRequest")
    post(api, firewall_rules=["x"]).refused(400, "HTTPBadRequest")
    post(admin, firewall_rules=[own], shared=True).refused(404, "FirewallRuleSharingConflict")
    post(api, name="default ingress").refused(409, "FirewallDefaultParameterExists")
    assert post(api, firewall_rules=None).expect(201).body["firewall_policy"]["firewall_rules"] == []
    assert api.all(POLICIES, {"firewall_rules": own}) == []


def test_shared_objects_are_seen_by_all_and_set_by_administrators(api: Api, admin: Api) -> None:
    stranger = api.as_stranger()
    for kind in ("firewall_rule", "firewall_policy", "firewall_group"):
        path = f"/fwaas/{kind.replace('policy', 'policie')}s"
        api.post(path, {kind: {"shared": True}}).refused(403)
        made = api.make(kind)
        api.put(f"{path}/{made['id']}", {kind: {"shared": True}}).refused(403)
        stranger.get(f"{path}/{made['id']}").refused(404)
        assert admin.change(kind, made["id"], shared=True)["shared"] is True
        assert stranger.show(kind, made["id"])["shared"] is True
        assert made["id"] in [each["id"] for each in stranger.all(path, {"shared": "True"})]
        stranger.put(f"{path}/{made['id']}", {kind: {"name": "x"}}).refused(403)
        stranger.delete(f"{path}/{made['id']}").refused(403)


def test_a_policy_is_shared_after_its_rules(api: Api, admin: Api) -> None:
    policy = policy_with(api, {})
    path, body = f"{POLICIES}/{policy['id']}", {"firewall_policy": {"shared": True}}
    admin.put(path, body).refused(409, "FirewallPolicySharingConflict")
    admin.change("firewall_rule", policy["firewall_rules"][0], shared=True)
    admin.put(path, body).expect(200)
    unshared = api.make("firewall_rule")["id"]
    api.put(path, {"firewall_policy": {"firewall_rules": [unshared]}}).refused(404, "FirewallRuleSharingConflict")


def test_a_rule_of_shared_or_foreign_policies_stays_shared(api: Api, admin: Api) -> None:
    body = {"firewall_rule": {"shared": False}}
    for who, values in ((admin, {"shared": True}), (api.as_stranger(), {})):
        rule = admin.make("firewall_rule", shared=True)["id"]
        policy = who.make("firewall_policy", firewall_rules=[rule], **values)["id"]
        admin.put(f"{RULES}/{rule}", body).refused(409, "FirewallRuleInUse")
        admin.change("firewall_rule", rule, name="still shared", shared=True)
        who.change("firewall_policy", policy, firewall_rules=[])
        own = api.make("firewall_policy", firewall_rules=[rule])["id"]
        assert admin.change("firewall_rule", rule, shared=False)["firewall_policy_id"] == [own]


# --- all of them ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["firewall_rule", "firewall_policy", "firewall_group"])
def test_quotas_limit_them(api: Api, admin: Api, kind: str) -> None:
    path = f"/fwaas/{kind.replace('policy', 'policie')}s"
    limits = admin.get(f"/quotas/{api.project}").expect(200).body["quota"]
    assert limits[kind] == (100 if kind == "firewall_rule" else 10)
    api.get("/fwaas/firewall_groups").expect(200)  # the default group and its objects count
    used = admin.get(f"/quotas/{api.project}/details.json").expect(200).body["quota"][kind]["used"]
    assert used == {"firewall_rule": 4, "firewall_policy": 2, "firewall_group": 1}[kind]
    admin.put(f"/quotas/{api.project}", {"quota": {kind: used + 2}}).expect(200)
    made = [api.make(kind)["id"] for _ in range(2)]
    api.post(path, {kind: {}}).refused(409, "OverQuota")
    api.delete(f"{path}/{made[0]}").expect(204)
    api.post(path, {kind: {}}).expect(201)


@pytest.mark.parametrize("kind", ["firewall_rule", "firewall_policy", "firewall_group"])
@pytest.mark.every_database
def test_they_are_created_in_bulk_paged_tagged_and_changed_by_revision(api: Api, kind: str) -> None:
    collection = f"{kind.replace('policy', 'policie')}s"
    path = f"/fwaas/{collection}"
    several = api.post(path, {collection: [{"name": "a"}, {"name": "b"}]}).expect(201).body[collection]
    first = several[0]
    page = api.get(path, {"limit": 1, "name": ["a", "b"]}).expect(200).body
    assert len(page[collection]) == 1
    assert f"/v2.0/fwaas/{collection}?" in page[f"{collection}_links"][0]["href"]
    # Neutron has tags below the collection's name alone.
    for prefix, tag in ((path, "red"), (f"/{collection}", "blue")):
        api.put(f"{prefix}/{first['id']}/tags/{tag}").expect(201)
        assert [each["id"] for each in api.all(path, {"tags": tag})] == [first["id"]]
    assert api.show(kind, first["id"])["tags"] == ["blue", "red"]
    stale = {"If-Match": f"revision_number={first['revision_number']}"}
    api.put(f"{path}/{first['id']}", {kind: {"name": "c"}}, headers=stale).refused(412)
    api.as_reader().post(path, {kind: {}}).refused(403)
    assert {each["id"] for each in api.as_reader().all(path)} >= {each["id"] for each in several}


def test_the_rules_of_default_groups_are_configured(another_server: Callable[..., Server]) -> None:
    options = {"ingress_action": "reject", "protocol": "tcp", "ingress_destination_port": "22"}
    server = another_server({"default_fwg_rules": options | {"egress_source_ipv4_address": "10.0.0.0/8"}})
    api = Api(server.app)
    api.all("/fwaas/firewall_groups")
    rules = {rule["name"]: rule for rule in api.all(RULES)}
    assert rules["default ingress ipv6"]["action"] == "reject"
    assert {rule["protocol"] for rule in rules.values()} == {"tcp"}
    assert rules["default ingress ipv4"]["destination_port"] == "22"
    assert rules["default egress ipv4"]["source_ip_address"] == "10.0.0.0/8"
    assert rules["default egress ipv6"]["source_ip_address"] is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"ingress_source_port": "x", "protocol": "tcp"}, "ingress_source_port"),
        ({"protocol": "x"}, "protocol"),
        ({"egress_source_ipv4_address": "::1"}, "egress_"),
    ],
)
def test_invalid_options_are_named(another_server: Callable[..., Server], options: dict[str, str], named: str) -> None:
    with pytest.raises(RefusedToStart, match=named):
        another_server({"default_fwg_rules": options})
