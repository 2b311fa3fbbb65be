"""Agents by the API, networks scheduled to them, what happens when one dies, and availability zones."""

from __future__ import annotations

from typing import Any

import pytest

from neutrino.model.agents import DHCP, OVS
from neutrino.server.main import Server
from tests.api.agents import report, set_clock, switch
from tests.api.client import Api


@pytest.fixture
def fresh(another_server: Any) -> tuple[Server, Api]:
    """A server without agents: they would serve the networks of other tests too."""
    server = another_server()
    return server, Api(server.app).as_admin()


def agents_of(admin: Api, network: dict[str, Any]) -> set[str]:
    return {a["host"] for a in admin.get(f"/networks/{network['id']}/dhcp-agents").expect(200).body["agents"]}


@pytest.mark.every_database
def test_an_agent_is_created_by_its_report(server: Server, api: Api, admin: Api) -> None:
    made = switch(server, "known", devices=3)
    shown = admin.get(f"/agents/{made.agent_id}").expect(200).body["agent"]
    assert (shown["agent_type"], shown["host"], shown["alive"], shown["admin_state_up"]) == (OVS, "known", True, True)
    assert shown["configurations"]["devices"] == 3
    assert shown["resources_synced"] is None  # nothing is reported to Placement: neither true nor false would be right
    assert [a["id"] for a in admin.all("/agents", {"host": "known", "agent_type": OVS})] == [made.agent_id]
    for written in ("Open vSwitch Agent", "open vswitch agent"):  # Tempest filters by "DHCP Agent"
        assert [a["id"] for a in admin.all("/agents", {"host": "known", "agent_type": written})] == [made.agent_id]
    assert admin.all("/agents", {"host": "known", "agent_type": "vswitch"}) == []
    assert switch(server, "known").agent_id == made.agent_id
    assert api.all("/agents") == []
    api.get(f"/agents/{made.agent_id}").expect(404)


def test_an_agent_is_changed_and_deleted(server: Server, admin: Api) -> None:
    made = switch(server, "changed")
    path = f"/agents/{made.agent_id}"
    changed = (
        admin.put(path, {"agent": {"admin_state_up": False, "description": "in repair"}}).expect(200).body["agent"]
    )
    assert (changed["admin_state_up"], changed["description"]) == (False, "in repair")
    admin.put(path, {"agent": {"host": "other"}}).expect(400)
    admin.post("/agents", {"agent": {"host": "x"}}).expect(400)
    admin.delete(path).expect(204)
    admin.get(path).refused(404, "AgentNotFound")
    admin.delete(path).refused(404, "AgentNotFound")


def test_an_agent_dies_and_revives(server: Server, admin: Api) -> None:
    made = switch(server, "mortal")
    set_clock(server, 1000)
    try:
        assert admin.get(f"/agents/{made.agent_id}").body["agent"]["alive"] is False
        assert made.agent_id in {a["id"] for a in admin.all("/agents", {"alive": "false"})}
        assert switch(server, "mortal").status == "revived"
        assert admin.get(f"/agents/{made.agent_id}").body["agent"]["alive"] is True
    finally:
        set_clock(server, -1000)


def test_a_network_with_a_dhcp_subnet_gets_an_agent(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    made = report(server, DHCP, "d1")
    network = admin.network()
    assert agents_of(admin, network) == set()
    subnet = admin.subnet(network, enable_dhcp=False)
    assert agents_of(admin, network) == set()
    admin.change("subnet", subnet["id"], enable_dhcp=True)
    assert agents_of(admin, network) == {"d1"}
    networks = admin.get(f"/agents/{made.agent_id}/dhcp-networks").expect(200).body["networks"]
    assert [n["id"] for n in networks] == [network["id"]]
    admin.delete(f"/networks/{network['id']}").expect(204)
    assert admin.get(f"/agents/{made.agent_id}/dhcp-networks").body["networks"] == []


def test_a_new_agent_takes_networks_that_lack_one(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    network = admin.network()
    admin.subnet(network)
    report(server, DHCP, "late")
    assert agents_of(admin, network) == {"late"}


@pytest.mark.every_database
def test_networks_are_spread_over_agents(another_server: Any) -> None:
    server = another_server({"DEFAULT": {"dhcp_agents_per_network": "2"}})
    admin = Api(server.app).as_admin()
    for host in ("d1", "d2", "d3"):
        report(server, DHCP, host)
    counts = dict.fromkeys(("d1", "d2", "d3"), 0)
    for _ in range(6):
        network = admin.network()
        admin.subnet(network)
        hosts = agents_of(admin, network)
        assert len(hosts) == 2
        for host in hosts:
            counts[host] += 1
    assert set(counts.values()) == {4}


def test_without_automatic_scheduling_networks_are_placed_manually_only(another_server: Any) -> None:
    server = another_server({"DEFAULT": {"network_auto_schedule": "false"}})
    admin = Api(server.app).as_admin()
    network = admin.network()
    admin.subnet(network)
    report(server, DHCP, "d1")
    assert agents_of(admin, network) == set()
    (agent,) = admin.all("/agents", {"host": "d1"})
    admin.post(f"/agents/{agent['id']}/dhcp-networks", {"network_id": network["id"]}).expect(201)
    assert agents_of(admin, network) == {"d1"}


@pytest.mark.every_database
def test_networks_move_from_a_dead_agent(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    report(server, DHCP, "dies")
    network = admin.network()
    admin.subnet(network)
    set_clock(server, 1000)
    assert server.scheduler.reschedule_dead() == []  # no other agent can take it
    assert agents_of(admin, network) == {"dies"}
    report(server, DHCP, "lives")
    server.scheduler.reschedule_dead()
    assert agents_of(admin, network) == {"lives"}


def test_manual_placement(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    one, two = report(server, DHCP, "d1"), report(server, DHCP, "d2")
    ovs = switch(server, "s1")
    network = admin.network()
    path = f"/agents/{one.agent_id}/dhcp-networks"
    admin.post(path, {"network_id": network["id"]}).expect(201)
    admin.post(path, {"network_id": network["id"]}).refused(409, "NetworkHostedByDHCPAgent")
    admin.post(f"/agents/{two.agent_id}/dhcp-networks", {"network_id": network["id"]}).expect(201)
    assert agents_of(admin, network) == {"d1", "d2"}
    admin.delete(f"{path}/{network['id']}").expect(204)
    admin.delete(f"{path}/{network['id']}").refused(409, "NetworkNotHostedByDhcpAgent")
    admin.post(f"/agents/{ovs.agent_id}/dhcp-networks", {"network_id": network["id"]}).refused(404, "InvalidDHCPAgent")
    admin.post(path, {"network_id": "no-such-network"}).refused(404, "NetworkNotFound")
    admin.post(path, {}).expect(400)
    member = Api(server.app)
    member.post(path, {"network_id": network["id"]}).refused(403)
    member.get(path).refused(403)


def test_zones(fresh: tuple[Server, Api]) -> None:
    server, admin = fresh
    east = report(server, DHCP, "d1", "east")
    report(server, DHCP, "d2", "west")
    zones = {z["name"]: z for z in admin.get("/availability_zones").expect(200).body["availability_zones"]}
    assert set(zones) == {"east", "west"}
    assert zones["east"] == {"name": "east", "resource": "network", "state": "available"}
    admin.put(f"/agents/{east.agent_id}", {"agent": {"admin_state_up": False}}).expect(200)
    found = admin.get("/availability_zones", {"state": "unavailable"}).expect(200).body["availability_zones"]
    assert [z["name"] for z in found] == ["east"]
    admin.put(f"/agents/{east.agent_id}", {"agent": {"admin_state_up": True}}).expect(200)
    admin.post("/networks", {"network": {"availability_zone_hints": ["north"]}}).refused(
        404, "AvailabilityZoneNotFound"
    )
    network = admin.network(availability_zone_hints=["west"])
    assert (network["availability_zone_hints"], network["availability_zones"]) == (["west"], [])
    admin.subnet(network)
    assert agents_of(admin, network) == {"d2"}
    assert admin.show("network", network["id"])["availability_zones"] == ["west"]
    listed = admin.all("/networks", {"fields": ["id", "availability_zones"]})
    assert {"id": network["id"], "availability_zones": ["west"]} in listed


def test_default_zones(another_server: Any) -> None:
    server = another_server({"DEFAULT": {"default_availability_zones": "west"}})
    admin = Api(server.app).as_admin()
    report(server, DHCP, "d1", "east")
    report(server, DHCP, "d2", "west")
    network = admin.network()
    admin.subnet(network)
    assert agents_of(admin, network) == {"d2"}
