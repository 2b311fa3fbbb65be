"""Many who change security groups at once, on each of the databases: nothing is made twice, lost or miscounted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.securitygroups.groups import SecurityGroups
from tests.support.databases import DATABASES, prepared_database
from tests.support.security_groups import (
    ALICE,
    at_once,
    counted,
    make_group,
    make_plugin,
    make_rule,
    make_rules,
    shown,
    used,
)


@pytest.fixture(params=DATABASES)
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    db = Database(prepared_database(request, request.param, tmp_path), sqlite_durable=False)
    yield db
    db.close()


@pytest.fixture
def plugin(db: Database) -> SecurityGroups:
    return make_plugin(db)


def test_default_group_is_made_once(plugin: SecurityGroups, db: Database) -> None:
    found = at_once(lambda _: plugin.ensure_default("alice"))
    assert len(set(found)) == 1
    assert (counted(db, t.security_groups), counted(db, t.security_group_rules)) == (1, 4)
    assert (used(db, "security_group"), used(db, "security_group_rule")) == (1, 4)


def test_rules_never_pass_the_quota(db: Database) -> None:
    plugin = make_plugin(db, groups=9, rules=20)
    key = make_group(plugin)["id"]

    def add(thread: int) -> int:
        added = 0
        for port in range(5):
            number = 1 + thread * 5 + port
            try:
                make_rule(plugin, key, protocol="tcp", port_range_min=number, port_range_max=number)
                added += 1
            except errors.OverQuota:
                pass
        return added

    added = sum(at_once(add))
    assert added == 20 - 6
    assert counted(db, t.security_group_rules) == used(db, "security_group_rule") == 20
    assert shown(plugin, key)["revision_number"] == 1 + added


def test_the_same_rule_is_made_once(plugin: SecurityGroups, db: Database) -> None:
    key = make_group(plugin)["id"]
    found = at_once(lambda _: make_rule(plugin, key, protocol="tcp"))
    refused = [one for one in found if isinstance(one, errors.SecurityGroupRuleExists)]
    assert len(refused) == 7
    assert used(db, "security_group_rule") == 4 + 2 + 1


def test_a_rule_is_deleted_once(plugin: SecurityGroups, db: Database) -> None:
    made = make_rule(plugin, make_group(plugin)["id"])
    found = at_once(lambda _: plugin.rules.delete(ALICE, made["id"], None))
    assert found.count(None) == 1
    assert used(db, "security_group_rule") == 4 + 2


def test_groups_that_refer_to_each_other_go_at_once(plugin: SecurityGroups, db: Database) -> None:
    keys = [make_group(plugin)["id"] for _ in range(8)]
    for key in keys:
        make_rules(plugin, [{"security_group_id": key, "direction": "ingress", "remote_group_id": k} for k in keys])
    assert at_once(lambda n: plugin.delete(ALICE, keys[n], None)) == [None] * 8
    assert counted(db, t.security_group_rules) == used(db, "security_group_rule") == 4
    assert used(db, "security_group") == 1


def test_rules_for_a_group_that_goes(plugin: SecurityGroups, db: Database) -> None:
    key = make_group(plugin)["id"]

    def act(thread: int) -> Any:
        if thread == 4:
            return plugin.delete(ALICE, key, None)
        return make_rule(plugin, key, protocol=100 + thread)

    for one in at_once(act):
        assert not isinstance(one, Exception) or isinstance(one, errors.SecurityGroupNotFound)
    assert counted(db, t.security_group_rules) == used(db, "security_group_rule") == 4
