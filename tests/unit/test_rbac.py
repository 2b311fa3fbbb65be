"""RBAC policies: who may create them, and that none is deleted while a project depends on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.address_group.tables import address_groups
from neutrino.model.objects import Object
from neutrino.server import errors, features
from neutrino.server.access.rbac import RbacPolicies
from neutrino.server.api.stages.body import items_to_create
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh, new_id
from neutrino.server.db.session import Database
from neutrino.server.query import Query
from neutrino.server.quota.quotas import Quotas
from tests.support.databases import prepared_sqlite

ALICE, BOB, ADMIN = Context("a"), Context("b"), admin_context("admin")
SHARED, EXTERNAL = "access_as_shared", "access_as_external"


class RbacSetup:
    def __init__(self, path: Path) -> None:
        self.db = Database(prepared_sqlite(path / "n.db"), sqlite_durable=False)
        of_features = [one for feature in features.installed() for one in feature.shared]
        self.rbac = RbacPolicies(self.db, Quotas(self.db, {"rbac_policy": 10}), of_features)

    def insert(self, table: sa.Table, **values: Any) -> str:
        made = fresh({"name": "x", "project_id": "a", **values})
        with self.db.transaction() as tx:
            tx.execute(sa.insert(table).values(as_row(table, made)))
        return str(made["id"])

    def port(self, network: str, project: str, **values: Any) -> str:
        return self.insert(t.ports, network_id=network, mac_address=new_id()[:17], project_id=project, **values)

    def share(self, kind: str, key: str, target: str, action: str = SHARED, context: Context = ALICE) -> Object:
        body = {"object_type": kind, "object_id": key, "action": action, "target_tenant": target}
        items, _ = items_to_create(self.rbac.collections[0][0], {"rbac_policy": body}, context)
        return self.rbac.create(context, items[0].values)

    def network(self, key: str) -> Any:
        c = t.networks.c
        with self.db.read() as connection:
            return connection.execute(sa.select(c.revision_number, c.external).where(c.id == key)).one()

    def gone(self, *keys: str) -> None:
        with self.db.transaction() as tx:
            tx.execute(sa.delete(t.ports).where(t.ports.c.id.in_(keys)))


@pytest.fixture
def rbac_setup(tmp_path: Path) -> Iterator[RbacSetup]:
    made = RbacSetup(tmp_path)
    yield made
    made.db.close()


def test_a_policy_increments_the_revision_of_its_network(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    made = rbac_setup.share("network", network, "b")
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
    assert rbac_setup.rbac.show(ALICE, made["id"], None, False) == expected
    assert rbac_setup.rbac.index(ALICE, Query(filters={"target_tenant": ("b",)})) == [expected]
    assert rbac_setup.rbac.index(BOB, Query()) == []
    assert rbac_setup.network(network).revision_number == 2
    rbac_setup.rbac.update(ALICE, made["id"], {"target_tenant": "c"}, None)
    rbac_setup.rbac.delete(ALICE, made["id"], None)
    assert rbac_setup.network(network).revision_number == 4
    with rbac_setup.db.read() as connection:
        c = t.changes.c
        logged = connection.execute(sa.select(c.kind, c.object_id).order_by(c.id)).all()
    assert logged == [("rbac_policy", made["id"]), ("network", network)] * 3


def test_what_cannot_be_shared(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    rbac_setup.share("network", network, "b")
    with pytest.raises(errors.DuplicateRbacPolicy):
        rbac_setup.share("network", network, "b")
    with pytest.raises(errors.InvalidActionForType):
        rbac_setup.share("network", network, "b", "bogus")
    with pytest.raises(errors.InvalidActionForType):
        rbac_setup.share("security_group", rbac_setup.insert(t.security_groups), "b", EXTERNAL)
    with pytest.raises(errors.InvalidInput) as caught:
        rbac_setup.share("bogus", network, "b")
    assert caught.value.type == "InvalidInput"
    with pytest.raises(errors.InvalidInput):
        rbac_setup.share("network", network, "c", context=BOB)
    with pytest.raises(errors.InvalidInput):
        rbac_setup.share("network", new_id(), "b")
    rbac_setup.share("network", network, "c", context=ADMIN)


def test_a_bulk_create_is_all_or_nothing(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    one = {"object_type": "network", "object_id": network, "action": SHARED, "project_id": "a", "target_tenant": "b"}
    with pytest.raises(errors.DuplicateRbacPolicy):
        rbac_setup.rbac.create_several(ALICE, [one, one])
    assert rbac_setup.rbac.index(ALICE, Query()) == []
    rbac_setup.rbac.create_several(ALICE, [one, {**one, "target_tenant": "c"}])
    assert len(rbac_setup.rbac.index(ALICE, Query())) == 2


def test_the_quota_is_enforced(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    for number in range(10):
        rbac_setup.share("network", network, f"p{number}")
    with pytest.raises(errors.OverQuota):
        rbac_setup.share("network", network, "p10")


def test_a_network_stays_shared_while_others_have_ports_on_it(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    policy = rbac_setup.share("network", network, "b")
    mine, theirs = rbac_setup.port(network, "a"), rbac_setup.port(network, "b")
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ALICE, policy["id"], None)
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.update(ALICE, policy["id"], {"target_tenant": "c"}, None)
    rbac_setup.gone(theirs)
    rbac_setup.rbac.delete(ALICE, policy["id"], None)
    with pytest.raises(errors.RbacPolicyNotFound):
        rbac_setup.rbac.delete(ALICE, policy["id"], None)
    rbac_setup.gone(mine)


def test_another_policy_that_covers_the_ports_is_enough(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    everyone = rbac_setup.share("network", network, "*", context=ADMIN)
    single = rbac_setup.share("network", network, "b")
    rbac_setup.port(network, "b")
    rbac_setup.rbac.delete(ALICE, single["id"], None)  # all may still
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ADMIN, everyone["id"], None)
    again = rbac_setup.share("network", network, "b")
    rbac_setup.port(network, "")  # of no project: the server's own
    rbac_setup.rbac.delete(ADMIN, everyone["id"], None)  # b may still
    rbac_setup.rbac.update(ADMIN, again["id"], {"target_tenant": "*"}, None)


def test_an_update_cannot_make_a_duplicate(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    rbac_setup.share("network", network, "b")
    other = rbac_setup.share("network", network, "c")
    with pytest.raises(errors.DuplicateRbacPolicy):
        rbac_setup.rbac.update(ALICE, other["id"], {"target_tenant": "b"}, None)
    with pytest.raises(errors.InvalidInput):
        rbac_setup.rbac.update(BOB, other["id"], {"target_tenant": "d"}, None)


def test_external_access_makes_a_network_external_as_long_as_it_lasts(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks)
    first = rbac_setup.share("network", network, "b", EXTERNAL, ADMIN)
    assert rbac_setup.network(network) == (2, True)
    second = rbac_setup.share("network", network, "c", EXTERNAL, ADMIN)
    rbac_setup.rbac.delete(ADMIN, first["id"], None)
    assert rbac_setup.network(network).external is True
    gateway = rbac_setup.port(network, "", device_owner="network:router_gateway")
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ADMIN, second["id"], None)
    rbac_setup.gone(gateway)
    rbac_setup.rbac.delete(ADMIN, second["id"], None)
    assert rbac_setup.network(network) == (5, False)


def test_the_default_external_network_stays_shared_with_all(rbac_setup: RbacSetup) -> None:
    network = rbac_setup.insert(t.networks, is_default=True)
    policy = rbac_setup.share("network", network, "*", EXTERNAL, ADMIN)
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ADMIN, policy["id"], None)


def test_a_security_group_stays_shared_while_ports_use_it(rbac_setup: RbacSetup) -> None:
    group = rbac_setup.insert(t.security_groups)
    port = rbac_setup.port(rbac_setup.insert(t.networks), "b")
    policy = rbac_setup.share("security_group", group, "b")
    with rbac_setup.db.transaction() as tx:
        tx.execute(sa.insert(t.port_security_groups).values(port_id=port, security_group_id=group))
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ALICE, policy["id"], None)
    rbac_setup.gone(port)
    rbac_setup.rbac.delete(ALICE, policy["id"], None)


POOL = {"ip_version": 4, "default_prefixlen": 24, "min_prefixlen": 8, "max_prefixlen": 32}


def test_a_pool_and_its_scope_stay_shared_while_they_are_used(rbac_setup: RbacSetup) -> None:
    scope = rbac_setup.insert(t.address_scopes, ip_version=4)
    pool = rbac_setup.insert(t.subnetpools, **POOL, address_scope_id=scope)
    with pytest.raises(errors.InvalidInput):  # b could not see the scope
        rbac_setup.share("subnetpool", pool, "b")
    of_scope = rbac_setup.share("address_scope", scope, "b")
    of_pool = rbac_setup.share("subnetpool", pool, "b")
    network = rbac_setup.insert(t.networks)
    rbac_setup.insert(
        t.subnets, network_id=network, project_id="b", ip_version=4, cidr="10.0.0.0/24", subnetpool_id=pool
    )
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ALICE, of_pool["id"], None)
    rbac_setup.insert(t.subnetpools, **POOL, address_scope_id=scope, project_id="b")
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ALICE, of_scope["id"], None)


def test_an_address_group_stays_shared_while_rules_use_it(rbac_setup: RbacSetup) -> None:
    addresses = rbac_setup.insert(address_groups)
    policy = rbac_setup.share("address_group", addresses, "b")
    group = rbac_setup.insert(t.security_groups, project_id="b")
    rbac_setup.insert(
        t.security_group_rules,
        security_group_id=group,
        project_id="b",
        direction="ingress",
        ethertype="IPv4",
        remote_address_group_id=addresses,
        identity="x",
    )
    with pytest.raises(errors.RbacPolicyInUse):
        rbac_setup.rbac.delete(ALICE, policy["id"], None)
