"""The agent registry: one row per agent under concurrent reports, and agents that are alive or dead by a clock."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.model.agents import AgentState, AgentStatus
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.dhcp.scheduler import DhcpScheduler
from neutrino.server.hosts.registry import Registry, timestamp
from neutrino.server.scheduling.placements import NETWORKS
from neutrino.server.scheduling.scheduler import Move, Sweeper
from tests.support.databases import prepared_sqlite

NOON = 1_800_000_000.0
OVS = AgentState(words.OVS, "neutrino-agent", "h1", "N/A", configurations={"bridge_mappings": {"physnet1": "br-ex"}})
DHCP = AgentState(words.DHCP, "neutrino-agent", "h1", "dhcp_agent", "nova", {"networks": 3})


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    database = Database(prepared_sqlite(tmp_path / "test.sqlite"), sqlite_durable=False)
    yield database
    database.close()


@pytest.fixture
def registry(db: Database, clock: Clock) -> Registry:
    return Registry(db, down_time=75, clock=clock)


def rows(db: Database, table: sa.Table = t.agents) -> list[dict[str, Any]]:
    with db.read() as connection:
        return [dict(row) for row in connection.execute(sa.select(table)).mappings()]


def test_the_first_report_creates_the_agent(db: Database, registry: Registry) -> None:
    report = registry.report(DHCP)
    (row,) = rows(db)
    assert report.status is AgentStatus.NEW
    assert report.agent_id == row["id"]
    assert row["created_at"] == row["started_at"] == row["heartbeat_timestamp"] == timestamp(NOON)
    assert (row["load"], row["availability_zone"], row["admin_state_up"]) == (3, "nova", True)
    assert [(c["kind"], c["object_id"], c["deleted"]) for c in rows(db, t.changes)] == [("agent", row["id"], False)]


def test_a_heartbeat_without_changes_writes_the_time_only(db: Database, registry: Registry, clock: Clock) -> None:
    registry.report(DHCP)
    clock.now += 30
    report = registry.report(DHCP)
    (row,) = rows(db)
    assert report.status is AgentStatus.ALIVE
    assert not report.needs_everything
    assert (row["heartbeat_timestamp"], row["started_at"]) == (timestamp(NOON + 30), timestamp(NOON))
    assert len(rows(db, t.changes)) == 1


def test_changes_are_stored(db: Database, registry: Registry, clock: Clock) -> None:
    registry.report(replace(DHCP, resource_versions={"Port": "1.1"}))
    registry.report(replace(DHCP, availability_zone=None, configurations={"networks": 4}))
    (row,) = rows(db)
    assert (row["load"], row["availability_zone"]) == (4, "nova")
    assert (row["configurations"], row["resource_versions"]) == ('{"networks":4}', '{"Port":"1.1"}')


L3 = AgentState(words.L3, "neutrino-agent", "h1", "l3_agent", configurations={"agent_mode": "dvr"})


@pytest.mark.parametrize(
    "state, change",
    [
        (OVS, {"tunneling_ip": "192.0.2.1"}),
        (OVS, {"tunnel_types": ["vxlan"]}),
        (DHCP, {"dhcp_distributed": True}),
        (L3, {"agent_mode": "legacy"}),
    ],
)
def test_what_the_feed_reads_of_an_agent_is_in_the_change_log(
    db: Database, registry: Registry, state: AgentState, change: dict[str, Any]
) -> None:
    registry.report(state)
    registry.report(replace(state, configurations={**state.configurations, **change}))
    assert len(rows(db, t.changes)) == 2


@pytest.mark.parametrize("state", [OVS, DHCP, L3], ids=lambda state: state.agent_type)
def test_other_changes_of_an_agent_are_not(db: Database, registry: Registry, clock: Clock, state: AgentState) -> None:
    """Each would make the feed read again what depends on the agent: of an L3 agent, all distributed routers."""
    registry.report(state)
    for key, value in (("feed_behind", 3), ("routers", 7), ("problems", {"p": "no tap"}), ("devices", 2)):
        registry.report(replace(state, configurations={**state.configurations, key: value}))
    registry.report(replace(state, start_flag=True))
    clock.now += 1000
    assert registry.report(state).status is AgentStatus.REVIVED
    assert len(rows(db, t.changes)) == 1


def test_a_start_is_recorded(db: Database, registry: Registry, clock: Clock) -> None:
    registry.report(OVS)
    clock.now += 5
    report = registry.report(replace(OVS, start_flag=True))
    assert (report.status, report.started, report.needs_everything) == (AgentStatus.ALIVE, True, True)
    assert rows(db)[0]["started_at"] == timestamp(NOON + 5)


@pytest.mark.parametrize("silence, status", [(75, AgentStatus.ALIVE), (76, AgentStatus.REVIVED)])
def test_an_agent_is_revived_if_it_was_dead(
    registry: Registry, clock: Clock, silence: int, status: AgentStatus
) -> None:
    registry.report(OVS)
    clock.now += silence
    assert registry.report(OVS).status is status
    assert registry.report(OVS).status is AgentStatus.ALIVE


def test_alive_depends_on_the_time_of_the_last_report(registry: Registry) -> None:
    row = {"heartbeat_timestamp": timestamp(NOON)}
    assert registry.alive(row, NOON + 75)
    assert registry.alive(row, NOON - 10)
    assert not registry.alive(row, NOON + 76)


def test_eight_concurrent_first_reports_create_one_agent(db: Database, registry: Registry) -> None:
    barrier, statuses, failures = threading.Barrier(8), [], []

    def report() -> None:
        barrier.wait()
        try:
            for _ in range(5):
                statuses.append(registry.report(DHCP).status)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=report) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(rows(db)) == 1
    assert statuses.count(AgentStatus.NEW) == 1
    assert len(statuses) == 40


def test_one_of_eight_concurrent_reports_revives_the_agent(db: Database, registry: Registry, clock: Clock) -> None:
    registry.report(DHCP)
    clock.now += 1000
    barrier, statuses = threading.Barrier(8), []

    def report() -> None:
        barrier.wait()
        statuses.append(registry.report(DHCP).status)

    threads = [threading.Thread(target=report) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [AgentStatus.ALIVE] * 7 + [AgentStatus.REVIVED]


def test_a_host_reports_all_its_roles_in_one_transaction(db: Database, registry: Registry) -> None:
    reports = registry.report_all([OVS, DHCP, DHCP])
    assert [(r.agent_type, r.status) for r in reports] == [(words.OVS, "new"), (words.DHCP, "new")]
    assert len(rows(db)) == 2


def test_agents_on_a_host(db: Database, registry: Registry, clock: Clock) -> None:
    registry.report_all([OVS, replace(OVS, host="h2")])
    clock.now += 80
    registry.report(DHCP)
    statements: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    with db.read() as connection:
        sa.event.listen(connection, "before_cursor_execute", note)
        found = {agent["agent_type"]: agent for agent in registry.agents_on(connection, "h1")}
        assert len(statements) == 1
        assert registry.agents_on(connection, "h3") == []
        assert registry.has_live(connection, "h1", words.DHCP)
        assert not registry.has_live(connection, "h1", words.OVS)
    assert found[words.OVS]["configurations"] == {"bridge_mappings": {"physnet1": "br-ex"}}
    assert (found[words.OVS]["alive"], found[words.DHCP]["alive"]) == (False, True)
    assert found[words.DHCP]["admin_state_up"] is True


@pytest.mark.parametrize(
    "wrong",
    [
        {"binary": 5},
        {"topic": ""},
        {"agent_type": "x" * 256},
        {"availability_zone": 1},
        {"availability_zone": ""},
        {"configurations": []},
        {"resource_versions": "1.0"},
        {"start_flag": "yes"},
        {"binary": "a\x00b"},
    ],
)
def test_an_invalid_report_is_not_decoded(wrong: dict[str, Any]) -> None:
    good = {"agent_type": words.OVS, "binary": "b", "host": "compute-7", "topic": "t"}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(good | wrong, AgentState)


def test_reports_of_other_releases_are_read() -> None:
    least = {"agent_type": words.OVS, "binary": "b", "host": "h", "topic": "t"}
    assert msgspec.convert(least, AgentState) == AgentState(words.OVS, "b", "h", "t")
    assert msgspec.convert(least | {"of_the_next_release": 1, "start_flag": True}, AgentState).start_flag
    with pytest.raises(msgspec.ValidationError, match="missing required field `topic`"):
        msgspec.convert({"agent_type": words.OVS, "binary": "b", "host": "h"}, AgentState)


@pytest.mark.parametrize("reported, load", [(7, 7), (-1, 0), ("many", 0), (None, 0), (2**40, 2**31 - 1)])
def test_load_is_the_number_of_networks_that_a_dhcp_agent_reports(
    db: Database, registry: Registry, reported: Any, load: int
) -> None:
    registry.report_all(
        [replace(DHCP, configurations={"networks": reported}), replace(OVS, configurations={"networks": 9})]
    )
    assert {row["agent_type"]: row["load"] for row in rows(db)} == {words.DHCP: load, words.OVS: 0}


# --- the sweep --------------------------------------------------------------------------------------------------------


class Sweeps(DhcpScheduler):
    """A scheduler that counts its calls, and stops the loop after some of them."""

    def __init__(self, stop: threading.Event | None = None, times: int = 0) -> None:
        self.placements = NETWORKS
        self.calls = 0
        self._stop, self._times = stop, times

    def reschedule_dead(self) -> list[Move]:
        self.calls += 1
        if self._stop is not None and self.calls >= self._times:
            self._stop.set()
        if self.calls == 1:
            raise RuntimeError("the first one fails")
        return [Move("net", ("a1",), ("a2",))]

    def remove_surplus(self) -> list[Move]:
        return []


def reporting(registry: Registry, host: str = "h1") -> None:
    """Without any live agent of the type, nothing is judged."""
    registry.report(AgentState(words.DHCP, "neutron-dhcp-agent", host, "dhcp_agent"))


def test_the_sweeper_continues_after_a_failure(
    registry: Registry, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    stop = threading.Event()
    scheduler = Sweeps(stop, times=3)
    sweeper = Sweeper([scheduler], registry, 0.001, stop)
    clock.now += 75
    reporting(registry)
    with caplog.at_level(logging.WARNING):
        sweeper.run()
    assert scheduler.calls == 3
    assert "the first one fails" in caplog.text
    assert "network net moved from DHCP agents a1, which are dead or disabled, to a2" in caplog.text


def test_agents_get_time_to_report_after_a_start_and_a_clock_jump(registry: Registry, clock: Clock) -> None:
    scheduler = Sweeps()
    sweeper = Sweeper([scheduler], registry, 30, threading.Event())
    judged = []
    for step in (30, 30, 30, 30, 3600, 30, 30, 30, -500, 30, 30, 30):
        clock.now += step
        reporting(registry)
        before = scheduler.calls
        sweeper.sweep()
        judged.append(scheduler.calls > before)
    assert judged == [False, False, True, True, False, False, False, True, False, False, False, True]


# --- addresses for tunnels --------------------------------------------------------------------------------------------


def tunnels(host: str, address: str) -> AgentState:
    return AgentState(words.OVS, "a", host, "N/A", configurations={"tunneling_ip": address, "tunnel_types": ["vxlan"]})


def kept(db: Database) -> dict[str, tuple[str, list[str]]]:
    found = {row["host"]: msgspec.json.decode(row["configurations"]) for row in rows(db)}
    return {host: (each["tunneling_ip"], each["tunnel_types"]) for host, each in found.items()}


REFUSED: tuple[str, list[str]] = ("", [])


def test_a_tunnel_address_belongs_to_one_host(db: Database, registry: Registry, clock: Clock) -> None:
    first, second = tunnels("h1", "192.0.2.1"), tunnels("h2", "192.0.2.1")
    assert registry.report(first).refusal == ""
    for _ in range(2):
        refusal = registry.report(second).refusal
        assert refusal == "local_ip: 192.0.2.1 is the address for tunnels of host h1 already"
        assert kept(db) == {"h1": ("192.0.2.1", ["vxlan"]), "h2": REFUSED}
        assert registry.report(first).refusal == "", "the owner keeps it"
    (problems,) = [msgspec.json.decode(r["configurations"])["problems"] for r in rows(db) if r["host"] == "h2"]
    assert problems == {"local_ip": "192.0.2.1 is the address for tunnels of host h1 already"}

    assert registry.report(tunnels("h1", "192.0.2.9")).refusal == "", "it has another one now"
    assert registry.report(second).refusal == ""
    assert kept(db) == {"h1": ("192.0.2.9", ["vxlan"]), "h2": ("192.0.2.1", ["vxlan"])}


def test_of_two_concurrent_claims_of_an_address_the_first_wins(db: Database, registry: Registry) -> None:
    made = registry.report_all([tunnels("h1", "fd00::1"), tunnels("h2", "fd00:0::1"), tunnels("h3", "fd00::3")])
    assert [bool(report.refusal) for report in made] == [False, True, False]
    assert kept(db)["h2"] == REFUSED


def test_the_address_of_a_dead_agent_can_be_claimed_for_good(db: Database, registry: Registry, clock: Clock) -> None:
    registry.report(tunnels("h1", "192.0.2.1"))
    clock.now += 100
    assert registry.report(tunnels("h2", "192.0.2.1")).refusal == ""
    assert "h2" in registry.report(tunnels("h1", "192.0.2.1")).refusal
    assert kept(db) == {"h1": REFUSED, "h2": ("192.0.2.1", ["vxlan"])}
