"""Which DHCP agents get which networks, and when: what the database has after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.model.agents import AgentState
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import as_row, fresh
from neutrino.server.db.session import Database
from neutrino.server.dhcp import scheduler as dhcp_scheduler
from neutrino.server.hosts.registry import Registry
from neutrino.server.scheduling import placements
from neutrino.server.scheduling.placements import NETWORKS
from neutrino.server.scheduling.scheduler import Move
from tests.support.databases import prepared_sqlite
from tests.support.dhcp_ports import scheduler_without_ports

# --- in the database --------------------------------------------------------------------------------------------------


class Cloud:
    """A database with agents on hosts and networks, and a clock that tests advance."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.now = 1_800_000_000.0
        self.registry = Registry(db, clock=lambda: self.now)
        self.scheduler = scheduler_without_ports(db, self.registry)

    def agent(self, host: str, zone: str | None = "nova") -> str:
        return self.registry.report(AgentState(words.DHCP, "b", host, "t", zone)).agent_id

    def network(self, *, dhcp: bool = True, hints: Sequence[str] = ()) -> str:
        network = fresh({"project_id": "p", "availability_zone_hints": list(hints)}, revision=7)
        subnet = fresh(
            {
                "project_id": "p",
                "network_id": network["id"],
                "ip_version": 4,
                "cidr": "10.0.0.0/24",
                "enable_dhcp": dhcp,
            }
        )
        with self.db.transaction() as tx:
            tx.execute(sa.insert(t.networks).values(as_row(t.networks, network)))
            tx.execute(sa.insert(t.subnets).values(as_row(t.subnets, subnet)))
        return str(network["id"])

    def down(self, host: str) -> None:
        with self.db.transaction() as tx:
            tx.execute(sa.update(t.agents).where(t.agents.c.host == host).values(admin_state_up=False))

    def hosts_of(self, network_id: str) -> list[str]:
        statement = (
            sa.select(t.agents.c.host)
            .select_from(t.network_dhcp_agents.join(t.agents))
            .where(t.network_dhcp_agents.c.network_id == network_id)
        )
        with self.db.read() as connection:
            return sorted(connection.execute(statement).scalars())

    def network_changes(self) -> list[str]:
        c = t.changes.c
        with self.db.read() as connection:
            rows = connection.execute(sa.select(c.object_id).where(c.kind == "network").order_by(c.id))
            return list(rows.scalars())


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    db = Database(prepared_sqlite(tmp_path / "test.sqlite"), sqlite_durable=False)
    yield Cloud(db)
    db.close()


def statements_of(cloud: Cloud, call: Any) -> list[str]:
    """What a call sends to the database."""
    seen: list[str] = []
    reads = cloud.db._reads

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    sa.event.listen(reads, "before_cursor_execute", note)
    call()
    sa.event.remove(reads, "before_cursor_execute", note)
    return seen


def test_without_agents_scheduling_is_one_query(cloud: Cloud) -> None:
    network = cloud.network()
    assert len(statements_of(cloud, lambda: cloud.scheduler.schedule(network))) == 1
    assert cloud.network_changes() == []


def test_a_network_gets_an_agent_once(cloud: Cloud) -> None:
    cloud.agent("h1")
    network = cloud.network()
    assert len(cloud.scheduler.schedule(network)) == 1
    assert cloud.scheduler.schedule(network) == []
    assert cloud.hosts_of(network) == ["h1"]
    assert cloud.network_changes() == [network]


def test_load_is_counted_from_placements_not_from_reports(cloud: Cloud) -> None:
    for host in ("h1", "h2", "h3"):
        cloud.agent(host)
    taken = [cloud.scheduler.schedule(cloud.network())[0] for _ in range(9)]
    assert sorted(taken.count(agent) for agent in set(taken)) == [3, 3, 3]


def test_several_agents_are_spread_over_zones(cloud: Cloud) -> None:
    for host, zone in [("h1", "z1"), ("h2", "z1"), ("h3", "z2")]:
        cloud.agent(host, zone)
    scheduler = scheduler_without_ports(cloud.db, cloud.registry, 2)
    network = cloud.network()
    scheduler.schedule(network)
    assert "h3" in cloud.hosts_of(network)
    with cloud.db.read() as connection:
        assert NETWORKS.zones_of(connection, [network]) == {network: ["z1", "z2"]}


def test_hints_and_default_zones(cloud: Cloud) -> None:
    cloud.agent("h1", "z1")
    cloud.agent("h2", "z2")
    scheduler = scheduler_without_ports(cloud.db, cloud.registry, default_zones=["z2"])
    hinted, plain, nowhere = cloud.network(hints=["z1"]), cloud.network(), cloud.network(hints=["z9"])
    scheduler.schedule(hinted)
    scheduler.schedule(plain)
    scheduler.schedule(nowhere)
    assert [cloud.hosts_of(n) for n in (hinted, plain, nowhere)] == [["h1"], ["h2"], []]


def test_automatic_scheduling_can_be_off(cloud: Cloud) -> None:
    cloud.agent("h1")
    network = cloud.network()
    scheduler = scheduler_without_ports(cloud.db, cloud.registry, automatic=False)
    assert scheduler.schedule(network) == []
    assert scheduler.auto_schedule("h1") == 0


def test_a_deleted_network_is_no_error(cloud: Cloud) -> None:
    cloud.agent("h1")
    assert cloud.scheduler.schedule("gone") == []


def test_eight_concurrent_requests_give_a_network_one_agent(cloud: Cloud) -> None:
    for i in range(8):
        cloud.agent(f"h{i}")
    network, failures = cloud.network(), []
    barrier = threading.Barrier(8)

    def schedule() -> None:
        barrier.wait()
        try:
            cloud.scheduler.schedule(network)
            cloud.scheduler.schedule(cloud.network())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=schedule) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(cloud.hosts_of(network)) == 1


def test_a_new_agent_takes_networks_that_lack_one(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dhcp_scheduler, "BATCH", 2)
    cloud.agent("h1", "z1")
    served, without_dhcp = cloud.network(), cloud.network(dhcp=False)
    cloud.scheduler.schedule(served)
    cloud.down("h1")
    both, other, other_case, plain = (
        cloud.network(hints=["z1", "z2"]),
        cloud.network(hints=["z1"]),
        cloud.network(hints=["Z2"]),
        cloud.network(),
    )
    report = cloud.registry.report(AgentState(words.DHCP, "b", "h2", "t", "z2"))
    assert cloud.scheduler.reported(report) == 3
    assert [cloud.hosts_of(n) for n in (served, both, plain)] == [["h1", "h2"], ["h2"], ["h2"]]
    assert [cloud.hosts_of(n) for n in (without_dhcp, other, other_case)] == [[], [], []]
    assert cloud.scheduler.auto_schedule("h2") == 0
    assert len(cloud.network_changes()) == 4


def test_default_zones_apply_to_a_new_agent(cloud: Cloud) -> None:
    network = cloud.network()
    cloud.agent("h1", "z1")
    scheduler = scheduler_without_ports(cloud.db, cloud.registry, default_zones=["z2"])
    assert scheduler.auto_schedule("h1") == 0
    cloud.agent("h2", "z2")
    assert scheduler.auto_schedule("h2") == 1
    assert cloud.hosts_of(network) == ["h2"]


def test_only_live_and_enabled_agents_take_networks(cloud: Cloud) -> None:
    cloud.network()
    assert cloud.scheduler.auto_schedule("nowhere") == 0
    cloud.agent("h1")
    cloud.down("h1")
    assert cloud.scheduler.auto_schedule("h1") == 0
    cloud.agent("h2")
    cloud.now += 100
    assert cloud.scheduler.auto_schedule("h2") == 0
    same_but_alive = cloud.registry.report(AgentState(words.OVS, "b", "h2", "t"))
    assert cloud.scheduler.reported(same_but_alive) == 0
    assert cloud.scheduler.reported(cloud.registry.report(AgentState(words.DHCP, "b", "h2", "t", "nova"))) == 1


def test_networks_leave_a_dead_agent(cloud: Cloud) -> None:
    dead = cloud.agent("h1")
    networks = [cloud.network() for _ in range(4)]
    for network in networks:
        cloud.scheduler.schedule(network)
    cloud.now += 100  # dead, but not for long
    heirs = {cloud.agent("h2"), cloud.agent("h3")}
    assert cloud.scheduler.reschedule_dead() == []
    cloud.now += 60
    cloud.agent("h2")
    cloud.agent("h3")
    moves = cloud.scheduler.reschedule_dead()
    assert {m.object_id for m in moves} == set(networks)
    assert {m.from_agents for m in moves} == {(dead,)}
    assert sorted(cloud.hosts_of(n)[0] for n in networks) == ["h2", "h2", "h3", "h3"]
    assert {m.to_agents[0] for m in moves} == heirs
    assert cloud.scheduler.reschedule_dead() == []


def test_networks_leave_a_disabled_agent(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    first, network = cloud.agent("h1"), cloud.network()
    cloud.scheduler.schedule(network)
    cloud.down("h1")
    assert cloud.scheduler.reschedule_dead() == [], "there is no other agent"
    assert cloud.scheduler.agent_disabled(first) == []
    assert (cloud.hosts_of(network), caplog.text) == (["h1"], "")
    heir = cloud.agent("h2")
    assert cloud.scheduler.reschedule_dead() == [Move(network, (first,), (heir,))]
    assert cloud.hosts_of(network) == ["h2"]
    second = cloud.agent("h3")
    cloud.down("h2")
    assert cloud.scheduler.agent_disabled(heir) == [Move(network, (heir,), (second,))]


def test_without_another_agent_networks_stay(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    cloud.agent("h1")
    network = cloud.network(hints=["nova"])
    cloud.scheduler.schedule(network)
    cloud.now += 1000
    cloud.agent("h2", "elsewhere")
    assert cloud.scheduler.reschedule_dead() == []
    assert cloud.hosts_of(network) == ["h1"]
    assert "1 networks stay" in caplog.text


def test_a_dead_agent_is_removed_if_enough_live_ones_serve(cloud: Cloud) -> None:
    first = cloud.agent("h1")
    network = cloud.network()
    cloud.scheduler.schedule(network)
    cloud.scheduler.add(cloud.agent("h2"), network)
    cloud.now += 200
    cloud.agent("h2")
    assert cloud.scheduler.reschedule_dead() == [Move(network, (first,), ())]
    assert cloud.hosts_of(network) == ["h2"]


def test_of_two_dead_agents_as_many_are_removed_as_are_replaced(cloud: Cloud) -> None:
    scheduler = scheduler_without_ports(cloud.db, cloud.registry, 2)
    cloud.agent("h1")
    cloud.agent("h2")
    network = cloud.network()
    scheduler.schedule(network)
    cloud.now += 200
    cloud.agent("h3")
    assert len(scheduler.reschedule_dead()) == 1
    assert len(cloud.hosts_of(network)) == 2
    assert "h3" in cloud.hosts_of(network)


def test_failover_can_be_off(cloud: Cloud) -> None:
    cloud.agent("h1")
    network = cloud.network()
    cloud.scheduler.schedule(network)
    cloud.now += 1000
    cloud.agent("h2")
    assert scheduler_without_ports(cloud.db, cloud.registry, failover=False).reschedule_dead() == []


def test_concurrent_sweeps_of_two_servers(cloud: Cloud) -> None:
    cloud.agent("h1")
    networks = [cloud.network() for _ in range(10)]
    for network in networks:
        cloud.scheduler.schedule(network)
    cloud.now += 1000
    cloud.agent("h2")
    cloud.agent("h3")
    barrier, moves, failures = threading.Barrier(4), [], []

    def sweep() -> None:
        barrier.wait()
        try:
            moves.extend(cloud.scheduler.reschedule_dead())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=sweep) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(m.object_id for m in moves) == sorted(networks)
    assert all(len(cloud.hosts_of(n)) == 1 for n in networks)


def test_manual_placement(cloud: Cloud) -> None:
    agent, network = cloud.agent("h1"), cloud.network()
    other = cloud.registry.report(AgentState(words.L3, "b", "h1", "t")).agent_id
    cloud.scheduler.add(agent, network)
    with pytest.raises(errors.NetworkHostedByDHCPAgent):
        cloud.scheduler.add(agent, network)
    with pytest.raises(errors.InvalidDHCPAgent):
        cloud.scheduler.add(other, network)
    with pytest.raises(errors.AgentNotFound):
        cloud.scheduler.add("no-such", network)
    with pytest.raises(errors.NetworkNotFound):
        cloud.scheduler.add(agent, "no-such")
    with cloud.db.read() as connection:
        assert NETWORKS.objects_on(connection, agent) == [network]
    cloud.scheduler.remove(agent, network)
    for missing in (network, "no-such"):
        with pytest.raises(errors.NetworkNotHostedByDhcpAgent):
            cloud.scheduler.remove(agent, missing)
    with pytest.raises(errors.AgentNotFound):
        cloud.scheduler.remove("no-such", network)
    cloud.down("h1")
    with pytest.raises(errors.InvalidDHCPAgent):
        cloud.scheduler.add(agent, network)
    assert cloud.network_changes() == [network, network]


def test_zones_of_networks_is_one_query(cloud: Cloud) -> None:
    networks = [cloud.network() for _ in range(3)]

    def zones(ids: Sequence[str]) -> dict[str, list[str]]:
        with cloud.db.read() as connection:
            return NETWORKS.zones_of(connection, ids)

    assert zones([]) == zones(networks) == {}
    cloud.agent("h1", "z1")
    cloud.scheduler.schedule(networks[0])
    assert len(statements_of(cloud, lambda: zones(networks))) == 1
    many = networks[:1] + ["x"] * placements.BATCH
    assert zones(networks) == zones(many) == {networks[0]: ["z1"]}
    assert zones(networks[1:]) == {}
