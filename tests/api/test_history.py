"""GET /v2.0/changes: the history of objects from the change log, with the request that made each change."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from neutrino.server.change_cursors import resting
from neutrino.server.db import tables as t
from neutrino.server.feed.change_log import ChangeLog
from neutrino.server.history import MISSED, _Asked, _of_project
from neutrino.server.main import Server
from tests.api.agents import switch
from tests.api.client import Api, Response


@pytest.fixture(autouse=True)
def feed(server: Server) -> ChangeLog:
    """The feed's part: it gives positions, which SQLite's writers give themselves once the head exists."""
    log = ChangeLog(server.db)
    log.head()
    return log


def changes(api: Api, feed: ChangeLog, **query: Any) -> list[dict[str, Any]]:
    feed.sequence()
    found: list[dict[str, Any]] = api.get("/changes", query).expect(200).body["changes"]
    return found


def request_id(response: Response) -> str:
    return next(value for name, value in response.headers.items() if name.lower() == "x-openstack-request-id")


@pytest.mark.every_database
def test_the_history_of_a_port(api: Api, feed: ChangeLog) -> None:
    network = api.network()
    created = api.post("/ports", {"port": {"network_id": network["id"]}}).expect(201)
    key = created.body["port"]["id"]
    updated = api.put(f"/ports/{key}", {"port": {"name": "web"}}).expect(200)
    deleted = api.delete(f"/ports/{key}").expect(204)
    rows = changes(api, feed, object_id=key)
    assert [(row["action"], row["request_id"]) for row in rows] == [
        ("created", request_id(created)),
        ("updated", request_id(updated)),
        ("deleted", request_id(deleted)),
    ]
    assert {(row["kind"], row["object_id"], row["project_id"]) for row in rows} == {("port", key, api.project)}
    assert {row["user_id"] for row in rows} == {None}, "users are for administrators"
    shown = changes(api.as_admin(), feed, object_id=key)
    assert {row["user_id"] for row in shown} == {"somebody"}
    positions = [row["position"] for row in shown]
    assert positions == sorted(positions)
    assert all(row["at"].endswith("Z") and len(row["at"]) == 20 for row in rows)


@pytest.mark.every_database
def test_a_client_follows_the_log(api: Api, feed: ChangeLog) -> None:
    api.all("/security-groups")  # the project's default group is there
    feed.sequence()
    head = api.get("/changes").expect(200).body
    assert head["changes"] == []
    network = api.network()
    subnet = api.subnet(network)
    feed.sequence()
    after = api.get("/changes", {"after": head["position"]}).expect(200).body
    kinds = [row["kind"] for row in after["changes"]]
    assert sorted(kinds) == ["network", "network", "subnet"]
    assert kinds[0] == "network"
    assert after["position"] == after["changes"][-1]["position"]
    first = api.get("/changes", {"after": head["position"], "limit": 1}).expect(200).body["changes"]
    assert first == after["changes"][:1]
    only = api.get("/changes", {"after": head["position"], "kind": "subnet"}).expect(200).body["changes"]
    assert [row["object_id"] for row in only] == [subnet["id"]]
    assert api.get("/changes", {"after": after["position"]}).expect(200).body["changes"] == []


@pytest.mark.every_database
def test_members_see_their_project(api: Api, admin: Api, feed: ChangeLog, server: Server) -> None:
    feed.sequence()
    stranger = api.as_stranger()
    start, strangers, admins = (each.get("/changes").body["position"] for each in (api, stranger, admin))
    network = api.network()
    other = stranger.network()
    switch(server, "h9")  # an agent: of no project
    feed.sequence()
    assert {row["object_id"] for row in changes(api, feed, after=start, kind="network")} == {network["id"]}
    assert {row["object_id"] for row in changes(stranger, feed, after=strangers, kind="network")} == {other["id"]}
    every = changes(admin, feed, after=admins)
    assert {network["id"], other["id"]} < {row["object_id"] for row in every}
    assert [row["action"] for row in every if row["kind"] == "agent"] == ["created"]
    assert changes(stranger, feed, object_id=network["id"]) == []


def test_members_do_not_see_changes_of_objects_that_policy_hides(api: Api, admin: Api, feed: ChangeLog) -> None:
    """A log of the packets of their project is the administrator's."""
    log = admin.make("log", resource_type="security_group", project_id=api.project)["id"]
    feed.sequence()
    start = api.get("/changes").body["position"]
    admin.change("log", log, enabled=False)
    admin.delete(f"/log/logs/{log}").expect(204)
    network = api.network()
    assert changes(api, feed, object_id=log) == []
    shown = {row["object_id"] for row in changes(api, feed, after=start)}
    assert network["id"] in shown
    assert log not in shown
    assert [row["action"] for row in changes(admin, feed, object_id=log)] == ["created", "updated", "deleted"]


@pytest.mark.every_database
def test_changes_by_hosts(server: Server, api: Api, admin: Api, feed: ChangeLog) -> None:
    """A report of a host has no request id, and members see it though the report does not name their project."""
    switch(server, "h1")
    port = admin.port(api.network(), project_id=api.project, binding__host_id="h1", device_owner="compute:nova")
    server.core.provisioning.complete(port["id"], "L2", "h1")
    rows = changes(api, feed, object_id=port["id"])
    assert [(row["action"], bool(row["request_id"])) for row in rows] == [("created", True), ("updated", False)]
    with server.db.transaction() as tx:  # as by a write that does not know the project
        tx.record("port", port["id"])
    assert len(changes(api, feed, object_id=port["id"])) == 3
    assert changes(api.as_stranger(), feed, object_id=port["id"]) == []


@pytest.mark.every_database
def test_floating_ips(api: Api, admin: Api, feed: ChangeLog) -> None:
    external = admin.make("network", router__external=True)
    admin.subnet(external, "203.0.113.0/24")
    floating_ip = api.make("floatingip", floating_network_id=external["id"])
    api.change("floatingip", floating_ip["id"], description="x")
    api.delete(f"/floatingips/{floating_ip['id']}").expect(204)
    rows = changes(api, feed, object_id=floating_ip["id"])
    assert [row["action"] for row in rows] == ["created", "updated", "deleted"]


@pytest.mark.every_database
def test_removed_rows(server: Server, api: Api, admin: Api, feed: ChangeLog) -> None:
    network = api.network()
    feed.sequence()
    head, own = (each.get("/changes").body["position"] for each in (admin, api))
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.changes).values(at="2001-01-01T00:00:00Z"))
    feed.compact(3600)
    body = admin.get("/changes", {"object_id": network["id"]}).expect(200).body
    assert body == {"changes": [], "position": head, "removed": head}
    body = api.get("/changes", {"after": 0}).expect(200).body
    assert body == {"changes": [], "position": own, "removed": MISSED}
    assert api.get("/changes", {"after": own}).expect(200).body == {"changes": [], "position": own, "removed": 0}


def _moves_soon(shown: dict[str, Any]) -> bool:
    """Whether the next changes of others move where members continue, as some in the life of a log do."""
    head, removed = shown["position"], shown["removed"]
    return len({resting(0, removed, later) for later in range(head, head + 61)}) > 1


@pytest.mark.every_database
def test_members_do_not_learn_how_much_others_change(api: Api, admin: Api, feed: ChangeLog) -> None:
    for _ in range(40):  # a new log moves more often
        api.as_stranger().network()
    feed.sequence()
    while _moves_soon(admin.get("/changes").body):
        api.as_stranger().network()
        feed.sequence()
    api.network()
    feed.sequence()
    start = api.get("/changes").expect(200).body
    for _ in range(3):
        api.as_stranger().network()
        feed.sequence()
        assert api.get("/changes").expect(200).body == start
        assert api.get("/changes", {"after": start["position"]}).expect(200).body == start
    networks = [api.network() for _ in range(3)]
    rows = changes(api, feed, after=start["position"], kind="network")
    assert [row["object_id"] for row in rows] == [network["id"] for network in networks]
    places = {row["object_id"]: row["position"] for row in changes(admin, feed, after=0)}
    for row, network in zip(rows, networks, strict=True):
        assert row["position"] - start["position"] != places[network["id"]] - admin.get("/changes").body["position"]
        later = changes(api, feed, after=row["position"], kind="network")
        assert later == rows[rows.index(row) + 1 :]
    assert api.get("/changes").expect(200).body["position"] == rows[-1]["position"]


@pytest.mark.every_database
def test_a_position_that_is_none(api: Api, admin: Api, feed: ChangeLog) -> None:
    """Of another database, or of an administrator: such a client reads everything again."""
    api.network()
    feed.sequence()
    for after in (1, 2**52 + 12345, 2**53 + 1):
        assert api.get("/changes", {"after": after}).expect(200).body["removed"] > after or after > 2**53
    assert admin.get("/changes", {"after": 10**9}).expect(200).body["removed"] > 10**9


def test_the_history_of_a_project_does_not_read_the_whole_log(server: Server) -> None:
    asked = _Asked(1, None, ["network", "port"], 1000)
    statement = _of_project(asked, 1, 1000, "red").compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
    )
    with server.db.read() as connection:
        plan = [row.detail for row in connection.execute(sa.text(f"EXPLAIN QUERY PLAN {statement}"))]
    read = [line for line in plan if re.search(r"\bchanges\b", line)]
    index = "USING INDEX ix_changes_project_id_position (project_id=? AND position>? AND position<?)"
    assert read == [f"SEARCH changes {index}"] * 2


@pytest.mark.parametrize(
    ("query", "name"),
    [({"after": "x"}, "after"), ({"after": "-1"}, "after"), ({"limit": "ten"}, "limit"), ({"port": "x"}, "port"),
     ({"after": "1" * 30}, "after"), ({"after": 0, "kind": "a\x00"}, "kind")],
)  # fmt: skip
def test_bad_parameters(api: Api, query: dict[str, Any], name: str) -> None:
    assert name in api.get("/changes", query).refused(400, "HTTPBadRequest").message


def test_other_verbs_and_fields(api: Api, feed: ChangeLog) -> None:
    network = api.network()
    api.post("/changes", {"change": {}}).expect(405)
    assert changes(api, feed, object_id=network["id"], fields="action") == [{"action": "created"}]
    assert changes(api, feed, after=0, kind="host_credential") == []


# --- the timeline -----------------------------------------------------------------------------------------------------


def recent(api: Api, feed: ChangeLog, since: str = "3600", **query: Any) -> list[dict[str, Any]]:
    return changes(api, feed, since=since, **query)


@pytest.mark.every_database
def test_what_changed_lately_newest_first(server: Server, api: Api, feed: ChangeLog) -> None:
    network = api.network()
    port = api.port(network)
    api.change("port", port["id"], name="web")
    rows = recent(api, feed, kind=["network", "port"])
    assert [(row["kind"], row["action"]) for row in rows] == [
        ("port", "updated"),
        ("port", "created"),
        ("network", "created"),
    ]
    # Page by page, from the last one on.
    first = recent(api, feed, kind=["network", "port"], limit=2)
    rest = recent(api, feed, kind=["network", "port"], limit=2, before=first[-1]["position"])
    assert [*first, *rest] == rows
    admin = api.as_admin()
    found = recent(admin, feed, project_id=api.project, kind=["network", "port"])
    assert [row["object_id"] for row in found] == [row["object_id"] for row in rows]
    assert {row["user_id"] for row in found} == {"somebody"}
    assert [row["object_id"] for row in recent(admin, feed, object_id=network["id"])] == [network["id"]]


@pytest.mark.every_database
def test_only_from_a_time_on(server: Server, api: Api, feed: ChangeLog) -> None:
    ids = [api.network()["id"] for _ in range(9)]
    feed.sequence()
    with server.db.transaction() as tx:
        for number, key in enumerate(ids):
            rows = sa.update(t.changes).where(t.changes.c.object_id == key)
            tx.execute(rows.values(at=f"2031-01-0{number + 1}T00:00:00Z"))
    for number in range(9):
        since = f"2031-01-0{number + 1}T00:00:00Z"
        for caller in (api, api.as_admin()):
            found = [row["object_id"] for row in recent(caller, feed, since)]
            assert found == ids[number:][::-1], (number, caller.roles)
    assert recent(api, feed, "2031-01-09T01:00:00+01:00") != []
    assert recent(api, feed, "2032-01-01") == []
    with server.db.transaction() as tx:  # for other tests
        tx.execute(sa.delete(t.changes).where(t.changes.c.at > "2031"))


def test_members_see_the_timeline_of_their_project_only(api: Api, feed: ChangeLog) -> None:
    stranger = api.as_stranger()
    own, foreign = api.network(), stranger.network()
    assert {row["object_id"] for row in recent(api, feed, kind="network")} == {own["id"]}
    assert recent(api, feed, project_id=stranger.project) == []
    assert recent(api, feed, object_id=foreign["id"]) == []
    answer = api.get("/changes", {"since": "3600"}).expect(200)
    assert {row["user_id"] for row in answer.body["changes"]} == {None}
    # Positions are cursors: another one than those that were given leads nowhere.
    (position,) = {row["position"] for row in recent(stranger, feed, kind="network")}
    api.get("/changes", {"since": "3600", "before": position}).expect(200)
    assert recent(api, feed, before=3) == []


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=",
        "since=-5",
        "since=2026-13-01",
        "since=1&after=2",
        "before=3",
        "project_id=p",
        "since=1&before=x",
        "since=%00",
        "since=0001-01-01T00:00:00%2B14:00",
    ],
)
def test_odd_times_are_refused(api: Api, query: str) -> None:
    assert api.get(f"/changes?{query}").status in ((400,) if "0001" not in query else (200, 400))


@pytest.mark.parametrize("since", ["0", "9999999999", "1969-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_times_far_away(api: Api, feed: ChangeLog, since: str) -> None:
    for caller in (api, api.as_admin()):
        recent(caller, feed, since)
