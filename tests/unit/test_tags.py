"""Tags through their routes: responses, errors, and that the row of an object and the table `tags` agree."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from neutrino.server import errors
from neutrino.server.access.tags import tag_routes
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.network import NETWORK
from neutrino.server.api.resources.port import PORT
from neutrino.server.api.resources.security_group import SECURITY_GROUP
from neutrino.server.api.resources.subnet import SUBNET
from neutrino.server.api.resources.subnetpool import SUBNETPOOL
from neutrino.server.context import Context, admin_context
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh, new_id
from neutrino.server.db.session import Database
from neutrino.server.db.view import View
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import Query
from neutrino.server.services import ignore
from tests.support.databases import prepared_sqlite

TAGGED = (
    (NETWORK, t.networks),
    (SUBNET, t.subnets),
    (PORT, t.ports),
    (SUBNETPOOL, t.subnetpools),
    (SECURITY_GROUP, t.security_groups),
)


def caller(project: str, *roles: str) -> Context:
    credentials: dict[str, object] = {"roles": list(roles), "project_id": project, "user_id": "", "service_roles": []}
    return Context(project, roles=frozenset(roles), credentials=credentials)


ALICE, BOB = caller("a", "member", "reader"), caller("b", "member", "reader")
WATCHER, ADMIN = caller("a", "reader"), admin_context("admin")


class TagSetup:
    def __init__(self, path: Path) -> None:
        self.db = Database(prepared_sqlite(path / "n.db"), sqlite_durable=False)
        conf = cfg.ConfigOpts()
        conf([], project="test", default_config_files=[], default_config_dirs=[])
        self.routes = {(r.method, r.path): r.handler for r in tag_routes(self.db, Authorizer(conf), ignore, TAGGED)}

    def insert(self, table: sa.Table, **values: Any) -> str:
        made = fresh({"name": "x", "project_id": "a", **values})
        with self.db.transaction() as tx:
            tx.execute(sa.insert(table).values(as_row(table, made)))
        return str(made["id"])

    def call(
        self, who: Context, method: str, key: str, tag: str | None = None, body: Any = None, path: str = "networks"
    ) -> Reply:
        url = f"/v2.0/{path}/{{parent}}/tags" + ("" if tag is None else "/{key}")
        raw = b"" if body is None else msgspec.json.encode(body)
        return self.routes[method, url](Request(who, raw=raw, parent=key, key=tag or ""))

    def stored(self, key: str, table: sa.Table = t.networks) -> tuple[list[str], list[str], int]:
        """In the object's row, in the table of tags, and the object's revision."""
        with self.db.read() as connection:
            row = connection.execute(sa.select(table.c.tags, table.c.revision_number).where(table.c.id == key)).one()
            rows = connection.execute(
                sa.select(t.tags.c.tag).where(t.tags.c.object_id == key).order_by(t.tags.c.tag)
            ).scalars()
            return msgspec.json.decode(row.tags), list(rows), row.revision_number


@pytest.fixture
def tag_setup(tmp_path: Path) -> Iterator[TagSetup]:
    made = TagSetup(tmp_path)
    yield made
    made.db.close()


def test_tags_come_and_go(tag_setup: TagSetup) -> None:
    key = tag_setup.insert(t.networks)
    assert tag_setup.call(ALICE, "GET", key) == Reply(200, {"tags": []})
    both = {"tags": ["red", "blue"]}
    assert tag_setup.call(ALICE, "PUT", key, body=both) == Reply(200, both)
    assert tag_setup.call(ALICE, "PUT", key, "green") == Reply(201)
    assert tag_setup.call(ALICE, "GET", key, "green") == Reply(204)
    with pytest.raises(errors.TagNotFound):
        tag_setup.call(ALICE, "GET", key, "none")
    assert tag_setup.call(ALICE, "GET", key) == Reply(200, {"tags": ["blue", "green", "red"]})
    assert tag_setup.stored(key) == (["blue", "green", "red"], ["blue", "green", "red"], 3)
    assert tag_setup.call(ALICE, "DELETE", key, "red") == Reply(204)
    with pytest.raises(errors.TagNotFound):
        tag_setup.call(ALICE, "DELETE", key, "red")
    more = {"tags": ["blue", "white"]}
    assert tag_setup.call(ALICE, "POST", key, body=more) == Reply(201, more)
    assert tag_setup.stored(key) == (["blue", "green", "white"], ["blue", "green", "white"], 5)
    assert tag_setup.call(ALICE, "PUT", key, body={"tags": ["one", "green"]}).status == 200
    assert tag_setup.stored(key) == (["green", "one"], ["green", "one"], 6)
    assert tag_setup.call(ALICE, "DELETE", key) == Reply(204)
    assert tag_setup.stored(key) == ([], [], 7)


def test_a_tag_that_is_there_already_changes_nothing(tag_setup: TagSetup) -> None:
    key = tag_setup.insert(t.networks)
    for _ in range(2):
        assert tag_setup.call(ALICE, "PUT", key, "green") == Reply(201)
    assert tag_setup.stored(key)[2] == 2
    assert tag_setup.call(ALICE, "DELETE", tag_setup.insert(t.networks)) == Reply(204)


@pytest.mark.parametrize("tags", [["x" * 256], "x", [1], ["a", "a"], None, ["\x00"]])
def test_what_is_not_a_list_of_tags(tag_setup: TagSetup, tags: Any) -> None:
    key = tag_setup.insert(t.networks)
    with pytest.raises(errors.InvalidInput):
        tag_setup.call(ALICE, "PUT", key, body={"tags": tags})
    with pytest.raises(errors.InvalidInput):
        tag_setup.call(ALICE, "POST", key, body={"nothing": 1})
    with pytest.raises(errors.InvalidInput):
        tag_setup.call(ALICE, "PUT", key, "x" * 256)


def test_at_most_fifty(tag_setup: TagSetup) -> None:
    key = tag_setup.insert(t.networks)
    fifty = [f"t{i}" for i in range(50)]
    with pytest.raises(errors.BadRequest):
        tag_setup.call(ALICE, "PUT", key, body={"tags": [*fifty, "more"]})
    assert tag_setup.call(ALICE, "PUT", key, body={"tags": fifty}).status == 200
    with pytest.raises(errors.BadRequest):
        tag_setup.call(ALICE, "PUT", key, "more")
    with pytest.raises(errors.BadRequest):
        tag_setup.call(ALICE, "POST", key, body={"tags": ["more"]})
    assert tag_setup.call(ALICE, "PUT", key, "t1") == Reply(201)


def test_the_policy_decides(tag_setup: TagSetup) -> None:
    key = tag_setup.insert(t.networks)
    for method, tag in (("PUT", "mine"), ("DELETE", "mine"), ("GET", "mine"), ("GET", None), ("DELETE", None)):
        with pytest.raises(errors.PolicyNotAuthorized):
            tag_setup.call(BOB, method, key, tag)
    with pytest.raises(errors.PolicyNotAuthorized):
        tag_setup.call(WATCHER, "POST", key, body={"tags": ["x"]})
    assert tag_setup.call(WATCHER, "GET", key).status == 200
    assert tag_setup.call(ADMIN, "PUT", key, "x") == Reply(201)
    with pytest.raises(errors.NetworkNotFound):
        tag_setup.call(ALICE, "GET", new_id())


def test_who_a_network_is_shared_with_reads_its_tags(tag_setup: TagSetup) -> None:
    key = tag_setup.insert(t.networks, external=True)
    with pytest.raises(errors.PolicyNotAuthorized):
        tag_setup.call(BOB, "GET", key)
    for action in ("access_as_external", "access_as_shared"):
        with tag_setup.db.transaction() as tx:
            tx.execute(sa.delete(t.rbac_policies))
            tx.execute(
                sa.insert(t.rbac_policies).values(
                    id=new_id(),
                    project_id="a",
                    object_type="network",
                    object_id=key,
                    action=action,
                    target_project="b",
                )
            )
        assert tag_setup.call(BOB, "GET", key).status == 200
    with pytest.raises(errors.PolicyNotAuthorized):
        tag_setup.call(BOB, "PUT", key, "x")


def test_every_tagged_resource_has_them(tag_setup: TagSetup) -> None:
    network = tag_setup.insert(t.networks, project_id="b")
    pool = {"ip_version": 4, "default_prefixlen": 24, "min_prefixlen": 8, "max_prefixlen": 32}
    objects: tuple[tuple[str, sa.Table, dict[str, Any]], ...] = (
        ("subnets", t.subnets, {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/24"}),
        ("ports", t.ports, {"network_id": network, "mac_address": "02:00:00:00:00:01"}),
        ("subnetpools", t.subnetpools, pool),
        ("security-groups", t.security_groups, {}),
    )
    for path, table, values in objects:
        key = tag_setup.insert(table, **values)
        assert tag_setup.call(ALICE, "PUT", key, "ä b", path=path) == Reply(201)
        assert tag_setup.stored(key, table) == (["ä b"], ["ä b"], 2)
        if "network_id" in values:  # the network's owner reads them too
            assert tag_setup.call(BOB, "GET", key, path=path).body == {"tags": ["ä b"]}
        else:
            with pytest.raises(errors.PolicyNotAuthorized):
                tag_setup.call(BOB, "GET", key, path=path)


def test_objects_are_found_by_their_tags(tag_setup: TagSetup) -> None:
    key, other = tag_setup.insert(t.networks), tag_setup.insert(t.networks)
    tag_setup.call(ALICE, "PUT", key, body={"tags": ["x", "y"]})
    tag_setup.call(ALICE, "PUT", other, body={"tags": ["x"]})
    view = View(t.networks, columns=("id", "project_id"))
    with tag_setup.db.read() as connection:
        found = view.many(connection, Query(filters={"tags": ("x", "y")}, fields=("id",)), "a")
    assert found == [{"id": key}]


def test_eight_writers_lose_no_tag(tag_setup: TagSetup) -> None:
    key = tag_setup.insert(t.networks)
    gate = threading.Barrier(8)

    def write(number: int) -> None:
        gate.wait(10)
        for i in range(5):
            tag_setup.call(ALICE, "PUT", key, f"{number}-{i}")

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(write, range(8)))
    expected = sorted(f"{number}-{i}" for number in range(8) for i in range(5))
    assert tag_setup.stored(key) == (expected, expected, 41)
