"""Logs of security and firewall groups: what an administrator can create, what others see, and their deletion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.log.feed import groups_of_logs
from neutrino.server.db import tables as t
from neutrino.server.feed.declarations import Changed
from neutrino.server.main import Server
from tests.api.client import Api
from tests.api.conftest import start
from tests.api.firewalls import instance, interface, policy_with

DEAD = "00000000-0000-0000-0000-00000000dead"


def log(admin: Api, **values: Any) -> dict[str, Any]:
    return admin.make("log", **{"resource_type": "security_group", **values})


def test_a_log_from_creation_to_deletion(admin: Api) -> None:
    made = log(admin, name="l", event="DROP", project_id="another")
    assert {**made, "id": "", "created_at": "", "updated_at": ""} == {
        "id": "",
        "name": "l",
        "description": "",
        "project_id": "another",
        "tenant_id": "another",
        "resource_type": "security_group",
        "resource_id": None,
        "target_id": None,
        "event": "DROP",
        "enabled": True,
        "revision_number": 0,
        "created_at": "",
        "updated_at": "",
    }
    path = f"/log/logs/{made['id']}"
    assert admin.get(path).expect(200).body["log"] == made
    changed = admin.change("log", made["id"], enabled=False, name="m", description="d")
    assert (changed["enabled"], changed["name"], changed["description"]) == (False, "m", "d")
    assert changed["revision_number"] == 1
    assert [one["id"] for one in admin.all("/log/logs", {"enabled": False, "event": "DROP"})] == [made["id"]]
    admin.put(path, {"log": {"event": "ALL"}}).refused(400, "HTTPBadRequest")
    admin.put(path, {"log": {"name": "x"}}, headers={"If-Match": "revision_number=0"}).expect(412)
    admin.delete(path).expect(204)
    admin.get(path).refused(404, "LogResourceNotFound")
    admin.delete(path).refused(404, "LogResourceNotFound")


def test_logs_are_the_administrators(api: Api, admin: Api) -> None:
    made = log(admin)
    path = f"/log/logs/{made['id']}"
    api.post("/log/logs", {"log": {"resource_type": "security_group"}}).refused(403, "PolicyNotAuthorized")
    assert api.all("/log/logs") == []
    api.get(path).refused(404, "HTTPNotFound")
    api.put(path, {"log": {"enabled": False}}).refused(404, "HTTPNotFound")
    api.delete(path).refused(404, "HTTPNotFound")
    assert admin.all("/log/loggable-resources") == [{"type": "security_group"}, {"type": "firewall_group"}]
    assert api.all("/log/loggable-resources") == []


@pytest.mark.every_database
def test_several_at_once_or_none(admin: Api) -> None:
    good, bad = {"resource_type": "security_group"}, {"resource_type": "security_group", "target_id": DEAD}
    made = admin.post("/log/logs", {"logs": [good, {**good, "event": "ACCEPT"}]}).expect(201).body["logs"]
    assert [one["event"] for one in made] == ["ALL", "ACCEPT"]
    count = len(admin.all("/log/logs"))
    admin.post("/log/logs", {"logs": [good, bad]}).refused(404, "TargetResourceNotFound")
    assert len(admin.all("/log/logs")) == count


@pytest.mark.parametrize(
    ("values", "status", "error"),
    [
        ({}, 400, "HTTPBadRequest"),
        ({"resource_type": "bogus"}, 400, "InvalidLogResourceType"),
        ({"resource_type": "snat"}, 400, "InvalidLogResourceType"),
        ({"resource_type": "firewall_group", "resource_id": DEAD}, 404, "ResourceNotFound"),
        ({"resource_type": "firewall_group", "target_id": DEAD}, 404, "TargetResourceNotFound"),
        ({"resource_type": "security_group", "event": "REJECT"}, 400, "HTTPBadRequest"),
        ({"resource_type": "security_group", "resource_id": DEAD}, 404, "ResourceNotFound"),
        ({"resource_type": "security_group", "target_id": DEAD}, 404, "TargetResourceNotFound"),
        ({"resource_type": "security_group", "target_id": "x"}, 400, "HTTPBadRequest"),
    ],
)
def test_what_is_refused(admin: Api, values: dict[str, Any], status: int, error: str) -> None:
    admin.post("/log/logs", {"log": values}).refused(status, error)


def test_the_port_of_a_log_has_its_group(api: Api, admin: Api) -> None:
    network, group = api.network(), api.make("security_group", name="g")
    outside, member = api.port(network), api.port(network, security_groups=[group["id"]])
    about = {"resource_type": "security_group", "resource_id": group["id"]}
    refused = admin.post("/log/logs", {"log": {**about, "target_id": outside["id"]}})
    refused.refused(400, "InvalidResourceConstraint")
    assert log(admin, resource_id=group["id"], target_id=member["id"])["target_id"] == member["id"]


def test_a_port_that_no_switch_of_ours_plugs_cannot_be_logged(api: Api, admin: Api) -> None:
    port = admin.port(api.network(), binding__vnic_type="direct")
    body = {"log": {"resource_type": "security_group", "target_id": port["id"]}}
    admin.post("/log/logs", body).refused(409, "LoggingTypeNotSupported")


@pytest.mark.every_database
def test_a_log_is_deleted_with_its_group_or_port(server: Server, api: Api, admin: Api) -> None:
    network, group = api.network(), api.make("security_group", name="g")
    port = api.port(network)
    of_group, of_port, of_project = log(admin, resource_id=group["id"]), log(admin, target_id=port["id"]), log(admin)
    api.delete(f"/ports/{port['id']}").expect(204)
    admin.get(f"/log/logs/{of_port['id']}").refused(404, "LogResourceNotFound")
    api.delete(f"/security-groups/{group['id']}").expect(204)
    admin.get(f"/log/logs/{of_group['id']}").refused(404, "LogResourceNotFound")
    admin.get(f"/log/logs/{of_project['id']}").expect(200)
    deleted = sa.select(t.changes.c.object_id).where(t.changes.c.kind == "log", t.changes.c.deleted)
    with server.db.read() as connection:  # by which hosts learn it
        assert {of_group["id"], of_port["id"]} <= set(connection.execute(deleted).scalars())


# --- firewall groups --------------------------------------------------------------------------------------------------


def firewall_log(admin: Api, **values: Any) -> dict[str, Any]:
    return admin.make("log", **{"resource_type": "firewall_group", **values})


def test_a_log_of_a_firewall_group(api: Api, admin: Api) -> None:
    port = interface(api)
    group = api.make("firewall_group", ports=[port], egress_firewall_policy_id=policy_with(api)["id"])
    made = firewall_log(admin, resource_id=group["id"], target_id=port, event="DROP")
    assert (made["resource_type"], made["resource_id"], made["target_id"]) == ("firewall_group", group["id"], port)
    assert {*made} == {*log(admin)}
    assert admin.show("log", made["id"]) == made
    assert [one["id"] for one in admin.all("/log/logs", {"resource_id": group["id"]})] == [made["id"]]
    assert admin.change("log", made["id"], enabled=False)["resource_id"] == group["id"]
    several = {"logs": [{"resource_type": "firewall_group", "target_id": port}, {"resource_type": "security_group"}]}
    found = admin.post("/log/logs", several).expect(201).body["logs"]
    assert [(one["resource_id"], one["target_id"]) for one in found] == [(None, port), (None, None)]


def test_the_port_of_a_firewall_log_is_a_routers_and_has_its_group(api: Api, admin: Api) -> None:
    lone, member, of_instance = interface(api), interface(api, "10.0.1.0/24"), instance(api)["id"]
    group = api.make("firewall_group", ports=[member, of_instance])
    other = api.make("firewall_group")
    for values, status, error in (
        ({"target_id": lone}, 400, "TargetResourceNotAssociated"),
        ({"target_id": lone, "resource_id": group["id"]}, 400, "InvalidResourceConstraint"),
        ({"target_id": member, "resource_id": other["id"]}, 400, "InvalidResourceConstraint"),
        ({"target_id": of_instance}, 409, "LoggingTypeNotSupported"),
        ({"target_id": of_instance, "resource_id": group["id"]}, 409, "LoggingTypeNotSupported"),
    ):
        admin.post("/log/logs", {"log": {"resource_type": "firewall_group", **values}}).refused(status, error)
    assert firewall_log(admin, target_id=member)["resource_id"] is None


@pytest.mark.every_database
def test_a_firewall_log_is_deleted_with_its_group_or_port(server: Server, api: Api, admin: Api) -> None:
    port = interface(api)
    router = admin.show("port", port)["device_id"]
    group = api.make("firewall_group", ports=[port])
    of_group, of_port = firewall_log(admin, resource_id=group["id"]), firewall_log(admin, target_id=port)
    of_project = firewall_log(admin)
    api.put(f"/routers/{router}/remove_router_interface", {"port_id": port}).expect(200)
    admin.get(f"/log/logs/{of_port['id']}").refused(404, "LogResourceNotFound")
    api.delete(f"/fwaas/firewall_groups/{group['id']}").expect(204)
    admin.get(f"/log/logs/{of_group['id']}").refused(404, "LogResourceNotFound")
    admin.get(f"/log/logs/{of_project['id']}").expect(200)
    deleted = sa.select(t.changes.c.object_id).where(t.changes.c.kind == "log", t.changes.c.deleted)
    with server.db.read() as connection:
        assert {of_group["id"], of_port["id"]} <= set(connection.execute(deleted).scalars())


@pytest.mark.every_database
def test_a_group_that_is_created_while_a_log_of_its_project_is_deleted_is_read_again(
    server: Server, api: Api, admin: Api
) -> None:
    """The deletion does not see it: its hosts might have got it with the log."""
    group, log_id = api.make("firewall_group")["id"], firewall_log(admin)["id"]
    elsewhere = firewall_log(admin, project_id="another")["id"]
    for each in (log_id, elsewhere):
        admin.delete(f"/log/logs/{each}").expect(204)
    with server.db.read() as connection:
        assert group in groups_of_logs(connection, Changed({"log": [log_id]}, {}))
        assert groups_of_logs(connection, Changed({"log": [elsewhere]}, {})) == set()


def test_without_firewalls_only_security_groups_are_logged(tmp_path: Path) -> None:
    made = start(
        tmp_path, f"sqlite:///{tmp_path}/neutrino.sqlite", {"DEFAULT": {"service_plugins": "flavors,router,log"}}
    )
    try:
        admin = Api(made.app).as_admin()
        assert admin.all("/log/loggable-resources") == [{"type": "security_group"}]
        admin.post("/log/logs", {"log": {"resource_type": "firewall_group"}}).refused(400, "InvalidLogResourceType")
    finally:
        made.close()
