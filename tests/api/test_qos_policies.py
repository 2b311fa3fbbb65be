"""QoS policies: who sees and changes them, the default of a project, sharing, tags, quotas, deletion in use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.l3 import gateway, outside
from tests.api.qos import DEAD, policy, post_rule, rule


def test_a_policy_from_creation_to_deletion(api: Api, admin: Api) -> None:
    made = policy(admin, description="d")
    assert {**made, "id": "", "created_at": "", "updated_at": ""} == {
        "id": "",
        "name": "gold",
        "description": "d",
        "shared": False,
        "is_default": False,
        "rules": [],
        "tags": [],
        "project_id": api.project,
        "tenant_id": api.project,
        "revision_number": 0,
        "created_at": "",
        "updated_at": "",
    }
    path = f"/qos/policies/{made['id']}"
    assert api.get(path).expect(200).body["policy"] == made
    assert [one["id"] for one in api.all("/qos/policies", {"name": "gold"})] == [made["id"]]
    changed = admin.change("policy", made["id"], name="silver")
    assert (changed["name"], changed["revision_number"]) == ("silver", 1)
    admin.put(path, {"policy": {"name": "x"}}, headers={"If-Match": "revision_number=0"}).expect(412)
    admin.delete(path).expect(204)
    api.get(path).refused(404, "QosPolicyNotFound")
    admin.delete(path).refused(404, "QosPolicyNotFound")


def test_who_may_do_what(api: Api, admin: Api) -> None:
    made = policy(admin)
    path = f"/qos/policies/{made['id']}"
    stranger, manager = api.as_stranger(), Api(api.app, api.project, "manager,member,reader")
    api.post("/qos/policies", {"policy": {}}).refused(403, "PolicyNotAuthorized")
    api.put(path, {"policy": {"name": "x"}}).refused(403, "PolicyNotAuthorized")
    api.delete(path).refused(403, "PolicyNotAuthorized")
    stranger.get(path).refused(404, "QosPolicyNotFound")
    assert stranger.all("/qos/policies") == []
    own = policy(manager)
    post_rule(manager, own["id"], "bandwidth_limit").expect(201)
    post_rule(api, own["id"], "dscp_marking").refused(403, "PolicyNotAuthorized")
    post_rule(stranger, own["id"], "dscp_marking").refused(403, "PolicyNotAuthorized")
    stranger.get(f"/qos/policies/{own['id']}/dscp_marking_rules").refused(404, "QosPolicyNotFound")
    manager.delete(f"/qos/policies/{own['id']}").expect(204)


@pytest.mark.every_database
def test_a_page_after_a_policy_of_others_is_empty(api: Api, admin: Api) -> None:
    made = policy(admin)
    stranger = api.as_stranger()
    assert stranger.get("/qos/policies", {"limit": 1, "marker": made["id"]}).expect(200).body["policies"] == []


@pytest.mark.every_database
def test_several_at_once(admin: Api) -> None:
    made = admin.post("/qos/policies", {"policies": [{"name": "a"}, {"name": "b", "shared": True}]}).expect(201)
    assert [one["name"] for one in made.body["policies"]] == ["a", "b"]
    both = {"policies": [{"name": "c", "is_default": True}, {"name": "d", "is_default": True}]}
    admin.post("/qos/policies", both).refused(409, "QoSPolicyDefaultAlreadyExists")
    assert admin.all("/qos/policies", {"name": "c"}) == []


# --- the default of a project -----------------------------------------------------------------------------------------


def test_new_networks_get_the_projects_default(api: Api, admin: Api) -> None:
    first = api.network()
    gold, silver = policy(admin, is_default=True), policy(admin, name="silver")
    admin.post("/qos/policies", {"policy": {"is_default": True}}).refused(409, "QoSPolicyDefaultAlreadyExists")
    admin.put(f"/qos/policies/{silver['id']}", {"policy": {"is_default": True}}).refused(
        409, "QoSPolicyDefaultAlreadyExists"
    )
    assert api.network()["qos_policy_id"] == gold["id"]
    assert api.network(qos_policy_id=silver["id"])["qos_policy_id"] == silver["id"]
    assert api.as_stranger().network()["qos_policy_id"] is None
    assert api.show("network", first["id"])["qos_policy_id"] is None
    assert [one["id"] for one in api.all("/qos/policies", {"is_default": True})] == [gold["id"]]
    admin.change("policy", gold["id"], is_default=False)
    assert api.network()["qos_policy_id"] is None
    assert admin.change("policy", silver["id"], is_default=True)["is_default"] is True
    assert api.network()["qos_policy_id"] == silver["id"]


def test_a_deleted_default_leaves_none(api: Api, admin: Api) -> None:
    gold = policy(admin, is_default=True)
    admin.delete(f"/qos/policies/{gold['id']}").expect(204)
    assert api.network()["qos_policy_id"] is None
    policy(admin, is_default=True)


@pytest.mark.every_database
def test_two_defaults_at_once(admin: Api) -> None:
    """One gets it, the other the same refusal as if it came later."""
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: admin.post("/qos/policies", {"policy": {"is_default": True}}), range(4)))
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    assert {answer.error for answer in answers} == {"", "QoSPolicyDefaultAlreadyExists"}


# --- sharing ----------------------------------------------------------------------------------------------------------


def test_a_policy_shared_with_all(api: Api, admin: Api) -> None:
    friend = api.as_stranger()
    gold = policy(admin, shared=True)
    rule(admin, gold["id"], "dscp_marking")
    seen = friend.show("policy", gold["id"])
    assert (seen["shared"], len(seen["rules"])) == (True, 1)
    network = friend.network(qos_policy_id=gold["id"])
    admin.put(f"/qos/policies/{gold['id']}", {"policy": {"shared": False}}).refused(409, "RbacPolicyInUse")
    friend.change("network", network["id"], qos_policy_id=None)
    own = admin.network(qos_policy_id=gold["id"])
    # As in Neutron, also if the owner alone uses it.
    admin.put(f"/qos/policies/{gold['id']}", {"policy": {"shared": False}}).refused(409, "RbacPolicyInUse")
    admin.delete(f"/networks/{own['id']}").expect(204)
    assert admin.change("policy", gold["id"], shared=False)["shared"] is False
    friend.get(f"/qos/policies/{gold['id']}").refused(404, "QosPolicyNotFound")


def test_managers_do_not_share_with_all(api: Api, admin: Api) -> None:
    manager = Api(api.app, api.project, "manager,member,reader")
    manager.post("/qos/policies", {"policy": {"shared": True}}).refused(403, "PolicyNotAuthorized")
    own = manager.post("/qos/policies", {"policy": {"name": "own", "shared": False}}).expect(201).body["policy"]["id"]
    manager.put(f"/qos/policies/{own}", {"policy": {"shared": True}}).refused(403, "PolicyNotAuthorized")
    assert manager.change("policy", own, name="renamed")["shared"] is False
    assert admin.change("policy", own, shared=True)["shared"] is True
    assert manager.change("policy", own, name="again")["shared"] is True


def test_a_policy_shared_with_one_project(api: Api, admin: Api) -> None:
    friend, stranger = api.as_stranger(), api.as_stranger()
    gold = policy(admin)
    shared = admin.make(
        *("rbac_policy", ""),
        object_type="qos_policy",
        object_id=gold["id"],
        action="access_as_shared",
        target_tenant=friend.project,
    )
    assert shared["object_type"] == "qos_policy"
    assert friend.show("policy", gold["id"])["shared"] is True
    stranger.post("/networks", {"network": {"qos_policy_id": gold["id"]}}).refused(404, "QosPolicyNotFound")
    port = friend.port(friend.network(), qos_policy_id=gold["id"])
    admin.delete(f"/rbac-policies/{shared['id']}").refused(409, "RbacPolicyInUse")
    friend.change("port", port["id"], qos_policy_id=None)
    admin.delete(f"/rbac-policies/{shared['id']}").expect(204)
    friend.get(f"/qos/policies/{gold['id']}").refused(404, "QosPolicyNotFound")


def test_a_policy_set_by_an_administrator_stays(api: Api, admin: Api) -> None:
    """A project can neither remove nor replace a policy that it does not see."""
    operator = api.as_stranger().as_admin()
    enforced, own = policy(operator), policy(admin)
    network = api.network()
    port = api.port(network)
    operator.change("network", network["id"], qos_policy_id=enforced["id"])
    operator.change("port", port["id"], qos_policy_id=enforced["id"])
    for path, kind in ((f"/networks/{network['id']}", "network"), (f"/ports/{port['id']}", "port")):
        for new in (None, own["id"]):
            api.put(path, {kind: {"qos_policy_id": new}}).refused(403, "PolicyRemoveAuthorizationError")
        api.put(path, {kind: {"name": "other", "qos_policy_id": enforced["id"]}}).expect(200)
    api.delete(f"/ports/{port['id']}").expect(204)


# --- tags and quotas --------------------------------------------------------------------------------------------------


def test_tags(api: Api, admin: Api) -> None:
    gold = policy(admin)
    admin.put(f"/qos/policies/{gold['id']}/tags", {"tags": ["red", "blue"]}).expect(200)
    assert api.show("policy", gold["id"])["tags"] == ["blue", "red"]
    assert [one["id"] for one in api.all("/qos/policies", {"tags": "red"})] == [gold["id"]]
    api.put(f"/qos/policies/{gold['id']}/tags", {"tags": []}).refused(403, "PolicyNotAuthorized")
    admin.delete(f"/qos/policies/{gold['id']}/tags/red").expect(204)
    assert api.get(f"/qos/policies/{gold['id']}/tags").expect(200).body == {"tags": ["blue"]}
    # The path that Neutron has, without the prefix of QoS.
    assert api.get(f"/policies/{gold['id']}/tags").expect(200).body == {"tags": ["blue"]}


def test_a_quota(api: Api, admin: Api) -> None:
    assert admin.get(f"/quotas/{api.project}").body["quota"]["qos_policy"] == -1
    admin.put(f"/quotas/{api.project}", {"quota": {"qos_policy": 1}}).expect(200)
    gold = policy(admin)
    admin.post("/qos/policies", {"policy": {}}).refused(409, "OverQuota")
    used = admin.get(f"/quotas/{api.project}/details").body["quota"]["qos_policy"]
    assert used == {"limit": 1, "used": 1, "reserved": 0}
    admin.delete(f"/qos/policies/{gold['id']}").expect(204)
    policy(admin)


# --- deletion in use --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["network", "port", "floatingip", "router"])
def test_a_policy_in_use_cannot_be_deleted(api: Api, admin: Api, kind: str) -> None:
    gold = policy(admin)
    if kind == "network":
        user = api.network(qos_policy_id=gold["id"])
    elif kind == "port":
        user = api.port(api.network(), qos_policy_id=gold["id"])
    elif kind == "floatingip":
        user = api.make("floatingip", floating_network_id=outside(admin)["id"], qos_policy_id=gold["id"])
    else:
        user = api.make("router", external_gateway_info=gateway(outside(admin), qos_policy_id=gold["id"]))
    refused = admin.delete(f"/qos/policies/{gold['id']}").refused(409, "QosPolicyInUse")
    assert user["id"] in refused.message
    api.delete(f"/{kind}s/{user['id']}").expect(204)
    admin.delete(f"/qos/policies/{gold['id']}").expect(204)


@pytest.mark.every_database
def test_a_policy_that_gets_into_use_while_it_is_deleted(server: Server, api: Api, admin: Api) -> None:
    """Either the port has it and it stays, or it is deleted and the port is refused: never a port without its policy."""
    network = api.network()
    for _ in range(5):
        gold = policy(admin)
        with ThreadPoolExecutor(2) as pool:
            deleting = pool.submit(admin.delete, f"/qos/policies/{gold['id']}")
            making = pool.submit(
                api.post, "/ports", {"port": {"network_id": network["id"], "qos_policy_id": gold["id"]}}
            )
        outcome = deleting.result().status, making.result().status
        assert outcome in ((204, 404), (409, 201)), (deleting.result(), making.result())


def test_unknown_policies(api: Api, admin: Api) -> None:
    external = outside(admin)
    network = api.network()
    for path, body in (
        ("/networks", {"network": {"qos_policy_id": DEAD}}),
        ("/ports", {"port": {"network_id": network["id"], "qos_policy_id": DEAD}}),
        ("/floatingips", {"floatingip": {"floating_network_id": external["id"], "qos_policy_id": DEAD}}),
        ("/routers", {"router": {"external_gateway_info": gateway(external, qos_policy_id=DEAD)}}),
    ):
        api.post(path, body).refused(404, "QosPolicyNotFound")
    api.post("/networks", {"network": {"qos_policy_id": "gold"}}).refused(400, "HTTPBadRequest")
