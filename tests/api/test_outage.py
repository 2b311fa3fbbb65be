"""Placements across an outage longer than `agent_down_time`: agents come back one by one, and get what they had."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.features.router.tables import router_l3_agents
from neutrino.model.agents import DHCP
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.main import Server
from neutrino.server.scheduling.placements import Candidate, kept_of_surplus
from neutrino.server.scheduling.scheduler import Sweeper
from tests.api import bgp
from tests.api.agents import report, switch
from tests.api.client import Api
from tests.api.dhcp import dhcp_ports
from tests.api.l3 import agents_of, attach, gateway, inside, l3_agent, outside, ports_of
from tests.api.races import before_next_write
from tests.faults.integrity import check

Placements = dict[str, list[str]]
MINUTES = 60.0


@dataclass
class Cloud:
    """A server with hosts that run all agents, and a clock that only the test advances."""

    server: Server
    hosts: list[str]
    now: float = 1_800_000_000.0
    networks: list[Object] = field(default_factory=list)
    routers: list[Object] = field(default_factory=list)
    speakers: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.registry.clock = lambda: self.now
        self.admin = Api(self.server.app).as_admin()
        self.sweeper = self.started_sweeper()
        self.report(*self.hosts)

    def started_sweeper(self) -> Sweeper:
        """That of a server process that starts now."""
        plugins = self.server.service_plugins
        schedulers = [self.server.scheduler, plugins["router"].scheduler, *plugins["bgp"].schedulers]
        return Sweeper(schedulers, self.server.registry, 30.0, threading.Event())

    def report(self, *hosts: str) -> None:
        for host in hosts:
            switch(self.server, host)
            report(self.server, DHCP, host, dhcp_port_by_server=True)
            l3_agent(self.server, host)
            bgp.bgp_agent(self.server, host)

    def pass_time(self, seconds: float, *reporting: str) -> None:
        """Time passes in steps of half a minute: each with the reports of these hosts, and a sweep."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + 30.0, until)
            self.report(*reporting)
            self.sweeper.sweep()

    def fill(self, count: int) -> None:
        external = outside(self.admin, "172.24.0.0/16")
        for number in range(count):
            network = self.admin.network()
            self.admin.subnet(network, "10.0.0.0/24")
            self.networks.append(network)
            values = {"ha": True} if number % 2 else {}
            self.routers.append(self.admin.make("router", external_gateway_info=gateway(external), **values))
            self.speakers.append(bgp.speaker(self.admin))

    def placements(self) -> Placements:
        """The hosts of each object's agents, and those of the ports that follow the placement of it."""
        found: Placements = {}
        for network in self.networks:
            agents = self.admin.get(f"/networks/{network['id']}/dhcp-agents").expect(200).body["agents"]
            found[f"network {network['id']}"] = sorted(agent["host"] for agent in agents)
            ports = dhcp_ports(self.admin, network)
            found[f"DHCP ports {network['id']}"] = sorted(port["binding:host_id"] for port in ports)
        for router in self.routers:
            found[f"router {router['id']}"] = agents_of(self.admin, router)
            found[f"router ports {router['id']}"] = sorted(p["binding:host_id"] for p in ports_of(self.admin, router))
        for one in self.speakers:
            agents = self.admin.get(f"{bgp.SPEAKERS}/{one['id']}/bgp-dragents").expect(200).body["agents"]
            found[f"speaker {one['id']}"] = sorted(agent["host"] for agent in agents)
        return found


@pytest.fixture
def cloud(another_server: Any) -> Any:
    made: list[Cloud] = []

    def make(hosts: int, **options: str) -> Cloud:
        options = {"allow_automatic_l3agent_failover": "true", "max_l3_agents_per_router": "2", **options}
        server = another_server({"DEFAULT": options})
        made.append(Cloud(server, [f"h{number:02}" for number in range(hosts)]))
        return made[-1]

    yield make
    for one in made:
        check(one.server.db)


def server_restarts(cloud: Cloud) -> None:
    """All processes are away for three minutes."""
    cloud.now += 3 * MINUTES
    cloud.sweeper = cloud.started_sweeper()


def only_reports_are_missing(cloud: Cloud) -> None:
    """Hosts cannot reach the feed for three minutes, while the API's processes sweep."""
    cloud.pass_time(3 * MINUTES)


@pytest.mark.parametrize("outage", [server_restarts, only_reports_are_missing])
def test_every_placement_is_as_before(cloud: Any, outage: Callable[[Cloud], None]) -> None:
    made: Cloud = cloud(20)
    made.fill(10)
    before = made.placements()
    assert all(len(hosts) == 1 for key, hosts in before.items() if key.startswith("network"))
    outage(made)
    for host in made.hosts:  # one host each three seconds, and a sweep after each
        made.now += 3.0
        made.report(host)
        made.sweeper.sweep()
    assert made.placements() == before
    made.pass_time(2 * MINUTES, *made.hosts)
    assert made.placements() == before


def test_a_host_that_does_not_come_back_loses_its_objects(cloud: Any) -> None:
    made: Cloud = cloud(3)
    made.fill(2)
    before = made.placements()
    lost = next(hosts[0] for key, hosts in before.items() if key.startswith("network"))
    back = [host for host in made.hosts if host != lost]
    made.pass_time(3 * MINUTES)
    made.report(*back)
    made.pass_time(60.0, *back)
    assert made.placements() == before, "the others have time to report"
    made.pass_time(2 * MINUTES, *back)
    after = made.placements()
    movable = {key: hosts for key, hosts in after.items() if not key.startswith("router")}
    assert all(len(hosts) == 1 and lost not in hosts for hosts in movable.values() if hosts)
    legacy = made.routers[0]["id"]
    assert lost not in after[f"router {legacy}"] + after[f"router ports {legacy}"]


def test_most_agents_are_waited_for(cloud: Any) -> None:
    """A large cloud needs longer than agent_down_time until its agents are back; but it is not waited for without end."""
    made: Cloud = cloud(5)
    made.fill(4)
    before = made.placements()
    made.pass_time(3 * MINUTES)
    made.pass_time(3 * MINUTES, "h00", "h01")
    assert made.placements() == before, "two of five have reported"
    made.pass_time(3 * MINUTES, "h00", "h01")
    networks = [hosts for key, hosts in made.placements().items() if key.startswith("network")]
    assert {host for hosts in networks for host in hosts} == {"h00", "h01"}


def test_failover_of_one_host_does_not_wait(cloud: Any) -> None:
    made: Cloud = cloud(3)
    made.fill(3)
    made.pass_time(2 * MINUTES, *made.hosts)
    made.pass_time(3 * MINUTES, "h01", "h02")
    assert "h00" not in {host for key, hosts in made.placements().items() for host in hosts if "network" in key}


def test_a_change_of_an_object_on_a_dead_agent_adds_no_agent(cloud: Any) -> None:
    """As a second subnet of a network, or an interface of a router, while the agents come back."""
    made: Cloud = cloud(2)
    made.fill(2)
    before = made.placements()
    made.pass_time(3 * MINUTES)
    made.report("h00")
    for network in made.networks:
        made.admin.subnet(network, "10.0.1.0/24")
    for router, cidr in zip(made.routers, ("10.7.0.0/24", "10.8.0.0/24"), strict=True):
        _, subnet = inside(made.admin, cidr)
        attach(made.admin, router, subnet_id=subnet["id"]).expect(200)
    after = made.placements()
    assert {key: hosts for key, hosts in after.items() if "ports" not in key} == {
        key: hosts for key, hosts in before.items() if "ports" not in key
    }


# --- surplus placements -----------------------------------------------------------------------------------------------


def place(cloud: Cloud, placements: sa.Table, column: str, object_id: str) -> None:
    """On every agent, as outages left it in earlier releases."""
    kind = {"network_dhcp_agents": "DHCP agent", "router_l3_agents": "L3 agent"}[placements.name]
    with cloud.server.db.transaction() as tx:
        agents = tx.execute(sa.select(t.agents.c.id).where(t.agents.c.agent_type == kind)).scalars().all()
        tx.execute(sa.delete(placements).where(placements.c[column] == object_id))
        tx.execute(sa.insert(placements), [{column: object_id, "agent_id": agent} for agent in agents])


@pytest.mark.every_database
def test_surplus_placements_are_removed(cloud: Any) -> None:
    made: Cloud = cloud(4)
    made.fill(4)
    before = made.placements()
    legacy = [router["id"] for router in made.routers if not router["ha"]]
    for network in made.networks:
        place(made, t.network_dhcp_agents, "network_id", network["id"])
        made.server.scheduler.reconcile_ports(network["id"])
    for router_id in legacy:
        place(made, router_l3_agents, "router_id", router_id)
    assert all(len(made.placements()[f"DHCP ports {network['id']}"]) == 4 for network in made.networks)
    made.pass_time(3 * MINUTES, *made.hosts)
    after = made.placements()
    for network in made.networks:
        (host,) = after[f"network {network['id']}"]
        assert after[f"DHCP ports {network['id']}"] == [host]
    for router_id in legacy:
        assert after[f"router {router_id}"] == before[f"router {router_id}"], "it stays where its ports are"
        assert after[f"router ports {router_id}"] == before[f"router ports {router_id}"]
    for router in made.routers:
        if router["ha"]:
            assert after[f"router {router['id']}"] == before[f"router {router['id']}"]


@pytest.mark.every_database
def test_what_the_operator_placed_is_no_surplus(cloud: Any) -> None:
    made: Cloud = cloud(3)
    made.fill(1)
    (network,) = made.networks
    (host,) = made.placements()[f"network {network['id']}"]
    agents = {a["host"]: a["id"] for a in made.admin.get("/agents", {"agent_type": DHCP}).body["agents"]}
    more = next(name for name in made.hosts if name != host)
    made.admin.post(f"/agents/{agents[more]}/dhcp-networks", {"network_id": network["id"]}).expect(201)
    made.pass_time(3 * MINUTES, *made.hosts)
    assert made.placements()[f"network {network['id']}"] == sorted([host, more])


@pytest.mark.every_database
def test_two_sweeps_that_remove_surplus_leave_an_agent(cloud: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server has removed a placement since this one decided: it decides again."""
    made: Cloud = cloud(2)
    made.fill(1)
    (network,) = made.networks
    place(made, t.network_dhcp_agents, "network_id", network["id"])
    made.server.scheduler.reconcile_ports(network["id"])
    agents = {a["host"]: a["id"] for a in made.admin.get("/agents", {"agent_type": DHCP}).body["agents"]}

    def remove_the_one_that_would_stay() -> None:
        for agent_id in kept_of_surplus([Candidate(key) for key in agents.values()], 1, network["id"]) or ():
            made.admin.delete(f"/agents/{agent_id}/dhcp-networks/{network['id']}").expect(204)

    before_next_write(made.server, monkeypatch, remove_the_one_that_would_stay)
    made.server.scheduler.remove_surplus()
    (host,) = made.placements()[f"network {network['id']}"]
    assert host in agents
