"""Templates of the rules of new security groups, and the default of `stateful`."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.races import before_next_transaction

RULES, STATEFULNESS = "/default-security-group-rules", "/security-groups-default-statefulness"
MATCH = ("direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix")
SSH = {"direction": "ingress", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22}


def template(admin: Api, **values: Any) -> Object:
    body = {"used_in_default_sg": True, "used_in_non_default_sg": True, **values}
    made: Object = (
        admin.post(RULES, {"default_security_group_rule": body}).expect(201).body["default_security_group_rule"]
    )
    return made


def statefulness(admin: Api, **values: Any) -> Object:
    name = "security_group_default_statefulness"
    made: Object = admin.post(STATEFULNESS, {name: values}).expect(201).body[name]
    return made


def matches(rules: list[Object]) -> set[tuple[Any, ...]]:
    return {tuple(rule[name] for name in (*MATCH, "remote_group_id")) for rule in rules}


def default_group(api: Api) -> Object:
    (group,) = api.all("/security-groups", {"name": "default"})
    return group


@pytest.fixture
def clean(admin: Api) -> Iterator[None]:
    """Templates and settings are of the whole cloud: a test leaves none behind."""
    before = {rule["id"] for rule in admin.all(RULES)}
    yield
    for rule in admin.all(RULES):
        if rule["id"] not in before:
            admin.delete(f"{RULES}/{rule['id']}").expect(204)
    for setting in admin.all(STATEFULNESS):
        admin.delete(f"{STATEFULNESS}/{setting['id']}").expect(204)


pytestmark = pytest.mark.usefixtures("clean")


# --- templates --------------------------------------------------------------------------------------------------------


def test_the_initial_templates_are_neutrons(api: Api) -> None:
    found = api.all(RULES)
    shown = {(r["direction"], r["ethertype"], r["remote_group_id"], r["used_in_non_default_sg"]) for r in found}
    assert shown == {
        ("egress", "IPv4", None, True),
        ("egress", "IPv6", None, True),
        ("ingress", "IPv4", "PARENT", False),
        ("ingress", "IPv6", "PARENT", False),
    }
    assert all(r["used_in_default_sg"] for r in found)
    assert {r["description"] for r in found} == {
        "Legacy default SG rule for egress traffic",
        "Legacy default SG rule for ingress traffic",
    }
    assert [r["direction"] for r in api.all(RULES, {"remote_group_id": "PARENT", "ethertype": "IPv6"})] == ["ingress"]


def test_a_template_has_the_attributes_of_neutrons(admin: Api) -> None:
    made = template(admin, **SSH, used_in_default_sg=False)
    assert made == {
        **SSH,
        "id": made["id"],
        "ethertype": "IPv4",
        "remote_ip_prefix": None,
        "remote_group_id": None,
        "remote_address_group_id": None,
        "description": "",
        "used_in_default_sg": False,
        "used_in_non_default_sg": True,
    }
    assert admin.get(f"{RULES}/{made['id']}").expect(200).body == {"default_security_group_rule": made}
    admin.delete(f"{RULES}/{made['id']}").expect(204)
    admin.get(f"{RULES}/{made['id']}").refused(404, "DefaultSecurityGroupRuleNotFound")
    admin.delete(f"{RULES}/{made['id']}").refused(404, "DefaultSecurityGroupRuleNotFound")


def test_new_groups_get_the_templates_for_them(api: Api, admin: Api) -> None:
    template(admin, **SSH, used_in_default_sg=False)
    template(admin, direction="ingress", protocol="icmp", used_in_non_default_sg=False)
    template(admin, direction="ingress", protocol="udp", remote_group_id="PARENT", used_in_default_sg=False)
    default, own = default_group(api), api.make("security_group", name="own")
    egress = {("egress", version, *[None] * 5) for version in ("IPv4", "IPv6")}
    assert matches(default["security_group_rules"]) == egress | {
        ("ingress", "IPv4", *[None] * 4, default["id"]),
        ("ingress", "IPv6", *[None] * 4, default["id"]),
        ("ingress", "IPv4", "icmp", *[None] * 4),
    }
    assert matches(own["security_group_rules"]) == egress | {
        ("ingress", "IPv4", "tcp", 22, 22, None, None),
        ("ingress", "IPv4", "udp", None, None, None, own["id"]),
    }
    assert {rule["description"] for rule in own["security_group_rules"]} == {None}
    found = api.all("/security-group-rules", {"security_group_id": own["id"], "port_range_min": 22})
    assert [rule["protocol"] for rule in found] == ["tcp"]


def test_a_change_of_templates_leaves_existing_groups_alone(api: Api, admin: Api) -> None:
    before = api.show("security_group", api.make("security_group", name="before")["id"])
    made = template(admin, **SSH)
    assert api.show("security_group", before["id"]) == before
    between = api.make("security_group", name="between")
    admin.delete(f"{RULES}/{made['id']}").expect(204)
    assert len(api.show("security_group", between["id"])["security_group_rules"]) == 3
    assert len(api.make("security_group", name="after")["security_group_rules"]) == 2


def test_without_templates_a_new_group_has_no_rules(another_server: Any) -> None:
    admin = Api(another_server().app).as_admin()
    for rule in admin.all(RULES):
        admin.delete(f"{RULES}/{rule['id']}").expect(204)
    assert default_group(admin)["security_group_rules"] == []
    assert admin.make("security_group", name="own")["security_group_rules"] == []


@pytest.mark.every_database
def test_a_rule_has_one_template_for_each_kind_of_group(admin: Api) -> None:
    first = template(admin, **SSH, used_in_default_sg=False)
    body = {**SSH, "used_in_default_sg": True, "used_in_non_default_sg": True}
    for other in (body, {**body, "used_in_default_sg": False}, {**body, "remote_ip_prefix": "0.0.0.0/0"}):
        answer = admin.post(RULES, {"default_security_group_rule": other})
        assert first["id"] in answer.refused(409, "DefaultSecurityGroupRuleExists").message
    second = template(admin, **SSH, used_in_non_default_sg=False)
    assert second["id"] != first["id"]
    template(admin, **SSH, used_in_default_sg=False, used_in_non_default_sg=False)
    template(admin, **SSH, remote_ip_prefix="10.0.0.0/8")


def test_a_template_is_a_valid_rule(admin: Api) -> None:
    used = {"used_in_default_sg": True, "used_in_non_default_sg": True}
    nobody = "00000000-0000-4000-8000-00000000dead"
    for values, status, kind in (
        ({"direction": "ingress"}, 400, "HTTPBadRequest"),
        ({"direction": "ingress", "used_in_default_sg": True}, 400, "HTTPBadRequest"),
        ({**used}, 400, "HTTPBadRequest"),
        ({**used, "direction": "sideways"}, 400, "HTTPBadRequest"),
        ({**used, "direction": "ingress", "security_group_id": nobody}, 400, "HTTPBadRequest"),
        ({**used, "direction": "ingress", "port_range_min": 1, "port_range_max": 2}, 400, ""),
        ({**used, **SSH, "port_range_min": 23}, 400, "SecurityGroupInvalidPortRange"),
        ({**used, **SSH, "remote_ip_prefix": "fd00::/8"}, 400, "SecurityGroupRuleParameterConflict"),
        (
            {**used, **SSH, "remote_ip_prefix": "10.0.0.0/8", "remote_group_id": "PARENT"},
            *(400, "SecurityGroupMultipleRemoteEntites"),
        ),
        ({**used, **SSH, "remote_group_id": nobody}, 404, "SecurityGroupNotFound"),
        ({**used, **SSH, "remote_address_group_id": nobody}, 404, "AddressGroupNotFound"),
    ):
        admin.post(RULES, {"default_security_group_rule": values}).refused(status, kind)
    made = template(admin, **SSH)
    admin.put(f"{RULES}/{made['id']}", {"default_security_group_rule": {"description": "x"}}).expect(405)
    several = {"default_security_group_rules": [{**used, **SSH}]}
    admin.post(RULES, several).refused(400, "HTTPBadRequest")


def test_remote_groups_of_templates(api: Api, admin: Api) -> None:
    """A template goes with the group that it names; an address group stays as long as a template names it."""
    bastion = admin.make("security_group", name="bastion")
    addresses = admin.make("address_group", "address-groups", name="offices", addresses=["192.0.2.0/24"])
    from_group = template(admin, **SSH, remote_group_id=bastion["id"])
    from_addresses = template(admin, **SSH, remote_address_group_id=addresses["id"])
    rules = api.make("security_group", name="own")["security_group_rules"]
    assert {r["remote_group_id"] for r in rules} == {None, bastion["id"]}
    assert {r["remote_address_group_id"] for r in rules} == {None, addresses["id"]}
    admin.delete(f"/security-groups/{bastion['id']}").expect(204)
    assert from_group["id"] not in {rule["id"] for rule in admin.all(RULES)}
    api.delete(f"/security-groups/{rules[0]['security_group_id']}").expect(204)
    admin.delete(f"/address-groups/{addresses['id']}").refused(409, "AddressGroupInUse")
    for group in admin.all("/security-groups", {"project_id": admin.project}):
        if group["name"] != "default":
            admin.delete(f"/security-groups/{group['id']}").expect(204)
    admin.delete(f"{RULES}/{from_addresses['id']}").expect(204)


def test_only_administrators_change_templates(api: Api, admin: Api) -> None:
    made = template(admin, **SSH)
    body = {"used_in_default_sg": True, "used_in_non_default_sg": False, "direction": "egress", "protocol": "tcp"}
    api.post(RULES, {"default_security_group_rule": body}).refused(403, "PolicyNotAuthorized")
    # The recorded exchange: a body without required attributes is refused first.
    api.post(RULES, {"default_security_group_rule": {"direction": "ingress"}}).refused(400, "HTTPBadRequest")
    api.delete(f"{RULES}/{made['id']}").refused(403, "PolicyNotAuthorized")
    assert made in api.as_stranger().as_reader().all(RULES)


# --- statefulness -----------------------------------------------------------------------------------------------------


def test_the_statefulness_of_new_groups(api: Api, admin: Api) -> None:
    other = api.as_stranger()
    assert api.make("security_group", name="builtin")["stateful"] is True
    for_all = statefulness(admin, project_id=None, stateful=False)
    assert for_all == {"id": for_all["id"], "project_id": None, "tenant_id": None, "stateful": False}
    assert api.make("security_group", name="by the cloud")["stateful"] is False
    assert default_group(other)["stateful"] is False
    assert default_group(api)["stateful"] is True  # it exists already
    own = statefulness(admin, project_id=api.project, stateful=True)
    assert api.make("security_group", name="by the project")["stateful"] is True
    assert api.make("security_group", name="as asked", stateful=False)["stateful"] is False
    assert other.make("security_group", name="by the cloud")["stateful"] is False
    changed = admin.put(
        f"{STATEFULNESS}/{own['id']}", {"security_group_default_statefulness": {"stateful": False}}
    ).expect(200)
    assert changed.body["security_group_default_statefulness"] == {**own, "stateful": False}
    assert api.make("security_group", name="changed")["stateful"] is False
    admin.delete(f"{STATEFULNESS}/{own['id']}").expect(204)
    admin.delete(f"{STATEFULNESS}/{for_all['id']}").expect(204)
    assert api.make("security_group", name="builtin again")["stateful"] is True


@pytest.mark.every_database
def test_one_setting_for_each_project(api: Api, admin: Api) -> None:
    name = "security_group_default_statefulness"
    statefulness(admin, project_id=None)
    assert statefulness(admin, stateful=False)["project_id"] == admin.project
    for project in (None, admin.project):
        answer = admin.post(STATEFULNESS, {name: {"project_id": project, "stateful": True}})
        answer.refused(409, "SecurityGroupDefaultStatefulnessAlreadyExists")
    missing = f"{STATEFULNESS}/00000000-0000-4000-8000-00000000dead"
    for answer in (admin.get(missing), admin.delete(missing), admin.put(missing, {name: {"stateful": True}})):
        answer.refused(404, "SecurityGroupDefaultStatefulnessNotFound")
    admin.post(STATEFULNESS, {name: {"project_id": None, "stateful": "perhaps"}}).refused(400)
    assert [s["stateful"] for s in admin.all(STATEFULNESS, {"project_id": admin.project})] == [False]


def test_a_manager_sets_it_for_the_own_project(api: Api, admin: Api) -> None:
    name = "security_group_default_statefulness"
    for_all = statefulness(admin, project_id=None, stateful=False)
    manager = replace(api, roles="manager,member,reader")
    own = statefulness(manager, stateful=False)
    assert own["project_id"] == api.project
    assert api.all(STATEFULNESS) == [own]  # that of the cloud is for administrators
    api.get(f"{STATEFULNESS}/{for_all['id']}").expect(404)
    assert api.as_stranger().all(STATEFULNESS) == []
    assert {s["id"] for s in admin.all(STATEFULNESS)} == {own["id"], for_all["id"]}
    api.post(STATEFULNESS, {name: {"stateful": False}}).refused(403, "PolicyNotAuthorized")
    api.put(f"{STATEFULNESS}/{own['id']}", {name: {"stateful": True}}).refused(403, "PolicyNotAuthorized")
    api.delete(f"{STATEFULNESS}/{own['id']}").refused(403, "PolicyNotAuthorized")
    for project in (None, "someone else"):
        manager.post(STATEFULNESS, {name: {"project_id": project}}).refused(400, "HTTPBadRequest")
    manager.put(f"{STATEFULNESS}/{own['id']}", {name: {"stateful": True}}).expect(200)
    manager.put(f"{STATEFULNESS}/{for_all['id']}", {name: {"stateful": True}}).expect(404)
    manager.delete(f"{STATEFULNESS}/{own['id']}").expect(204)


@pytest.mark.every_database
def test_of_equal_ones_at_once_one_is_created(admin: Api) -> None:
    rule = {"default_security_group_rule": {**SSH, "used_in_default_sg": True, "used_in_non_default_sg": True}}
    setting = {"security_group_default_statefulness": {"project_id": None}}
    for path, body in ((RULES, rule), (STATEFULNESS, setting)):
        with ThreadPoolExecutor(6) as pool:
            statuses = list(pool.map(lambda _, path=path, body=body: admin.post(path, body).status, range(6)))
        assert sorted(statuses) == [201, *[409] * 5]


@pytest.mark.every_database
def test_a_remote_group_that_is_deleted_meanwhile(
    server: Server, api: Api, admin: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new group is made without the rule, rather than refused."""
    bastion = admin.make("security_group", name="bastion")
    template(admin, **SSH, remote_group_id=bastion["id"])
    default_group(api)
    before_next_transaction(server, monkeypatch, lambda: admin.delete(f"/security-groups/{bastion['id']}").expect(204))
    made = api.make("security_group", name="own")
    assert {rule["direction"] for rule in made["security_group_rules"]} == {"egress"}
