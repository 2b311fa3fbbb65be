"""The quota API through its routes, and the repair of counters."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from neutrino.cli.database import database
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.access.rbac import RbacPolicies
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.session import Database
from neutrino.server.ipam.subnet_pools import SubnetPools
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.quota.plugin import Correction, QuotaPlugin, recount
from neutrino.server.quota.quotas import Quotas
from tests.support.databases import prepared_sqlite

DEFAULTS = {"network": 500, "subnet": 500, "subnetpool": -1, "port": 500, "rbac_policy": 10}


def member(project: str) -> Context:
    roles = ["member", "reader"]
    credentials: dict[str, object] = {"roles": roles, "project_id": project, "user_id": "", "service_roles": []}
    return Context(project, roles=frozenset(roles), credentials=credentials)


ALICE, BOB, ADMIN = member("a"), member("b"), admin_context("admin")


class QuotaSetup:
    def __init__(self, path: Path) -> None:
        self.db = Database(prepared_sqlite(path / "n.db"), sqlite_durable=False)
        self.quotas = Quotas(self.db, DEFAULTS)
        conf = cfg.ConfigOpts()
        conf([], project="test", default_config_files=[], default_config_dirs=[])
        plugin = QuotaPlugin(self.db, self.quotas)
        self.handlers = {(r.method, r.path): r.handler for r in plugin.routes(Authorizer(conf))}

    def call(self, who: Context, method: str, path: str, key: str = "", body: Any = None) -> Reply:
        raw = b"" if body is None else msgspec.json.encode(body)
        return self.handlers[method, f"/v2.0/quotas{path}"](Request(who, raw=raw, key=key))

    def put(self, key: str, **limits: Any) -> Object:
        reply = self.call(ADMIN, "PUT", "/{key}", key, {"quota": limits})
        assert reply.status == 200
        return dict(reply.body["quota"])

    def use_networks(self, project: str, amount: int, limit: int = 1000) -> None:
        """Make networks, and count them under a limit."""
        with self.db.transaction() as tx:
            for _ in range(amount):
                tx.insert(t.networks, [as_row(t.networks, fresh({"name": "n", "project_id": project}))])
            tx.use("network", project, amount, limit)


@pytest.fixture
def quota_setup(tmp_path: Path) -> Iterator[QuotaSetup]:
    made = QuotaSetup(tmp_path)
    yield made
    made.db.close()


def test_a_project_sees_its_limits_and_not_those_of_others(quota_setup: QuotaSetup) -> None:
    assert quota_setup.call(ALICE, "GET", "/{key}", "a") == Reply(200, {"quota": DEFAULTS})
    assert quota_setup.call(ALICE, "GET", "/{key}/default", "a") == Reply(200, {"quota": DEFAULTS})
    for path in ("/{key}", "/{key}/default", "/{key}/details"):
        with pytest.raises(errors.PolicyNotAuthorized):
            quota_setup.call(ALICE, "GET", path, "b")
    for method in ("PUT", "DELETE"):
        with pytest.raises(errors.PolicyNotAuthorized):
            quota_setup.call(ALICE, method, "/{key}", "a", {"quota": {"network": 1000}})
    with pytest.raises(errors.PolicyNotAuthorized):
        quota_setup.call(ALICE, "GET", "")


def test_an_administrator_sets_limits_and_takes_them_back(quota_setup: QuotaSetup) -> None:
    changed = DEFAULTS | {"network": 1, "port": -1, "subnet": 0}
    assert quota_setup.put("b", network=1, port=-1, subnet="0") == changed
    assert quota_setup.call(BOB, "GET", "/{key}", "b").body == {"quota": changed}
    assert quota_setup.call(ALICE, "GET", "/{key}", "a").body == {"quota": DEFAULTS}
    assert quota_setup.call(ADMIN, "GET", "").body == {"quotas": [{**changed, "project_id": "b", "tenant_id": "b"}]}
    assert quota_setup.call(ADMIN, "DELETE", "/{key}", "b") == Reply(204)
    with pytest.raises(errors.TenantQuotaNotFound):
        quota_setup.call(ADMIN, "DELETE", "/{key}", "b")
    assert quota_setup.call(BOB, "GET", "/{key}", "b").body == {"quota": DEFAULTS}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"quota": {"network": -2}}, errors.HTTPBadRequest),
        ({"quota": {"network": "x"}}, errors.InvalidInput),
        ({"quota": {"network": None}}, errors.InvalidInput),
        ({"quota": {"network": 2**31}}, errors.HTTPBadRequest),
        ({"quota": {"bogus": 1}}, errors.HTTPBadRequest),
        ({"quota": []}, errors.HTTPBadRequest),
        ({}, errors.HTTPBadRequest),
        (None, errors.HTTPBadRequest),
    ],
)
def test_limits_that_make_no_sense(quota_setup: QuotaSetup, body: Any, error: type[errors.ApiError]) -> None:
    with pytest.raises(error) as caught:
        quota_setup.call(ADMIN, "PUT", "/{key}", "b", body)
    assert caught.value.type == error.__name__


def test_a_limit_below_what_is_used_needs_force(quota_setup: QuotaSetup) -> None:
    quota_setup.use_networks("b", 2)
    for options in ({}, {"check_limit": True}, {"force": False}):
        with pytest.raises(errors.HTTPBadRequest):
            quota_setup.put("b", network=1, **options)
    assert quota_setup.put("b", network=2)["network"] == 2
    assert quota_setup.put("b", network=-1)["network"] == -1
    assert quota_setup.put("b", network=1, force=True)["network"] == 1


def test_details_tell_limit_and_use(quota_setup: QuotaSetup) -> None:
    quota_setup.put("b", network=7)
    quota_setup.use_networks("b", 3)
    details = quota_setup.call(ADMIN, "GET", "/{key}/details", "b").body["quota"]
    assert list(details) == list(DEFAULTS)
    assert details["network"] == {"limit": 7, "used": 3, "reserved": 0}
    assert details["port"] == {"limit": 500, "used": 0, "reserved": 0}


def test_the_project_of_the_caller_is_shown(quota_setup: QuotaSetup) -> None:
    assert quota_setup.call(ALICE, "GET", "/tenant").body == {"tenant": {"tenant_id": "a"}}
    assert quota_setup.call(ALICE, "GET", "/project").body == {"project": {"project_id": "a"}}
    with pytest.raises(errors.QuotaMissingTenant):
        quota_setup.call(Context(None), "GET", "/project")


def counters(db: Database) -> dict[tuple[str, str], int]:
    u = t.quota_usages.c
    with db.read() as connection:
        rows = connection.execute(sa.select(u.project_id, u.resource, u.used)).all()
    return {(row.project_id, row.resource): row.used for row in rows}


def test_a_recount_finds_what_the_counters_say(quota_setup: QuotaSetup) -> None:
    network = fresh({"name": "n", "project_id": "a"})
    with quota_setup.db.transaction() as tx:
        tx.execute(sa.insert(t.networks).values(as_row(t.networks, network)))
        tx.use("network", "a", 1, 100)
    pools = SubnetPools(quota_setup.db, quota_setup.quotas)
    values = {"name": "p", "prefixes": ["10.0.0.0/8"], "is_default": False, "shared": False}
    made = [pools.create(ALICE, {**values, "project_id": project}) for project in ("a", "a", "b")]
    pools.delete(ALICE, made[0]["id"], None)
    rbac = RbacPolicies(quota_setup.db, quota_setup.quotas)
    policy = {"object_type": "network", "object_id": network["id"], "action": "access_as_shared", "project_id": "a"}
    first = rbac.create(ALICE, {**policy, "target_tenant": "b"})
    rbac.create(ALICE, {**policy, "target_tenant": "c"})
    rbac.delete(ALICE, first["id"], None)
    assert recount(quota_setup.db) == []
    assert counters(quota_setup.db) == {("a", "network"): 1, ("a", "rbac_policy"): 1}
    details = quota_setup.call(ADMIN, "GET", "/{key}/details", "a").body["quota"]
    assert details["subnetpool"] == {"limit": -1, "used": 1, "reserved": 0}  # not limited, so counted on request


def test_what_was_there_before_a_limit_counts_under_it(quota_setup: QuotaSetup) -> None:
    with quota_setup.db.transaction() as tx:
        for _ in range(3):
            tx.insert(t.networks, [as_row(t.networks, fresh({"name": "n", "project_id": "a"}))])
        tx.use("network", "a", 3)  # without a limit
    assert counters(quota_setup.db) == {}
    with pytest.raises(errors.OverQuota):
        quota_setup.use_networks("a", 1, limit=3)
    assert counters(quota_setup.db) == {}
    quota_setup.use_networks("a", 1)
    assert counters(quota_setup.db) == {("a", "network"): 4}


def test_a_recount_repairs(quota_setup: QuotaSetup) -> None:
    quota_setup.use_networks("a", 1)
    wrong = [
        {"project_id": "b", "resource": "port", "used": 5},  # and no ports
        {"project_id": "b", "resource": "vip", "used": 5},  # of others, who count themselves
    ]
    with quota_setup.db.transaction() as tx:
        tx.insert(t.quota_usages, wrong)
        tx.execute(sa.update(t.quota_usages).where(t.quota_usages.c.project_id == "a").values(used=7))
    assert recount(quota_setup.db) == [Correction("a", "network", 7, 1), Correction("b", "port", 5, 0)]
    assert counters(quota_setup.db) == {("a", "network"): 1, ("b", "port"): 0, ("b", "vip"): 5}
    assert recount(quota_setup.db) == []


def test_the_command_says_what_it_corrected(
    quota_setup: QuotaSetup, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = quota_setup.db.url.render_as_string(hide_password=False)
    file = tmp_path / "neutrino.conf"
    file.write_text(f"[DEFAULT]\nauth_strategy = noauth\nstate_path = {tmp_path}\n[database]\nconnection = {url}\n")

    def said() -> list[str]:
        assert database(argparse.Namespace(action="recount", config_file=[str(file)])) is None
        return capsys.readouterr().out.splitlines()[:-1]  # the last line is the version of the schema

    quota_setup.use_networks("a", 1)
    assert said() == ["recount: all counters were right"]
    with quota_setup.db.transaction() as tx:
        tx.insert(t.quota_usages, [{"project_id": "b", "resource": "port", "used": 5}])
        tx.execute(sa.update(t.quota_usages).where(t.quota_usages.c.project_id == "a").values(used=7))
    assert said() == [
        "project a: network: the counter was 7, there are 1",
        "project b: port: the counter was 5, there are 0",
        "recount: 2 counters corrected",
    ]
