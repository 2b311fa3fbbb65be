"""The change log: every write logs its changes in the same transaction, a refused one logs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api

_c = t.changes.c
Row = tuple[str, str, bool]


class Log:
    """The change log since some point."""

    def __init__(self, server: Server) -> None:
        self._db = server.db

    def last(self) -> int:
        with self._db.read() as connection:
            return int(connection.execute(sa.select(sa.func.max(_c.id))).scalar() or 0)

    def since(self, point: int) -> list[Any]:
        with self._db.read() as connection:
            return list(connection.execute(sa.select(t.changes).where(_c.id > point).order_by(_c.id)).all())

    @contextmanager
    def leaves(self, *expected: Row) -> Iterator[None]:
        """The block adds exactly these rows to the log: kind, id, whether it is a deletion."""
        point = self.last()
        yield
        assert sorted((r.kind, r.object_id, bool(r.deleted)) for r in self.since(point)) == sorted(expected)


@pytest.fixture
def log(server: Server, api: Api) -> Log:
    api.all("/security-groups")  # the project's default group is there
    return Log(server)


def test_networks_subnets_and_ports(api: Api, log: Log) -> None:
    point = log.last()
    network = api.network()
    assert [(r.kind, r.object_id) for r in log.since(point)] == [("network", network["id"])]
    with log.leaves(("network", network["id"], False)):
        api.change("network", network["id"], name="x")
    point = log.last()
    subnet = api.subnet(network)
    assert {(r.kind, r.object_id) for r in log.since(point)} == {("subnet", subnet["id"]), ("network", network["id"])}
    with log.leaves(("subnet", subnet["id"], False)):
        api.change("subnet", subnet["id"], name="x")
    point = log.last()
    port = api.port(network)
    assert [(r.kind, r.object_id) for r in log.since(point)] == [("port", port["id"])]
    with log.leaves(("port", port["id"], False)):
        api.change("port", port["id"], name="x")
    with log.leaves(("port", port["id"], True)):
        api.delete(f"/ports/{port['id']}").expect(204)
    with log.leaves(("network", network["id"], True), ("subnet", subnet["id"], True)):
        api.delete(f"/networks/{network['id']}").expect(204)


def test_a_subnet_that_changes_ports(api: Api, log: Log) -> None:
    network = api.network()
    port = api.port(network)
    point = log.last()
    subnet = api.subnet(network, "fd00::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    assert {(r.kind, r.object_id) for r in log.since(point)} == {
        ("network", network["id"]),
        ("subnet", subnet["id"]),
        ("port", port["id"]),
    }
    with log.leaves(("network", network["id"], False), ("subnet", subnet["id"], True), ("port", port["id"], False)):
        api.delete(f"/subnets/{subnet['id']}").expect(204)


def test_groups_and_rules(api: Api, log: Log) -> None:
    point = log.last()
    group = api.make("security_group", name="g")
    rules = [("security_group_rule", rule["id"]) for rule in group["security_group_rules"]]
    assert {(r.kind, r.object_id) for r in log.since(point)} == {("security_group", group["id"]), *rules}
    point = log.last()
    rule = api.make("security_group_rule", security_group_id=group["id"], direction="ingress")
    made = {(r.kind, r.object_id, r.created, r.deleted) for r in log.since(point)}
    assert made == {("security_group", group["id"], False, False), ("security_group_rule", rule["id"], True, False)}
    with log.leaves(("security_group", group["id"], False)):
        api.change("security_group", group["id"], name="h")
    with log.leaves(("security_group", group["id"], False), ("security_group_rule", rule["id"], True)):
        api.delete(f"/security-group-rules/{rule['id']}").expect(204)
    with log.leaves(("security_group", group["id"], True), *((*each, True) for each in rules)):
        api.delete(f"/security-groups/{group['id']}").expect(204)


def test_sharing_and_tags(api: Api, log: Log) -> None:
    network = api.network()
    body = {"object_type": "network", "object_id": network["id"], "target_tenant": "x", "action": "access_as_shared"}
    point = log.last()
    policy = api.make("rbac_policy", **body)
    shared = {(r.kind, r.object_id) for r in log.since(point)}
    assert shared == {("network", network["id"]), ("rbac_policy", policy["id"])}
    with log.leaves(("network", network["id"], False), ("rbac_policy", policy["id"], True)):
        api.delete(f"/rbac-policies/{policy['id']}").expect(204)
    with log.leaves(("network", network["id"], False)):
        api.put(f"/networks/{network['id']}/tags/red").expect(201)


def test_objects_that_hosts_do_not_get_have_a_history(api: Api, log: Log) -> None:
    point = log.last()
    scope = api.make("address_scope", name="s", ip_version=4)
    pool = api.make("subnetpool", name="p", prefixes=["10.0.0.0/16"], address_scope_id=scope["id"])
    made = [(r.kind, r.object_id) for r in log.since(point) if r.created]
    assert made == [("address_scope", scope["id"]), ("subnetpool", pool["id"])]
    with log.leaves(("subnetpool", pool["id"], False)):
        api.put(f"/subnetpools/{pool['id']}/tags/red").expect(201)
    with log.leaves(("subnetpool", pool["id"], True)):
        api.delete(f"/subnetpools/{pool['id']}").expect(204)
    with log.leaves(("address_scope", scope["id"], True)):
        api.delete(f"/address-scopes/{scope['id']}").expect(204)


def test_bindings_and_status(server: Server, api: Api, admin: Api, log: Log) -> None:
    switch(server, "h1")
    switch(server, "h2")
    port = admin.port(api.network(), binding__host_id="h1", device_owner="compute:nova")
    nova = api.as_service()
    with log.leaves(("port", port["id"], False)):
        server.core.provisioning.complete(port["id"], "L2", "h1")
    with log.leaves():
        server.core.provisioning.complete(port["id"], "L2", "h1")
    with log.leaves(("port", port["id"], False)):
        nova.post(f"/ports/{port['id']}/bindings", {"binding": {"host": "h2"}}).expect(201)
    with log.leaves(("port", port["id"], False)):
        nova.put(f"/ports/{port['id']}/bindings/h2/activate").expect(200)


def test_refused_and_empty_changes_are_not_logged(api: Api, log: Log) -> None:
    network = api.network()
    subnet = api.subnet(network)
    port = api.port(network)
    group = api.make("security_group", name="g")
    with log.leaves():
        api.put(f"/ports/{port['id']}", {"port": {"name": ""}}).expect(200)
        api.put(f"/ports/{port['id']}", {"port": {"fixed_ips": [{"ip_address": "10.9.9.9"}]}}).expect(400)
        api.post("/ports", {"port": {"network_id": network["id"], "mac_address": port["mac_address"]}}).expect(409)
        api.delete(f"/networks/{network['id']}").expect(409)
        api.delete(f"/subnets/{subnet['id']}").expect(409)
        api.as_stranger().delete(f"/ports/{port['id']}").expect(404)
        api.post("/security-group-rules", {
            "security_group_rule": {"security_group_id": group["id"], "direction": "ingress", "protocol": "x"}
        }).expect(400)  # fmt: skip
        api.put(
            f"/networks/{network['id']}", {"network": {"name": "x"}}, headers={"If-Match": "revision_number=99"}
        ).expect(412)
    api.as_admin().put(f"/quotas/{api.project}", {"quota": {"port": 1}}).expect(200)
    with log.leaves():
        api.post("/ports", {"port": {"network_id": network["id"]}}).expect(409)
