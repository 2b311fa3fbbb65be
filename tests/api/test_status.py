"""GET /v2.0/status: servers, hosts, counts and problems, for administrators only."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino import __version__
from neutrino.diagnosis.facts import FEED_PROCESS, WRONG_CREDENTIAL
from neutrino.features.router.tables import router_l3_agents, routers
from neutrino.model.agents import DHCP, HA_VRRP_ADVERT_INT, HELD, L3, OVS, AgentState
from neutrino.server.db import schema
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.status.processes import ProcessSweep, ServerProcess
from tests.api.agents import report, set_clock, switch
from tests.api.client import Api

LONG_AGO = "2020-01-01T00:00:00Z"


@pytest.fixture
def fresh(server: Server) -> Iterator[tuple[Server, Api]]:
    """The module's server without any row: a new server for each test would take longer than the tests."""
    clock = server.registry.clock
    with server.db.transaction() as tx:
        for table in reversed(t.metadata.sorted_tables):
            tx.execute(sa.delete(table))
    yield server, Api(server.app).as_admin()
    server.registry.clock = clock


def shown(admin: Api, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = admin.get("/status", query).expect(200).body["status"]
    return found


def texts(status: dict[str, Any]) -> list[str]:
    return [problem["what"] for problem in status["problems"]]


@contextmanager
def queries(server: Server) -> Iterator[list[str]]:
    made: list[str] = []

    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        made.append(statement)

    engine = server.db._reads
    sa.event.listen(engine, "before_cursor_execute", count)
    yield made
    sa.event.remove(engine, "before_cursor_execute", count)


def feed_process(server: Server, host: str = "server-1", **details: Any) -> ServerProcess:
    made = ServerProcess(server.db, host, FEED_PROCESS, lambda: details)
    made.id = f"feed-{host}"
    made.write()
    return made


def test_it_is_for_administrators(server: Server, api: Api, admin: Api) -> None:
    api.get("/status").refused(403)
    admin.get("/status").expect(200)
    admin.get("/status", {"limit": "many"}).refused(400)
    admin.get("/status", {"limit": "0"}).refused(400)
    admin.get("/status", {"problems": "perhaps"}).refused(400)
    refused = admin.get("/status", {"hots": "h1"}).refused(400)
    assert "hots" in refused.body["NeutronError"]["message"]


@pytest.mark.every_database
def test_an_empty_service(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    server.process.write()
    status = shown(admin)
    assert (status["verdict"], status["problems"], status["release"]) == ("ok", [], __version__)
    assert status["database"]["dialect"] == server.db.dialect
    assert status["database"]["schema_version"] == schema.HEAD
    assert status["database"]["round_trip_ms"] >= 0
    (process,) = status["servers"][0]["processes"]
    assert (process["kind"], process["pid"], process["alive"]) == ("api", os.getpid(), True)
    assert status["hosts"] == []
    assert status["ports"] == {"total": 0, "by_status": {}, "by_binding": {"bound": 0, "unbound": 0, "failed": 0}}


def test_hosts_with_their_agents(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server, connected_hosts=2)
    switch(server, "h1", dataplane="up", feed_behind=3, last_repair={"at": "now"})
    report(server, DHCP, "h1")
    switch(server, "h2", dataplane="down: no Open vSwitch", problems={"port p1": "no such device"}, feed_behind=500)
    status = shown(admin)
    assert status["feed"]["connected_hosts"] == 2
    assert [host["name"] for host in status["hosts"]] == ["h1", "h2"]
    one, two = status["hosts"]
    assert [agent["role"] for agent in one["agents"]] == ["dhcp", "l2"]
    l2 = one["agents"][1]
    assert (l2["alive"], l2["dataplane"], l2["feed_behind"], l2["last_repair"]) == (True, "up", 3, {"at": "now"})
    assert one["problems"] == []
    assert two["agents"][0]["dataplane_reason"] == "no Open vSwitch"
    assert status["verdict"] == "degraded"
    assert texts(status) == [
        f"{OVS} on h2: the dataplane is down: no Open vSwitch",
        f"{OVS} on h2: port p1: no such device",
        f"{OVS} on h2: 500 changes behind",
    ]
    assert two["problems"] == texts(status)
    assert all(problem["meaning"] and problem["fix"] for problem in status["problems"])
    assert status["agents"]["l2"] == {"total": 2, "alive": 2, "disabled": 0}


@pytest.mark.every_database
def test_hosts_are_listed_in_pages(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server)
    for name in ("h1", "h2", "h3"):
        switch(server, name, dataplane="up" if name != "h2" else "down: no reason")
    first = shown(admin, limit="2")
    assert ([host["name"] for host in first["hosts"]], first["hosts_left"], first["hosts_total"]) == (
        ["h1", "h2"],
        1,
        3,
    )
    rest = shown(admin, limit="2", marker="h2")
    assert ([host["name"] for host in rest["hosts"]], rest["hosts_left"]) == (["h3"], 0)
    assert [host["name"] for host in shown(admin, problems="true")["hosts"]] == ["h2"]
    assert [host["name"] for host in shown(admin, host="h3")["hosts"]] == ["h3"]
    assert shown(admin, host="h3")["verdict"] == "degraded"


def test_an_agent_that_does_not_report(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    made = switch(server, "h1", dataplane="up", problems={"x": "old"})
    assert shown(admin)["hosts_alive"] == 1
    set_clock(server, 200)
    status = shown(admin)
    assert status["hosts_alive"] == 0
    dead = next(problem for problem in status["problems"] if problem["resource_type"] == "agent")
    assert dead["resource_id"] == made.agent_id
    assert dead["what"].startswith(f"{OVS} on h1: no report for 2")
    assert "neutrino agent" in dead["fix"]
    assert not [text for text in texts(status) if "old" in text], "the last report of a dead agent is out of date"


def test_hosts_without_a_feed_process(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    switch(server, "h1", dataplane="up")
    assert texts(shown(admin)) == ["no feed process runs"]
    process = feed_process(server)
    assert texts(shown(admin)) == []
    process.remove()
    assert texts(shown(admin)) == ["no feed process runs"]


def test_a_process_that_is_silent(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server, "server-2")
    set_clock(server, 60)
    silent = [text for text in texts(shown(admin)) if "server-2" in text]
    assert silent == [f"the feed process {os.getpid()} on server-2 has not written for {silent[0].split()[-2]} s"]
    clock = server.registry.clock
    ProcessSweep(server.db, clock).sweep()
    assert [row["host"] for row in shown(admin)["feed"]["processes"]] == ["server-2"], "kept for an hour"
    ProcessSweep(server.db, lambda: clock() + 3600).sweep()
    assert shown(admin)["feed"]["processes"] == []


def test_a_machine_that_lost_power_and_is_back_is_no_problem(fresh: tuple[Server, Api]) -> None:
    """Its processes could not delete their rows, and those of the new boot do not see that they have ended."""
    server, admin = fresh
    row = {
        "id": "lost",
        "host": "server-2",
        "kind": "feed",
        "pid": 7,
        "release": "0",
        "details": '{"machine":"before"}',
    }
    row |= {"started_at": "2026-01-01T00:00:00Z", "seen_at": "2026-01-01T00:00:10Z"}
    with server.db.transaction() as tx:
        tx.execute(sa.insert(t.server_processes).values([row, {**row, "id": "lost-api", "kind": "api"}]))

    def silent() -> list[str]:
        return [text.split()[1] for text in texts(shown(admin)) if "has not written" in text]

    feed_process(server, "server-1")
    assert silent() == ["api", "feed"]
    back = feed_process(server, "server-2")
    assert silent() == ["api"], "its API is not back"
    back.remove()
    assert silent() == ["api"], "the server is taken away later: nothing tells that the former process was replaced"


def test_a_silent_process_beside_a_new_one_of_the_same_boot_is_a_problem(fresh: tuple[Server, Api]) -> None:
    """It hangs: the new one would have deleted the row of one that has ended."""
    server, admin = fresh
    first = ServerProcess(server.db, "server-2", FEED_PROCESS, clock=lambda: time.time() - 60)
    first.id = "hangs"
    first.write()
    new = feed_process(server, "server-2")
    assert [text for text in texts(shown(admin)) if "has not written" in text]
    new.remove()
    assert [text for text in texts(shown(admin)) if "has not written" in text]


def test_a_host_that_was_refused_before_another_process_admitted_it_is_well(fresh: tuple[Server, Api]) -> None:
    """Between the change of its credential and its next login, which goes to any feed process."""
    server, admin = fresh
    switch(server, "h1", dataplane="up")
    now = time.time()

    def refusals(admitted: float, reason: str = WRONG_CREDENTIAL) -> list[str]:
        refused = {"h1": {"address": "192.0.2.1", "at": now - 50, "reason": reason}}
        feed_process(server, "server-1", refused_hosts=refused, hosts=[])
        feed_process(server, "server-2", refused_hosts={}, hosts=["h1"], logins={"h1": admitted})
        return [text for text in texts(shown(admin)) if "refused" in text]

    assert refusals(now - 20) == []
    assert refusals(now - 70), "another machine may have its name"
    assert refusals(now - 20, "it has the name of another one"), "not for its credential"


def test_rows_of_processes_that_ended_on_this_machine_are_removed_at_a_start(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    row = {"id": "killed", "host": "server-1", "kind": "feed", "pid": 2**22 + 1, "release": "0"}
    row |= {"started_at": "2026-01-01T00:00:00Z", "seen_at": "2026-01-01T00:00:00Z", "details": '{"start":5}'}
    elsewhere = {**row, "id": "elsewhere", "host": "server-9"}
    reused = {**row, "id": "reused", "pid": os.getpid()}  # the pid is another process's now
    with server.db.transaction() as tx:
        tx.execute(sa.insert(t.server_processes).values([row, elsewhere, reused]))
    ServerProcess(server.db, "server-1", FEED_PROCESS).remove_ended()
    assert [each["id"] for each in shown(admin)["feed"]["processes"]] == ["elsewhere"]


def test_servers_of_different_releases(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    server.process.write()
    feed_process(server)
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.server_processes).where(t.server_processes.c.kind == FEED_PROCESS).values(release="9.9"))
    status = shown(admin)
    assert texts(status) == [f"the servers run different releases: {__version__}, 9.9"]
    assert status["verdict"] == "ok", "expected during an upgrade"


def l3_agent(server: Server, host: str, interval: int) -> None:
    values = {"agent_mode": "legacy", HA_VRRP_ADVERT_INT: interval}
    state = AgentState(L3, "neutron-l3-agent", host, "l3_agent", configurations=values, start_flag=True)
    server.scheduler.reported(server.registry.report(state))


def test_hosts_with_different_advertisement_intervals(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server)
    for host, interval in (("h1", 1), ("h2", 2), ("h3", 1)):
        l3_agent(server, host, interval)
    text = "hosts have different values of ha_vrrp_advert_int: 1 on h1, h3; 2 on h2"
    assert text in texts(shown(admin))
    l3_agent(server, "h2", 1)
    assert text not in texts(shown(admin))


def test_a_held_agent_is_an_error_that_names_the_option(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server)
    problems = {
        f"{HELD}, foreign_flows": "br-int has 21. To proceed nevertheless: [agent] start_despite = foreign_flows"
    }
    switch(server, "h1", dataplane=f"down: {HELD}", problems=problems)
    (text,) = texts(shown(admin))
    assert "Open vSwitch agent on h1: the agent is held, foreign_flows" in text
    assert "start_despite = foreign_flows" in text


def test_two_hosts_with_one_tunnel_address(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server)
    switch(server, "h1", tunneling_ip="192.0.2.1")
    switch(server, "h2", tunneling_ip="192.0.2.2")
    with server.db.transaction() as tx:  # as two first reports at once would leave it
        first = sa.select(t.agents.c.configurations).where(t.agents.c.host == "h1")
        value = tx.execute(first).scalar()
        tx.execute(sa.update(t.agents).where(t.agents.c.host == "h2").values(configurations=value))
    assert texts(shown(admin)) == ["hosts h1, h2 have the same tunnel address 192.0.2.1"]


@pytest.mark.every_database
def test_objects_with_a_problem(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server)
    network = admin.network(name="blue")
    admin.subnet(network)
    for number in range(12):
        admin.port(network, name=f"p{number}", **{"binding:host_id": "nowhere"})
    status = shown(admin)
    assert status["ports"]["by_binding"]["failed"] == 12
    assert status["ports"]["total"] == 12
    found = texts(status)
    assert f"network blue ({network['id']}): it has DHCP, and no DHCP agent serves it" in found
    assert sum("(host nowhere): the binding failed" in text for text in found) == 10
    assert "2 more ports: the binding failed" in found


@pytest.mark.every_database
def test_routers_and_floating_ips(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    feed_process(server)
    network = admin.network()
    subnet = admin.subnet(network, enable_dhcp=False)
    router = admin.make("router", name="edge")
    admin.put(f"/routers/{router['id']}/add_router_interface", {"subnet_id": subnet["id"]}).expect(200)
    assert f"router edge ({router['id']}): no L3 agent hosts it" in texts(shown(admin))
    agent = switch(server, "h1")
    with server.db.transaction() as tx:
        tx.execute(sa.update(routers).values(ha=True, status="ERROR"))
        tx.execute(sa.update(routers).values(created_at=LONG_AGO))
        placed = {"router_id": router["id"], "agent_id": agent.agent_id, "ha_state": "standby"}
        tx.execute(sa.insert(router_l3_agents).values(placed))
    status = shown(admin)
    assert f"router edge ({router['id']}): no instance is active" in texts(status)
    assert f"router edge ({router['id']}): its status is ERROR" in texts(status)
    assert status["routers"]["ha_states"] == {"one_active": 0, "none_active": 1, "several_active": 0}
    with server.db.transaction() as tx:
        tx.execute(sa.update(router_l3_agents).values(ha_state="active"))
        tx.execute(sa.update(routers).values(status="ACTIVE"))
    status = shown(admin)
    assert texts(status) == []
    assert status["routers"]["ha_states"]["one_active"] == 1
    with server.db.transaction() as tx:
        tx.execute(sa.update(t.agents).values(admin_state_up=False))
    assert texts(shown(admin)) == [f"router edge ({router['id']}): all of its L3 agents are disabled"]


@pytest.mark.parametrize(
    ("age", "state", "is_problem"),
    [
        ({}, None, False),
        ({}, "standby", False),  # keepalived begins as a standby
        ({"created_at": LONG_AGO}, None, False),  # it became HA a moment ago
        ({"created_at": LONG_AGO}, "standby", True),
        ({"created_at": LONG_AGO, "updated_at": LONG_AGO}, None, True),
    ],
)
def test_an_ha_router_before_its_first_election(
    fresh: tuple[Server, Api], age: dict[str, str], state: str | None, is_problem: bool
) -> None:
    server, admin = fresh
    feed_process(server)
    router = admin.make("router", name="edge")
    agents = [switch(server, name) for name in ("h1", "h2")]
    with server.db.transaction() as tx:
        tx.execute(sa.update(routers).values(ha=True, **age))
        for agent in agents:
            placed = {"router_id": router["id"], "agent_id": agent.agent_id, "ha_state": state}
            tx.execute(sa.insert(router_l3_agents).values(placed))
    expected = [f"router edge ({router['id']}): no instance is active"] if is_problem else []
    assert texts(shown(admin)) == expected
    with server.db.transaction() as tx:
        tx.execute(sa.update(router_l3_agents).values(ha_state="active"))
    assert texts(shown(admin)) == [f"router edge ({router['id']}): 2 instances are active"]


@pytest.mark.every_database
def test_an_old_schema(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    with server.db.engine().begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '0001'"))
    assert texts(shown(admin)) == [f"the database has schema version 0001, this release needs {schema.HEAD}"]
    with server.db.engine().begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :head"), {"head": schema.HEAD})


def test_the_number_of_queries_does_not_depend_on_hosts_and_objects(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    with queries(server) as before:
        shown(admin)
    network = admin.network()
    for number in range(20):
        switch(server, f"h{number}", dataplane="down: x")
        admin.port(network)
    with queries(server) as after:
        shown(admin)
    assert len(before) == len(after) <= 25


def test_respawned_daemons_are_warnings(server: Server, admin: Api) -> None:
    text = "respawned once, last at 2026-01-01T00:00:00Z: killed by SIGSEGV"
    switch(server, "r1", dataplane="up", respawned={"dnsmasq n1": text})
    switch(server, "r2", dataplane="up", respawned="garbage")
    status = shown(admin)
    found = [problem for problem in status["problems"] if problem["host"] in ("r1", "r2")]
    assert [(problem["severity"], problem["what"]) for problem in found] == [
        ("warning", f"Open vSwitch agent on r1: dnsmasq n1: {text}")
    ]


@pytest.mark.every_database
def test_objects_that_only_disabled_agents_serve(server: Server, admin: Api) -> None:
    """An agent that is disabled keeps its networks and routers, and serves none of them."""
    network = admin.network()
    admin.subnet(network)
    dark, lit = admin.network(), admin.network()
    with server.db.transaction() as tx:
        for number, up in ((1, False), (2, True)):
            row = {"id": f"d{number}", "agent_type": DHCP, "binary": "b", "topic": "t", "host": f"d{number}"}
            row |= {"created_at": "", "started_at": "", "heartbeat_timestamp": "2020-01-01T00:00:00Z"}
            tx.execute(sa.insert(t.agents).values({**row, "admin_state_up": up}))
    for each in (dark, lit):
        admin.subnet(each)
    with server.db.transaction() as tx:
        tx.execute(sa.delete(t.network_dhcp_agents))
        for each, agent in ((dark, "d1"), (lit, "d1"), (lit, "d2")):
            tx.execute(sa.insert(t.network_dhcp_agents).values(network_id=each["id"], agent_id=agent, requested=False))
    found = {
        problem["kind"]: problem["resource_id"]
        for problem in shown(admin)["problems"]
        if problem["resource_id"] in (network["id"], dark["id"], lit["id"])
    }
    assert found == {"network-without-dhcp": network["id"], "network-agents-disabled": dark["id"]}
