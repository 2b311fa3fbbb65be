"""Firewall groups: ports, policies, derived status, the default group, refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sqlalchemy as sa

from neutrino.features.firewall.status import FirewallStatus
from neutrino.features.firewall.tables import firewall_groups
from neutrino.feed.messages import Status
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api
from tests.api.firewalls import instance, interface, policy_with
from tests.api.l3 import attach, detach, inside, l3_agent

GROUPS = "/fwaas/firewall_groups"


def test_a_group_has_ports_of_routers_and_instances(api: Api) -> None:
    policy = policy_with(api, {"action": "allow", "protocol": "tcp"})
    ports = sorted([interface(api), instance(api)["id"]])
    made = api.make("firewall_group", name="web", ingress_firewall_policy_id=policy["id"], ports=ports)
    assert made["ports"] == ports
    assert (made["status"], made["admin_state_up"], made["shared"]) == ("PENDING_CREATE", True, False)
    assert made["egress_firewall_policy_id"] is None
    assert api.show("firewall_group", made["id"]) == made
    assert [group["id"] for group in api.all(GROUPS, {"ports": ports[0]})] == [made["id"]]
    assert [group["id"] for group in api.all(GROUPS, {"status": "PENDING_CREATE"})] == [made["id"]]
    changed = api.change("firewall_group", made["id"], ports=[])
    assert (changed["ports"], changed["status"]) == ([], "INACTIVE")
    api.delete(f"{GROUPS}/{made['id']}").expect(204)
    api.get(f"{GROUPS}/{made['id']}").refused(404, "FirewallGroupNotFound")


def test_the_status_is_derived_from_ports_policies_and_admin_state(api: Api) -> None:
    policy = policy_with(api)
    group = api.make("firewall_group", ports=[interface(api)])
    assert group["status"] == "INACTIVE"  # no policy
    for values, status in (
        ({"egress_firewall_policy_id": policy["id"]}, "PENDING_UPDATE"),
        ({"admin_state_up": False}, "DOWN"),
        ({"admin_state_up": True}, "PENDING_UPDATE"),
        ({"ports": []}, "INACTIVE"),
    ):
        assert api.change("firewall_group", group["id"], **values)["status"] == status
        assert api.show("firewall_group", group["id"])["status"] == status


@pytest.mark.every_database
def test_a_deleted_port_leaves_its_group(api: Api) -> None:
    policy = policy_with(api)
    _, subnet = inside(api)
    router = api.make("router")
    port = attach(api, router, subnet_id=subnet["id"]).body["port_id"]
    other = api.port(api.network(), device_owner="compute:z")
    group = api.make("firewall_group", ports=[port, other["id"]], ingress_firewall_policy_id=policy["id"])
    api.delete(f"{GROUPS}/{group['id']}").refused(409, "FirewallGroupInUse")
    api.as_admin().delete(f"/ports/{other['id']}").expect(204)
    assert api.show("firewall_group", group["id"])["ports"] == [port]
    detach(api, router, subnet_id=subnet["id"]).expect(200)
    left = api.show("firewall_group", group["id"])
    assert (left["ports"], left["status"]) == ([], "INACTIVE")
    api.delete(f"{GROUPS}/{group['id']}").expect(204)


def test_ports_cost_no_query_about_firewalls(server: Server, api: Api) -> None:
    """Nor do those of a group: what depends on them is deleted by foreign keys, or derived when it is read."""
    switch(server, "fw1")
    admin, statements = api.as_admin(), list[str]()
    network, _ = inside(api)
    grouped = instance(api)["id"]
    api.make("firewall_group", ports=[grouped], ingress_firewall_policy_id=policy_with(api)["id"])

    def listen(connection: object, cursor: object, statement: str, *rest: object) -> None:
        statements.append(statement)

    sa.event.listen(sa.engine.Engine, "before_cursor_execute", listen)
    try:
        port = admin.port(network, device_owner="compute:nova")["id"]
        for key in (port, grouped):
            admin.change("port", key, binding__host_id="fw1")
            admin.show("port", key)
            admin.delete(f"/ports/{key}").expect(204)
    finally:
        sa.event.remove(sa.engine.Engine, "before_cursor_execute", listen)
    assert len(statements) > 10
    assert [each for each in statements if "firewall" in each] == []


def test_ports_that_a_group_cannot_have(api: Api, admin: Api) -> None:
    network = api.network()
    taken = instance(api)["id"]
    api.make("firewall_group", ports=[taken])

    def refused(port: str, status: int, kind: str, who: Api = api) -> None:
        who.post(GROUPS, {"firewall_group": {"ports": [port]}}).refused(status, kind)

    refused(taken, 409, "FirewallGroupPortInUse")
    refused(api.port(network)["id"], 409, "FirewallGroupPortInvalid")
    refused("11111111-2222-3333-4444-555555555555", 404, "PortNotFound")
    refused("no uuid", 400, "HTTPBadRequest")
    foreign = instance(api.as_stranger())["id"]
    refused(foreign, 404, "PortNotFound")
    refused(foreign, 409, "FirewallGroupPortInvalidProject", admin)
    direct = admin.port(network, device_owner="compute:nova", binding__vnic_type="direct")["id"]
    refused(direct, 409, "FirewallGroupPortNotSupported")
    port = instance(api)["id"]
    twice = {"firewall_groups": [{"ports": [port]}, {"ports": [port]}]}
    api.post(GROUPS, twice).refused(409, "FirewallGroupPortInUse")
    group = api.make("firewall_group", ports=[port])
    api.put(f"{GROUPS}/{group['id']}", {"firewall_group": {"ports": [port, taken]}}).refused(
        409, "FirewallGroupPortInUse"
    )


def test_policies_that_a_group_cannot_have(api: Api, admin: Api) -> None:
    stranger = api.as_stranger()
    own, shared = policy_with(stranger), policy_with(stranger.as_admin(), shared=True)
    body = {"firewall_group": {"ingress_firewall_policy_id": own["id"]}}
    api.post(GROUPS, body).refused(404, "FirewallPolicyNotFound")
    admin.post(GROUPS, body).refused(404, "FirewallPolicyConflict")
    group = api.make("firewall_group", egress_firewall_policy_id=shared["id"])
    stranger.as_admin().put(f"/fwaas/firewall_policies/{shared['id']}", {"firewall_policy": {"shared": False}}).refused(
        409, "FirewallPolicyInUse"
    )
    api.put(f"{GROUPS}/{group['id']}", body).refused(404, "FirewallPolicyNotFound")


# --- the default group ------------------------------------------------------------------------------------------------


@pytest.mark.every_database
def test_the_default_group_is_created_by_the_first_list(api: Api, admin: Api) -> None:
    (group,) = api.all(GROUPS)
    assert (group["name"], group["description"]) == ("default", "Default firewall group")
    assert (group["status"], group["ports"]) == ("INACTIVE", [])
    for direction, action in (("ingress", "deny"), ("egress", "allow")):
        policy = api.show("firewall_policy", group[f"{direction}_firewall_policy_id"])
        assert policy["name"] == f"default {direction}"
        rules = [api.show("firewall_rule", key) for key in policy["firewall_rules"]]
        assert [(rule["name"], rule["ip_version"], rule["action"]) for rule in rules] == [
            (f"default {direction} ipv4", 4, action),
            (f"default {direction} ipv6", 6, action),
        ]
        path = f"/fwaas/firewall_policies/{policy['id']}"
        api.put(path, {"firewall_policy": {"name": "x"}}).refused(409, "FirewallDefaultObjectUpdateRestricted")
        api.delete(path).refused(409, "FirewallPolicyInUse")
    path = f"{GROUPS}/{group['id']}"
    for name, value in (("description", "x"), ("admin_state_up", False), ("ingress_firewall_policy_id", None)):
        body = {"firewall_group": {name: value}}
        api.put(path, body).refused(409, "FirewallDefaultObjectUpdateRestricted")
        admin.put(path, body).expect(200)
    for who in (api, admin):
        who.put(path, {"firewall_group": {"name": "x"}}).refused(409, "FirewallDefaultObjectUpdateRestricted")
    port = instance(api)["id"]
    assert api.change("firewall_group", group["id"], ports=[port])["ports"] == [port]
    api.change("firewall_group", group["id"], ports=[])
    api.delete(path).refused(409, "FirewallGroupCannotRemoveDefault")


@pytest.mark.parametrize(("path", "count"), [("/fwaas/firewall_rules", 4), ("/fwaas/firewall_policies", 2)])
def test_the_default_group_is_created_by_a_list_of_its_rules_or_policies(api: Api, path: str, count: int) -> None:
    assert len(api.all(path, {"project_id": api.project})) == count
    assert [group["name"] for group in api.all(GROUPS)] == ["default"]


@pytest.mark.every_database
def test_a_deleted_default_group_takes_its_policies_and_rules_along(api: Api, admin: Api) -> None:
    (group,) = api.all(GROUPS)
    admin.delete(f"{GROUPS}/{group['id']}").expect(204)
    for path in (
        "/fwaas/firewall_policies",
        "/fwaas/firewall_rules",
    ):  # a list of the project's own would create it again
        found = api.as_stranger().as_admin().all(path)
        assert api.project not in {each["project_id"] for each in found}
    (again,) = api.all(GROUPS)
    assert again["id"] != group["id"]
    # A policy of another origin stays, and so does a rule that another policy has.
    other = policy_with(api, {"action": "allow"})
    kept = api.show("firewall_policy", again["egress_firewall_policy_id"])["firewall_rules"][0]
    api.put(f"/fwaas/firewall_policies/{other['id']}/insert_rule", {"firewall_rule_id": kept}).expect(200)
    admin.change("firewall_group", again["id"], ingress_firewall_policy_id=other["id"])
    admin.delete(f"{GROUPS}/{again['id']}").expect(204)
    assert api.show("firewall_policy", other["id"])["firewall_rules"][0] == kept
    api.get(f"/fwaas/firewall_policies/{again['egress_firewall_policy_id']}").refused(404)


def test_a_deleted_default_group_leaves_the_rules_of_other_projects(api: Api, admin: Api) -> None:
    (group,) = api.all(GROUPS)
    foreign = api.as_stranger().as_admin().make("firewall_rule", shared=True, name="default ingress ipv4")["id"]
    path = f"/fwaas/firewall_policies/{group['ingress_firewall_policy_id']}"
    admin.put(f"{path}/insert_rule", {"firewall_rule_id": foreign}).expect(200)
    admin.delete(f"{GROUPS}/{group['id']}").expect(204)
    admin.get(path).refused(404, "FirewallPolicyNotFound")
    assert admin.show("firewall_rule", foreign)["firewall_policy_id"] is None


def test_the_name_default_is_reserved(api: Api) -> None:
    body = {"firewall_group": {"name": "default"}}
    api.post(GROUPS, body).refused(409, "FirewallDefaultParameterExists")
    group = api.make("firewall_group")
    api.put(f"{GROUPS}/{group['id']}", body).refused(409, "FirewallDefaultParameterExists")
    assert sorted(each["name"] for each in api.all(GROUPS)) == ["", "default"]


def test_ports_join_the_default_group_when_they_are_bound(another_server: Callable[..., Server]) -> None:
    server = another_server({"DEFAULT": {"auto_associate_default_firewall_group": "true"}})
    switch(server, "fw1")
    api = Api(server.app)
    admin = api.as_admin()
    network, _ = inside(api)
    owned = {"device_owner": "compute:nova", "project_id": api.project}
    later, grouped = (admin.port(network, **owned) for _ in range(2))
    unowned = admin.port(network, project_id=api.project, binding__host_id="fw1")
    group = api.make("firewall_group", ports=[grouped["id"]])
    for port in (later, grouped):
        admin.change("port", port["id"], binding__host_id="fw1")
    at_once = admin.port(network, binding__host_id="fw1", **owned)
    members = {each["name"]: each["ports"] for each in api.all(GROUPS)}
    assert members == {"default": sorted([later["id"], at_once["id"]]), "": [grouped["id"]]}
    assert api.show("firewall_group", group["id"])["ports"] == [grouped["id"]]
    # Removed by its owner, it stays out until it is bound anew.
    default = api.all(GROUPS, {"name": "default"})[0]["id"]
    api.change("firewall_group", default, ports=[at_once["id"]])
    admin.change("port", later["id"], name="renamed")
    assert api.show("firewall_group", default)["ports"] == [at_once["id"]]
    admin.delete(f"/ports/{unowned['id']}").expect(204)


# --- reports of hosts -------------------------------------------------------------------------------------------------


def report(server: Server, host: str, group_id: str, status: str, *, behind: int = 0, **more: str) -> bool:
    with server.db.read() as connection:
        c = firewall_groups.c
        revision = connection.execute(sa.select(c.revision_number).where(c.id == group_id)).scalar_one()
    message = Status(kind="firewall_group", id=group_id, status=status, revision=revision - behind, **more)
    return FirewallStatus(server.db).take(host, message)


def test_hosts_with_its_ports_make_a_group_active(server: Server, api: Api) -> None:
    for host in ("fw1", "fw2", "fw3"):
        switch(server, host)
    policy = policy_with(api, {"action": "allow"})
    network, _ = inside(api)
    admin = api.as_admin()
    ports = [
        admin.port(network, device_owner="compute:nova", binding__host_id=host, project_id=api.project)["id"]
        for host in ("fw1", "fw2")
    ]
    group = api.make("firewall_group", ports=ports, ingress_firewall_policy_id=policy["id"])

    def status() -> str:
        return str(api.show("firewall_group", group["id"])["status"])

    revision = group["revision_number"]
    assert not report(server, "fw3", group["id"], "ACTIVE")  # has none of its ports
    assert not report(server, "fw1", group["id"], "ACTIVE", behind=1)  # of an earlier state
    assert status() == "PENDING_CREATE"
    assert report(server, "fw1", group["id"], "ACTIVE")
    assert not report(server, "fw1", group["id"], "ACTIVE")
    assert status() == "ACTIVE"
    assert report(server, "fw2", group["id"], "ERROR", reason="no such table")
    assert status() == "ERROR"
    assert not report(server, "fw1", group["id"], "ACTIVE")  # the other one still fails
    assert report(server, "fw2", group["id"], "ACTIVE")
    assert status() == "ACTIVE"
    assert api.show("firewall_group", group["id"])["revision_number"] == revision
    # Both roles of a host may have ports of the group.
    assert report(server, "fw2", group["id"], "ERROR", role="l3")
    assert not report(server, "fw2", group["id"], "ACTIVE", role="l2")
    assert status() == "ERROR"
    assert report(server, "fw2", group["id"], "INACTIVE", role="l3")  # it has none any more
    assert not report(server, "fw2", group["id"], "INACTIVE", role="l3")
    assert status() == "ACTIVE"
    # A host that fails loses its port: the others decide.
    report(server, "fw2", group["id"], "ERROR")
    admin.delete(f"/ports/{ports[1]}").expect(204)
    assert report(server, "fw2", group["id"], "INACTIVE", behind=1)
    assert status() == "ACTIVE"
    # Without a host that has applied it, it is pending.
    assert report(server, "fw1", group["id"], "INACTIVE")
    assert status() == "PENDING_UPDATE"
    assert report(server, "fw1", group["id"], "ACTIVE")
    # Changes of rules and policies have to be applied again.
    api.change("firewall_rule", policy["firewall_rules"][0], name="no match")
    assert status() == "ACTIVE"
    api.change("firewall_rule", policy["firewall_rules"][0], action="deny")
    assert status() == "PENDING_UPDATE"
    report(server, "fw1", group["id"], "ACTIVE")
    api.put(
        f"/fwaas/firewall_policies/{policy['id']}/remove_rule", {"firewall_rule_id": policy["firewall_rules"][0]}
    ).expect(200)
    assert status() == "PENDING_UPDATE"


def test_hosts_of_its_routers_make_a_group_active(server: Server, api: Api) -> None:
    switch(server, "fwnet1")
    l3_agent(server, "fwnet1")
    group = api.make("firewall_group", ports=[interface(api)], ingress_firewall_policy_id=policy_with(api)["id"])
    assert report(server, "fwnet1", group["id"], "ACTIVE")
    assert api.show("firewall_group", group["id"])["status"] == "ACTIVE"
