"""RBAC policies: who may create them, and that none is deleted while a project depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.access.rbac import RbacPolicies
from neutrino.server.api.resources.rbac_policy import RBAC_POLICY
from neutrino.server.api.stages.body import items_to_create
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh, new_id
from neutrino.server.db.session import Database
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas

ALICE, BOB, ADMIN = Context("a"), Context("b"), admin_context("admin")
SHARED, EXTERNAL = "access_as_shared", "access_as_external"
Object = dict[str, Any]


class World:
    def __init__(self, path: Path) -> None:
        self.db = Database(f"sqlite:///{path}/n.db", sqlite_durable=False)
        t.metadata.create_all(self.db.engine())
        self.rbac = RbacPolicies(self.db, Quotas(self.db, {"rbac_policy": 10}))

    def insert(self, table: sa.Table, **values: Any) -> str:
        made = fresh({"name": "x", "project_id": "a", **values})
        with self.db.transaction() as tx:
            tx.execute(sa.insert(table).values(as_row(table, made)))
        return str(made["id"])

    def port(self, network: str, project: str, **values: Any) -> str:
        return self.insert(t.ports, network_id=network, mac_address=new_id()[:17], project_id=project, **values)

    def share(self, kind: str, key: str, target: str, action: str = SHARED, context: Context = ALICE) -> Object:
        body = {"object_type": kind, "object_id": key, "action": action, "target_tenant": target}
        items, _ = items_to_create(RBAC_POLICY, {"rbac_policy": body}, context)
        return self.rbac.create(context, items[0].values)

    def network(self, key: str) -> Any:
        c = t.networks.c
        with self.db.read() as connection:
            return connection.execute(sa.select(c.revision_number, c.external).where(c.id == key)).one()

    def gone(self, *keys: str) -> None:
        with self.db.transaction() as tx:
            tx.execute(sa.delete(t.ports).where(t.ports.c.id.in_(keys)))


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.db.close()


def test_a_policy_increments_the_revision_of_its_network(world: World) -> None:
    network = world.insert(t.networks)
    made = world.share("network", network, "b")
    expected = {
        "id": made["id"],
        "project_id": "a",
        "tenant_id": "a",
        "object_type": "network",
        "object_id": network,
        "action": SHARED,
        "target_tenant": "b",
    }
    assert made == expected
    assert world.rbac.show(ALICE, made["id"], None, False) == expected
    assert world.rbac.index(ALICE, Query(filters={"target_tenant": ("b",)})) == [expected]
    assert world.rbac.index(BOB, Query()) == []
    assert world.network(network).revision_number == 2
    world.rbac.update(ALICE, made["id"], {"target_tenant": "c"}, None)
    world.rbac.delete(ALICE, made["id"], None)
    assert world.network(network).revision_number == 4
    with world.db.read() as connection:
        c = t.changes.c
        logged = connection.execute(sa.select(c.kind, c.object_id).order_by(c.id)).all()
    assert logged == [("network", network)] * 3


def test_what_cannot_be_shared(world: World) -> None:
    network = world.insert(t.networks)
    world.share("network", network, "b")
    with pytest.raises(errors.DuplicateRbacPolicy):
        world.share("network", network, "b")
    with pytest.raises(errors.InvalidActionForType):
        world.share("network", network, "b", "bogus")
    with pytest.raises(errors.InvalidActionForType):
        world.share("security_group", world.insert(t.security_groups), "b", EXTERNAL)
    with pytest.raises(errors.InvalidInput) as caught:
        world.share("bogus", network, "b")
    assert caught.value.type == "InvalidInput"
    with pytest.raises(errors.InvalidInput):
        world.share("network", network, "c", context=BOB)
    with pytest.raises(errors.InvalidInput):
        world.share("network", new_id(), "b")
    world.share("network", network, "c", context=ADMIN)


def test_a_bulk_create_is_all_or_nothing(world: World) -> None:
    network = world.insert(t.networks)
    one = {"object_type": "network", "object_id": network, "action": SHARED, "project_id": "a", "target_tenant": "b"}
    with pytest.raises(errors.DuplicateRbacPolicy):
        world.rbac.create_several(ALICE, [one, one])
    assert world.rbac.index(ALICE, Query()) == []
    world.rbac.create_several(ALICE, [one, {**one, "target_tenant": "c"}])
    assert len(world.rbac.index(ALICE, Query())) == 2


def test_the_quota_is_enforced(world: World) -> None:
    network = world.insert(t.networks)
    for number in range(10):
        world.share("network", network, f"p{number}")
    with pytest.raises(errors.OverQuota):
        world.share("network", network, "p10")


def test_a_network_stays_shared_while_others_have_ports_on_it(world: World) -> None:
    network = world.insert(t.networks)
    policy = world.share("network", network, "b")
    mine, theirs = world.port(network, "a"), world.port(network, "b")
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ALICE, policy["id"], None)
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.update(ALICE, policy["id"], {"target_tenant": "c"}, None)
    world.gone(theirs)
    world.rbac.delete(ALICE, policy["id"], None)
    with pytest.raises(errors.RbacPolicyNotFound):
        world.rbac.delete(ALICE, policy["id"], None)
    world.gone(mine)


def test_another_policy_that_covers_the_ports_is_enough(world: World) -> None:
    network = world.insert(t.networks)
    everyone = world.share("network", network, "*", context=ADMIN)
    single = world.share("network", network, "b")
    world.port(network, "b")
    world.rbac.delete(ALICE, single["id"], None)  # all may still
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ADMIN, everyone["id"], None)
    again = world.share("network", network, "b")
    world.port(network, "")  # of no project: the server's own
    world.rbac.delete(ADMIN, everyone["id"], None)  # b may still
    world.rbac.update(ADMIN, again["id"], {"target_tenant": "*"}, None)


def test_an_update_cannot_make_a_duplicate(world: World) -> None:
    network = world.insert(t.networks)
    world.share("network", network, "b")
    other = world.share("network", network, "c")
    with pytest.raises(errors.DuplicateRbacPolicy):
        world.rbac.update(ALICE, other["id"], {"target_tenant": "b"}, None)
    with pytest.raises(errors.InvalidInput):
        world.rbac.update(BOB, other["id"], {"target_tenant": "d"}, None)


def test_external_access_makes_a_network_external_as_long_as_it_lasts(world: World) -> None:
    network = world.insert(t.networks)
    first = world.share("network", network, "b", EXTERNAL, ADMIN)
    assert world.network(network) == (2, True)
    second = world.share("network", network, "c", EXTERNAL, ADMIN)
    world.rbac.delete(ADMIN, first["id"], None)
    assert world.network(network).external is True
    gateway = world.port(network, "", device_owner="network:router_gateway")
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ADMIN, second["id"], None)
    world.gone(gateway)
    world.rbac.delete(ADMIN, second["id"], None)
    assert world.network(network) == (5, False)


def test_the_default_external_network_stays_shared_with_all(world: World) -> None:
    network = world.insert(t.networks, is_default=True)
    policy = world.share("network", network, "*", EXTERNAL, ADMIN)
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ADMIN, policy["id"], None)


def test_a_security_group_stays_shared_while_ports_use_it(world: World) -> None:
    group = world.insert(t.security_groups)
    port = world.port(world.insert(t.networks), "b")
    policy = world.share("security_group", group, "b")
    with world.db.transaction() as tx:
        tx.execute(sa.insert(t.port_security_groups).values(port_id=port, security_group_id=group))
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ALICE, policy["id"], None)
    world.gone(port)
    world.rbac.delete(ALICE, policy["id"], None)


POOL = {"ip_version": 4, "default_prefixlen": 24, "min_prefixlen": 8, "max_prefixlen": 32}


def test_a_pool_and_its_scope_stay_shared_while_they_are_used(world: World) -> None:
    scope = world.insert(t.address_scopes, ip_version=4)
    pool = world.insert(t.subnetpools, **POOL, address_scope_id=scope)
    with pytest.raises(errors.InvalidInput):  # b could not see the scope
        world.share("subnetpool", pool, "b")
    of_scope = world.share("address_scope", scope, "b")
    of_pool = world.share("subnetpool", pool, "b")
    network = world.insert(t.networks)
    world.insert(t.subnets, network_id=network, project_id="b", ip_version=4, cidr="10.0.0.0/24", subnetpool_id=pool)
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ALICE, of_pool["id"], None)
    world.insert(t.subnetpools, **POOL, address_scope_id=scope, project_id="b")
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ALICE, of_scope["id"], None)


def test_an_address_group_stays_shared_while_rules_use_it(world: World) -> None:
    addresses = world.insert(t.address_groups)
    policy = world.share("address_group", addresses, "b")
    group = world.insert(t.security_groups, project_id="b")
    world.insert(
        t.security_group_rules,
        security_group_id=group,
        project_id="b",
        direction="ingress",
        ethertype="IPv4",
        remote_address_group_id=addresses,
        identity="x",
    )
    with pytest.raises(errors.RbacPolicyInUse):
        world.rbac.delete(ALICE, policy["id"], None)
