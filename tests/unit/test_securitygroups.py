"""The security group plugin on a database: objects, errors, quotas and the change log; also concurrently."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from neutrino.features.address_group.collection import AddressGroupNotFound
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.catalog import serve
from neutrino.server.api.resources.security_group import SECURITY_GROUP, SECURITY_GROUP_RULE
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.query import Query, Sort
from neutrino.server.securitygroups.groups import SecurityGroups
from neutrino.server.securitygroups.views import check_usable
from tests.support.databases import prepared_sqlite
from tests.support.security_groups import (
    ADMIN,
    ALICE,
    BOB,
    NOWHERE,
    at_once,
    counted,
    logged,
    make_group,
    make_plugin,
    make_rule,
    make_rules,
    parsed,
    put_on_port,
    share,
    shown,
    used,
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    db = Database(prepared_sqlite(tmp_path / "neutrino.db"), sqlite_durable=False)
    yield db
    db.close()


@pytest.fixture
def plugin(db: Database) -> SecurityGroups:
    return make_plugin(db)


def count_queries(db: Database, action: Callable[[], Any]) -> int:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    engines = [db._reads, db._writes]
    for engine in engines:
        sa.event.listen(engine, "before_cursor_execute", note)
    action()
    for engine in engines:
        sa.event.remove(engine, "before_cursor_execute", note)
    return len(seen)


def test_plugin_has_a_method_for_every_verb(plugin: SecurityGroups) -> None:
    served = serve([plugin])
    assert [one.resource.name for one in served] == ["security_group", "security_group_rule"]
    assert all(one.create_several is not None for one in served)
    assert served[1].target is not None


class TestDefaultGroup:
    def test_a_list_creates_it(self, plugin: SecurityGroups) -> None:
        listed = plugin.index(ALICE, Query({"name": ("default",)}))
        assert len(listed) == 1
        group = shown(plugin, listed[0]["id"])
        assert (group["name"], group["description"]) == ("default", "Default security group")
        assert (group["stateful"], group["shared"], group["revision_number"]) == (True, False, 1)
        assert (group["project_id"], group["tenant_id"], group["tags"]) == ("alice", "alice", [])
        rules = {(r["direction"], r["ethertype"], r["remote_group_id"]) for r in group["security_group_rules"]}
        key = group["id"]
        assert rules == {
            ("egress", "IPv4", None),
            ("egress", "IPv6", None),
            ("ingress", "IPv4", key),
            ("ingress", "IPv6", key),
        }
        for rule in group["security_group_rules"]:
            assert rule["belongs_to_default_sg"] is True
            assert (rule["revision_number"], rule["description"], rule["tags"]) == (0, None, [])

    def test_is_created_once_and_then_found_with_one_query(self, plugin: SecurityGroups, db: Database) -> None:
        first = plugin.ensure_default("alice")
        assert count_queries(db, lambda: plugin.ensure_default("alice")) == 1
        assert plugin.ensure_default("alice") == first
        assert plugin.ensure_default("bob") != first

    def test_is_created_by_a_list_of_rules(self, plugin: SecurityGroups) -> None:
        assert len(plugin.rules.index(ALICE, Query())) == 4

    def test_is_created_for_the_project_in_an_administrators_filter(self, plugin: SecurityGroups, db: Database) -> None:
        plugin.index(BOB, Query({"project_id": ("alice",)}))
        assert counted(db, t.security_groups) == 0
        plugin.index(ADMIN, Query({"project_id": ("alice",)}, everyone=True))
        assert counted(db, t.security_groups, t.security_groups.c.project_id == "alice") == 1

    def test_is_created_above_the_quota_and_counted(self, db: Database) -> None:
        plugin = make_plugin(db, groups=0, rules=0)
        plugin.ensure_default("alice")
        assert (used(db, "security_group"), used(db, "security_group_rule")) == (1, 4)

    def test_keeps_its_name(self, plugin: SecurityGroups) -> None:
        key = plugin.ensure_default("alice")
        with pytest.raises(errors.SecurityGroupCannotUpdateDefault):
            plugin.update(ALICE, key, {"name": "other"}, None)
        changed = plugin.update(ALICE, key, {"description": "still default"}, None)
        assert (changed["description"], changed["revision_number"], changed["name"]) == ("still default", 2, "default")

    def test_only_an_admin_removes_it_and_only_unused(self, plugin: SecurityGroups, db: Database) -> None:
        key = plugin.ensure_default("alice")
        with pytest.raises(errors.SecurityGroupCannotRemoveDefault):
            plugin.delete(ALICE, key, None)
        port = put_on_port(db, key)
        for context in (ALICE, ADMIN):
            with pytest.raises(errors.SecurityGroupInUse):
                plugin.delete(context, key, None)
        with db.transaction() as tx:
            tx.execute(sa.delete(t.ports).where(t.ports.c.id == port))
        plugin.delete(ADMIN, key, None)
        assert counted(db, t.default_security_groups) == 0
        assert plugin.ensure_default("alice") != key
        assert (used(db, "security_group"), used(db, "security_group_rule")) == (1, 4)

    def test_concurrent_requests_create_one(self, plugin: SecurityGroups, db: Database) -> None:
        found = at_once(lambda _: plugin.ensure_default("alice"))
        assert len(set(found)) == 1
        assert (counted(db, t.security_groups), counted(db, t.security_group_rules)) == (1, 4)
        assert (used(db, "security_group"), used(db, "security_group_rule")) == (1, 4)


class TestGroups:
    def test_a_new_group_allows_all_egress(self, plugin: SecurityGroups, db: Database) -> None:
        made = make_group(plugin, name="web", description="web")
        group = shown(plugin, made["id"])
        made.pop("is_default")
        for one in (made, group):
            one["security_group_rules"].sort(key=lambda rule: rule["id"])
        assert group == made
        assert (group["name"], group["revision_number"], group["shared"], group["stateful"]) == ("web", 1, False, True)
        rules = shown(plugin, group["id"])["security_group_rules"]
        assert {(r["direction"], r["ethertype"]) for r in rules} == {("egress", "IPv4"), ("egress", "IPv6")}
        assert all(r["belongs_to_default_sg"] is False and r["description"] is None for r in rules)
        assert counted(db, t.security_groups) == 2, "the default group is made first"
        assert logged(db, group["id"]) == [False]

    def test_rules_in_a_group_equal_the_rules_resource(self, plugin: SecurityGroups) -> None:
        key = make_group(plugin)["id"]
        made = make_rule(plugin, key, protocol="tcp", port_range_min=1, port_range_max=2)
        alone = plugin.rules.show(ALICE, made["id"], None, True)
        assert msgspec.json.decode(msgspec.json.encode(alone)) == made
        assert made in shown(plugin, key)["security_group_rules"]

    def test_a_list_has_as_many_queries_for_many_groups_as_for_few(self, plugin: SecurityGroups, db: Database) -> None:
        def queries(query: Query) -> int:
            return count_queries(db, lambda: plugin.index(ALICE, query))

        plugin.ensure_default("alice")
        few = queries(Query())
        plugin.create_several(ALICE, parsed(SECURITY_GROUP, [{"name": str(i)} for i in range(9)]))
        assert queries(Query()) == few == 3, "the default group, the groups, their rules"
        assert queries(Query(fields=("name",))) == 2
        listed = plugin.index(ALICE, Query(fields=("name", "security_group_rules")))
        assert sorted(len(group["security_group_rules"]) for group in listed) == [2] * 9 + [4]

    def test_bulk_is_all_or_nothing(self, plugin: SecurityGroups, db: Database) -> None:
        with pytest.raises(errors.OverQuota):
            plugin.create_several(ALICE, parsed(SECURITY_GROUP, [{"name": str(i)} for i in range(20)]))
        assert counted(db, t.security_groups) == 1
        assert used(db, "security_group") == 1

    def test_first_rules_count_against_the_quota_of_rules(self, db: Database) -> None:
        plugin = make_plugin(db, groups=9, rules=5)
        with pytest.raises(errors.OverQuota):
            make_group(plugin)
        assert (used(db, "security_group"), used(db, "security_group_rule")) == (1, 4)

    def test_update(self, plugin: SecurityGroups, db: Database) -> None:
        key = make_group(plugin, name="web")["id"]
        changed = plugin.update(ALICE, key, {"name": "web2", "stateful": False}, 1)
        assert (changed["name"], changed["stateful"], changed["revision_number"]) == ("web2", False, 2)
        assert len(changed["security_group_rules"]) == 2
        assert shown(plugin, key)["name"] == "web2"
        assert logged(db, key) == [False, False]
        with pytest.raises(errors.RevisionNumberConstraintFailed):
            plugin.update(ALICE, key, {"name": "web3"}, 1)

    def test_stateful_cannot_change_while_in_use(self, plugin: SecurityGroups, db: Database) -> None:
        key = make_group(plugin)["id"]
        put_on_port(db, key)
        with pytest.raises(errors.SecurityGroupInUse):
            plugin.update(ALICE, key, {"stateful": False, "name": "x"}, None)
        assert shown(plugin, key)["name"] == ""
        assert plugin.update(ALICE, key, {"stateful": True}, None)["stateful"] is True

    def test_delete(self, plugin: SecurityGroups, db: Database) -> None:
        key, other = make_group(plugin)["id"], make_group(plugin)["id"]
        rule = make_rule(plugin, other, remote_group_id=key)["id"]
        make_rule(plugin, key, remote_group_id=key)
        own = make_rule(plugin, key, remote_group_id=other)["id"]
        with db.transaction() as tx:
            tx.execute(sa.insert(t.tags), [{"object_id": o, "tag": "x"} for o in (key, rule, own)])
        share(db, key, "bob")
        plugin.delete(ALICE, key, None)
        assert plugin.show(ALICE, key, None, True) is None
        assert plugin.rules.show(ALICE, rule, None, True) is None
        assert (counted(db, t.tags), counted(db, t.rbac_policies)) == (0, 0)
        left = counted(db, t.security_group_rules)
        assert left == 4 + 2
        assert (used(db, "security_group"), used(db, "security_group_rule")) == (2, left)
        assert logged(db, key)[-1] is True
        assert shown(plugin, other)["revision_number"] == 3
        assert logged(db, other) == [False, False, False]
        with pytest.raises(errors.SecurityGroupNotFound):
            plugin.delete(ALICE, key, None)

    def test_delete_of_a_used_group_is_refused(self, plugin: SecurityGroups, db: Database) -> None:
        key = make_group(plugin)["id"]
        put_on_port(db, key)
        with pytest.raises(errors.SecurityGroupInUse):
            plugin.delete(ALICE, key, None)


class TestSharing:
    def test_a_group_is_seen_by_those_it_is_shared_with(self, plugin: SecurityGroups, db: Database) -> None:
        key = make_group(plugin, name="web")["id"]
        assert plugin.show(BOB, key, None, False) is None
        share(db, key, "bob")
        assert shown(plugin, key, BOB)["shared"] is True
        assert len(shown(plugin, key, BOB)["security_group_rules"]) == 2
        assert shown(plugin, key, ALICE)["shared"] is False, "as Alice sees it, it is only hers"
        listed = plugin.index(BOB, Query({"shared": (True,)}))
        assert [group["id"] for group in listed] == [key]
        listed = plugin.index(BOB, Query({"shared": (False,)}))
        assert [group["name"] for group in listed] == ["default"]

    def test_groups_that_a_port_may_have(self, plugin: SecurityGroups, db: Database) -> None:
        own, foreign = plugin.ensure_default("alice"), make_group(plugin, BOB)["id"]
        stateless = make_group(plugin, stateful=False)["id"]
        with db.read() as connection:
            check_usable(connection, ALICE, [])
            check_usable(connection, ALICE, [own, own])
            check_usable(connection, ALICE, [stateless])
            check_usable(connection, BOB, [own], "alice")
            check_usable(connection, ADMIN, [own, foreign])
            for context, groups in ((ALICE, [own, foreign]), (ALICE, [NOWHERE]), (ADMIN, [NOWHERE])):
                with pytest.raises(errors.SecurityGroupNotFound):
                    check_usable(connection, context, groups)
            with pytest.raises(errors.SecurityGroupConflict):
                check_usable(connection, ALICE, [own, stateless])
        share(db, foreign, "*")
        with db.read() as connection:
            check_usable(connection, ALICE, [own, foreign])

    def test_a_rule_refers_to_groups_of_its_project_or_shared(self, plugin: SecurityGroups, db: Database) -> None:
        key, foreign = make_group(plugin)["id"], make_group(plugin, BOB)["id"]
        with pytest.raises(errors.SecurityGroupNotFound):
            make_rule(plugin, key, remote_group_id=foreign)
        share(db, foreign, "alice")
        assert make_rule(plugin, key, remote_group_id=foreign)["remote_group_id"] == foreign


class TestRules:
    def test_a_rule_is_shown_as_created(self, plugin: SecurityGroups) -> None:
        key = make_group(plugin)["id"]
        made = make_rule(
            plugin, key, protocol="tcp", port_range_min=22, port_range_max=22, remote_ip_prefix="10.0.0.5/8"
        )
        expected = {
            "project_id": "alice",
            "tenant_id": "alice",
            "security_group_id": key,
            "direction": "ingress",
            "ethertype": "IPv4",
            "protocol": "tcp",
            "port_range_min": 22,
            "port_range_max": 22,
            "remote_ip_prefix": "10.0.0.5/8",
            "normalized_cidr": "10.0.0.0/8",
            "remote_group_id": None,
            "remote_address_group_id": None,
            "belongs_to_default_sg": False,
            "description": "",
            "revision_number": 0,
            "tags": [],
        }
        assert {k: v for k, v in made.items() if k not in {"id", "created_at", "updated_at"}} == expected
        assert set(SECURITY_GROUP_RULE.visible) | {"tenant_id"} == set(made)

    def test_same_rule_twice_is_refused(self, plugin: SecurityGroups) -> None:
        key = make_group(plugin)["id"]
        first = make_rule(plugin, key, protocol="tcp", remote_ip_prefix="10.0.0.0/8")
        with pytest.raises(errors.SecurityGroupRuleExists, match=first["id"]):
            make_rule(plugin, key, protocol="6", remote_ip_prefix="10.0.0.0/8")
        with pytest.raises(errors.SecurityGroupRuleExists):
            make_rule(plugin, key, direction="egress", remote_ip_prefix="0.0.0.0/0")
        make_rule(plugin, key, protocol="tcp", remote_ip_prefix="10.0.0.5/8")
        make_rule(plugin, make_group(plugin)["id"], protocol="tcp", remote_ip_prefix="10.0.0.0/8")

    def test_a_change_of_rules_is_one_of_the_group(self, plugin: SecurityGroups, db: Database) -> None:
        key = make_group(plugin)["id"]
        several = [
            {
                "security_group_id": key,
                "direction": "ingress",
                "protocol": "tcp",
                "port_range_min": n,
                "port_range_max": n,
            }
            for n in range(1, 4)
        ]
        made = make_rules(plugin, several)
        assert [rule["port_range_min"] for rule in made] == [1, 2, 3]
        assert shown(plugin, key)["revision_number"] == 2
        assert logged(db, key) == [False, False]
        plugin.rules.delete(ALICE, made[0]["id"], None)
        assert shown(plugin, key)["revision_number"] == 3
        assert logged(db, key) == [False, False, False]
        assert used(db, "security_group_rule") == 4 + 2 + 2

    @pytest.mark.parametrize(
        ("more", "refusal"),
        [
            ([{"protocol": "tcp"}, {"protocol": 6}], errors.DuplicateSecurityGroupRuleInPost),
            ([{"protocol": "tcp"}, {"direction": "egress"}], errors.SecurityGroupRuleExists),
            ([{"protocol": "tcp"}, {"remote_group_id": NOWHERE}], errors.SecurityGroupNotFound),
            ([{"protocol": "tcp"}, {"remote_address_group_id": NOWHERE}], AddressGroupNotFound),
            ([{"protocol": "tcp"}, {"port_range_min": 1}], errors.SecurityGroupProtocolRequiredWithPorts),
            ([{"protocol": "tcp"}, {"security_group_id": NOWHERE}], errors.SecurityGroupNotSingleGroupRules),
        ],
    )
    def test_bulk_is_all_or_nothing(
        self, plugin: SecurityGroups, db: Database, more: list[Object], refusal: type[errors.ApiError]
    ) -> None:
        key = make_group(plugin)["id"]
        with pytest.raises(refusal):
            make_rules(plugin, [{"security_group_id": key, "direction": "ingress", **one} for one in more])
        assert counted(db, t.security_group_rules) == 4 + 2
        assert shown(plugin, key)["revision_number"] == 1

    def test_a_rule_needs_an_existing_group(self, plugin: SecurityGroups) -> None:
        with pytest.raises(errors.SecurityGroupNotFound):
            make_rule(plugin, NOWHERE)
        with pytest.raises(errors.SecurityGroupNotFound):
            plugin.rules.target(ALICE, {"security_group_id": NOWHERE})

    def test_policy_target_is_the_owner_of_the_group(self, plugin: SecurityGroups) -> None:
        key = make_group(plugin)["id"]
        expected = {"security_group:project_id": "alice"}
        assert plugin.rules.target(BOB, {"security_group_id": key}) == expected
        made = make_rule(plugin, key, ADMIN)
        assert made["project_id"] == "ops"
        found = plugin.rules.show(ALICE, made["id"], ("id", "security_group:project_id"), False)
        assert found == {"id": made["id"], **expected}

    def test_rules_are_listed_for_their_groups_owner(self, plugin: SecurityGroups) -> None:
        key = make_group(plugin)["id"]
        make_rule(plugin, key, ADMIN, protocol="tcp", port_range_min=7, port_range_max=7)
        make_rule(plugin, key, protocol="tcp", port_range_min=5, port_range_max=5)
        query = Query({"protocol": ("tcp",)}, ("port_range_min",), (Sort("port_range_min"),))
        assert plugin.rules.index(ALICE, query) == [{"port_range_min": 5}, {"port_range_min": 7}]
        assert plugin.rules.index(BOB, query) == []
        of_default = plugin.rules.index(ALICE, Query({"belongs_to_default_sg": (True,)}))
        assert len(of_default) == 4

    def test_a_rule_is_immutable(self, plugin: SecurityGroups) -> None:
        made = make_rule(plugin, make_group(plugin)["id"], description="x")
        with pytest.raises(errors.HTTPBadRequest):
            plugin.rules.update(ALICE, made["id"], {"description": "y"}, None)
        assert plugin.rules.update(ALICE, made["id"], {"description": "x"}, None)["id"] == made["id"]
        with pytest.raises(errors.SecurityGroupRuleNotFound):
            plugin.rules.update(ALICE, NOWHERE, {}, None)

    def test_delete(self, plugin: SecurityGroups) -> None:
        made = make_rule(plugin, make_group(plugin)["id"])
        with pytest.raises(errors.RevisionNumberConstraintFailed):
            plugin.rules.delete(ALICE, made["id"], 4)
        plugin.rules.delete(ALICE, made["id"], 0)
        with pytest.raises(errors.SecurityGroupRuleNotFound):
            plugin.rules.delete(ALICE, made["id"], None)
