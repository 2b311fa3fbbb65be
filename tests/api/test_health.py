"""GET /v2.0/health and /v2.0/hosts/NAME: the status for pages that poll it."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.model.agents import DHCP, LINKS, OVS
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.status import health
from neutrino.server.status.health import Assessor
from tests.api.agents import report, set_clock, switch
from tests.api.client import Api


@pytest.fixture
def cloud(another_server: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Server, Api]:
    """A server that reads the facts for every request."""
    monkeypatch.setattr(health, "RECENT", 0.0)
    monkeypatch.setattr(health, "SHARE", 0)
    server = another_server()
    return server, Api(server.app).as_admin()


def shown(admin: Api, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = admin.get("/health", query).expect(200).body["health"]
    return found


def host_of(admin: Api, name: str) -> dict[str, Any]:
    found: dict[str, Any] = admin.get(f"/hosts/{name}").expect(200).body["host"]
    return found


def test_only_for_administrators(cloud: tuple[Server, Api]) -> None:
    server, admin = cloud
    switch(server, "h1")
    for path in ("/health", "/hosts/h1", "/hosts/nowhere"):
        admin.as_stranger().get(path).refused(403)
        admin.as_reader().get(path).refused(403)
    admin.get("/hosts/nowhere").refused(404)
    admin.get("/hosts/%00").refused(404)
    assert "hots" in admin.get("/health", {"hots": "x"}).refused(400).message


@pytest.mark.every_database
def test_every_object_with_a_problem_and_exact_numbers(cloud: tuple[Server, Api]) -> None:
    """The status names ten; a page marks each one, and counts what it marks."""
    server, admin = cloud
    switch(server, "h1")
    network = admin.network()
    failed = {admin.port(network, binding__host_id="nowhere")["id"] for _ in range(12)}
    bound = admin.port(network, binding__host_id="h1")["id"]
    problems = shown(admin)["problems"]
    marked = {one["resource_id"] for one in problems["findings"] if one["kind"] == "binding-failed"}
    assert marked == failed
    assert (problems["kinds"]["binding-failed"]["number"], problems["kinds"]["binding-failed"]["more"]) == (12, False)
    assert problems["kinds"]["binding-failed"]["fix"]
    notes = {one["resource_id"] for one in problems["findings"] if one["severity"] == "note"}
    assert notes == {bound}
    status = admin.get("/status").expect(200).body["status"]
    assert (problems["verdict"], status["verdict"]) == ("degraded", "degraded")
    assert sum(one["resource_type"] == "port" for one in status["problems"]) == 11  # ten, and one for the others


def test_nothing_is_sent_while_nothing_changes(cloud: tuple[Server, Api]) -> None:
    server, admin = cloud
    switch(server, "h1", problems={"port p1": "no such device"})
    first = admin.get("/health").expect(200)
    tag, editions = first.headers["etag"], first.body["health"]["editions"]
    set_clock(server, 20)
    switch(server, "h1", problems={"port p1": "no such device"}, feed_behind=3)  # another heartbeat
    again = admin.get("/health", headers={"If-None-Match": f'"x", {tag}'})
    assert (again.status, again.body, again.headers["etag"]) == (304, None, tag)
    known = shown(admin, **editions)
    assert known == {"editions": editions, "problems": None, "hosts": None}
    network = admin.network()
    admin.port(network, binding__host_id="nowhere")
    changed = admin.get("/health", editions, headers={"If-None-Match": tag}).expect(200).body["health"]
    assert changed["hosts"] is None  # no host has changed
    assert changed["problems"]["verdict"] == "degraded"


def test_a_host_that_is_gone_is_one_problem(cloud: tuple[Server, Api]) -> None:
    server, admin = cloud
    switch(server, "h1")
    report(server, DHCP, "h1")
    set_clock(server, 600)
    health = shown(admin)
    found = [(one["kind"], one["host"]) for one in health["problems"]["findings"] if one["resource_type"] == "agent"]
    assert found == [("host-down", "h1")]
    assert health["hosts"]["h1"]["agents"] == {"l2": "dead", "dhcp": "dead"}
    assert (health["hosts"]["h1"]["connection"], health["hosts"]["h1"]["problems"]) == ("dead", ["host-down"])


def test_facts_are_read_once_for_many_polls(another_server: Any) -> None:
    server, now = another_server(), [100.0]
    assessor = Assessor(server.db, server.registry, clock=lambda: now[0])
    first = assessor.assess()
    now[0] += health.RECENT - 0.1
    assert assessor.assess() is first
    now[0] += 0.2
    assert assessor.assess() is not first


@pytest.mark.every_database
def test_a_host_with_its_tunnels(cloud: tuple[Server, Api]) -> None:
    server, admin = cloud
    links = {"eth0": {"use": "underlay", "state": "no carrier"}}
    switch(server, "h1", dataplane="up", last_repair={"at": "now"}, feed_behind=7)
    switch(server, "h2", dataplane="up", **{LINKS: links})
    switch(server, "h3", dataplane="up")
    switch(server, "h4", dataplane="up")  # has no port on a network of h1
    switch(server, "h5", dataplane="up")  # has one, on a network without tunnels
    network, flat = admin.network(), admin.network(provider__network_type="vlan", provider__physical_network="physnet1")
    for host in ("h1", "h1", "h2", "h3"):
        admin.port(network, binding__host_id=host)
    for host in ("h1", "h5"):
        admin.port(flat, binding__host_id=host)
    one = host_of(admin, "h1")
    tunnels = [(each["host"], each["state"], each["reason"]) for each in one["tunnels"]]
    assert tunnels == [("h2", "down", "link eth0 of h2: no carrier"), ("h3", "up", "")]
    assert (one["ports"], one["networks"]) == ({"total": 3, "by_status": {"DOWN": 3}}, 2)
    assert (one["feed_behind"], one["last_repair"], one["agents"][0]["role"]) == (7, {"at": "now"}, "l2")
    assert host_of(admin, "h2")["links"] == links
    assert [problem["kind"] for problem in host_of(admin, "h2")["problems"]] == ["link-down", "port-not-wired"]
    assert shown(admin)["hosts"]["h2"]["links_down"] == ["eth0"]
    set_clock(server, 600)
    assert {each["state"] for each in host_of(admin, "h1")["tunnels"]} == {"unknown"}


@pytest.mark.parametrize(
    "odd",
    [
        {LINKS: ["x"]},
        {LINKS: {"a": 1}},
        {LINKS: {"a": {"use": "underlay", "state": [1]}}},
        {"tunnel_types": 5},
        {"problems": 3},
    ],
)
def test_odd_reports_of_a_hostile_host(cloud: tuple[Server, Api], odd: dict[str, Any]) -> None:
    server, admin = cloud
    switch(server, "h1", **odd)
    shown(admin)
    host_of(admin, "h1")
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.agents).where(t.agents.c.agent_type == OVS).values(configurations="[]"))
    host_of(admin, "h1")
