"""Rules about the caller itself, and rules by both names of an attribute, in an operator's policy file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from neutrino.model.objects import Object
from neutrino.server.main import Server
from tests.api.client import Api, Response

Make = Callable[..., Api]


@pytest.fixture
def with_rules(another_server: Callable[..., Server], tmp_path: Path) -> Make:
    def make(rules: dict[str, str], **options: str) -> Api:
        path = tmp_path / "policy.yaml"
        path.write_text(json.dumps(rules))
        return Api(another_server({"oslo_policy": {"policy_file": str(path), **options}}).app)

    return make


def test_global_access_reads_what_the_rules_of_reading_allow(with_rules: Make) -> None:
    shown = "role:auditor and field:networks:name=~^open or rule:admin_only or project_id:%(project_id)s"
    api = with_rules({"context_with_global_access": "role:auditor", "get_network": shown})
    made = {name: api.network(name=name)["id"] for name in ("open", "shut")}
    auditor = Api(api.app, roles="auditor,reader")
    own = auditor.as_member(auditor.project).network(name="own")["id"]
    assert {each["id"] for each in auditor.all("/networks")} == {made["open"], own}
    auditor.get(f"/networks/{made['open']}").expect(200)
    auditor.get(f"/networks/{made['shut']}").expect(404)
    assert [each["id"] for each in auditor.all("/networks", {"limit": 1, "name": "open"})] == [made["open"]]
    assert Api(api.app, roles="reader").all("/networks") == []


def test_roles_that_create_for_other_projects(with_rules: Make) -> None:
    rules = {"context_can_set_project_id": "role:provisioner", "create_network": "role:provisioner or rule:admin_only"}
    api = with_rules(rules)
    provisioner = Api(api.app, roles="provisioner")
    body = {"network": {"project_id": api.project}}
    assert provisioner.post("/networks", body).expect(201).body["network"]["project_id"] == api.project
    Api(api.app).post("/networks", body).refused(400, "HTTPBadRequest")


@pytest.mark.parametrize("rule", ["target_tenant", "target_project"])
@pytest.mark.parametrize("given", ["target_tenant", "target_project"])
def test_targets_of_rbac_policies_have_rules_by_both_names(with_rules: Make, rule: str, given: str) -> None:
    forbidden = f"rule:admin_only or not field:rbac_policy:{rule}=p2"
    api = with_rules({f"{verb}_rbac_policy:{rule}": forbidden for verb in ("create", "update")})
    network = api.network()
    body = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared"}
    for target in ("p2", "*"):
        api.post("/rbac-policies", {"rbac_policy": {**body, given: target}}).refused(403, "PolicyNotAuthorized")
    made = api.post("/rbac-policies", {"rbac_policy": {**body, given: "p3"}}).expect(201).body["rbac_policy"]
    api.put(f"/rbac-policies/{made['id']}", {"rbac_policy": {given: "p2"}}).refused(403, "PolicyNotAuthorized")
    api.put(f"/rbac-policies/{made['id']}", {"rbac_policy": {given: "p4"}}).expect(200)


SCOPES = [{"X-Domain-Id": "default"}, {"OpenStack-System-Scope": "all"}]


@pytest.mark.parametrize("scope", SCOPES, ids=["domain", "system"])
def test_an_administrator_of_a_domain_is_none_of_the_cloud(with_rules: Make, scope: dict[str, str]) -> None:
    api = with_rules({"get_router": "role:admin and (domain_id:default or system_scope:all)"})
    network, router = api.network(), api.make("router")
    headers = {"X-Project-Id": "", **scope}
    body = {"network": {"project_id": api.project}}

    def call(method: str, path: str, body: Object | None = None) -> Response:
        return api.as_admin().call(method, path, body, headers=headers)

    assert call("GET", "/networks").expect(200).body == {"networks": []}
    call("GET", f"/networks/{network['id']}").expect(404)
    call("DELETE", f"/networks/{network['id']}").expect(404)
    call("POST", "/networks", body).refused(403, "PolicyNotAuthorized")
    assert call("GET", "/agents").expect(200).body == {"agents": []}
    call("GET", f"/quotas/{api.project}").refused(403, "PolicyNotAuthorized")
    # A rule of the operator's may be for such tokens.
    assert call("GET", f"/routers/{router['id']}").expect(200).body["router"]["id"] == router["id"]
    call("DELETE", f"/routers/{router['id']}").refused(403, "PolicyNotAuthorized")


def test_rights_on_logs_and_metering_rules_are_for_the_own_project(with_rules: Make) -> None:
    names = ("create_log", "get_log", *(f"{verb}_metering_label_rule" for verb in ("create", "get", "delete")))
    api = with_rules(dict.fromkeys(names, "role:manager or rule:admin_only"))
    manager = Api(api.app, roles="manager,member,reader")
    own, other = (each.make("security_group", name="g") for each in (manager, api))
    port = api.port(api.network())
    log = {"resource_type": "security_group"}
    manager.post("/log/logs", {"log": {**log, "resource_id": own["id"]}}).expect(201)
    manager.post("/log/logs", {"log": {**log, "resource_id": other["id"]}}).refused(404, "ResourceNotFound")
    manager.post("/log/logs", {"log": {**log, "target_id": port["id"]}}).refused(404, "TargetResourceNotFound")
    labels = [each.as_admin().make("metering_label") for each in (manager, api)]
    rules = "/metering/metering-label-rules"
    rule = {"direction": "ingress", "remote_ip_prefix": "10.0.0.0/24"}

    def body(label: Object) -> Object:
        return {"metering_label_rule": {**rule, "metering_label_id": label["id"]}}

    mine = manager.post(rules, body(labels[0])).expect(201).body["metering_label_rule"]
    manager.post(rules, body(labels[1])).refused(404, "MeteringLabelNotFound")
    theirs = api.as_admin().post(rules, body(labels[1])).expect(201).body["metering_label_rule"]
    manager.delete(f"{rules}/{theirs['id']}").refused(404, "MeteringLabelNotFound")
    manager.delete(f"{rules}/{mine['id']}").expect(204)
