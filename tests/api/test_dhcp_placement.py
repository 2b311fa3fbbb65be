"""Networks are scheduled to hosts that can bind their DHCP port; a host whose switch does not reach a network cannot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from neutrino.model.agents import DHCP
from neutrino.server.main import Server
from neutrino.server.scheduling.loads import Loads
from tests.api.agents import report, switch
from tests.api.client import Api
from tests.api.dhcp import dhcp_ports
from tests.api.races import before_next_write

Fresh = tuple[Server, Api]
PHYSICAL = {"provider__network_type": "vlan", "provider__physical_network": "physnet1"}


@pytest.fixture
def fresh(another_server: Any) -> Fresh:
    server = another_server()
    return server, Api(server.app).as_admin()


def bridged(server: Server, host: str, *physical: str) -> str:
    """A host that reaches these physical networks, and serves DHCP; the DHCP agent's id."""
    switch(server, host, bridge_mappings={name: f"br-{name}" for name in physical})
    return report(server, DHCP, host, dhcp_port_by_server=True).agent_id


def places(api: Api, network: dict[str, Any]) -> list[tuple[str, str]]:
    return [(p["binding:host_id"], p["binding:vif_type"]) for p in dhcp_ports(api, network)]


def test_a_network_goes_to_a_host_that_can_carry_it(fresh: Fresh) -> None:
    server, api = fresh
    for host in ("a1", "a2", "a3"):
        bridged(server, host)
    bridged(server, "b1", "physnet1")
    for _ in range(3):
        network = api.network(**PHYSICAL)
        api.subnet(network, "10.0.0.0/24")
        assert places(api, network) == [("b1", "ovs")]


def test_a_network_that_no_host_can_carry_waits_for_one(fresh: Fresh) -> None:
    server, api = fresh
    bridged(server, "a1")
    network = api.network(**PHYSICAL)
    api.subnet(network, "10.0.0.0/24")
    bridged(server, "a2")
    assert places(api, network) == []
    bridged(server, "b1")
    assert places(api, network) == []
    switch(server, "b1", bridge_mappings={"physnet1": "br-ex"})
    assert places(api, network) == [("b1", "ovs")], "its switch reaches the network since it was started anew"


def test_failover_is_to_a_host_that_can_carry_the_network(fresh: Fresh) -> None:
    server, api = fresh
    first = bridged(server, "b1", "physnet1")
    network = api.network(**PHYSICAL)
    api.subnet(network, "10.0.0.0/24")
    bridged(server, "a1")
    path = f"/agents/{first}"
    api.put(path, {"agent": {"admin_state_up": False}}).expect(200)
    assert places(api, network) == [("b1", "ovs")], "a1 could not serve it"
    bridged(server, "b2", "physnet1")
    assert ("b2", "ovs") in places(api, network)
    server.scheduler.reschedule_dead()
    assert places(api, network) == [("b2", "ovs")]


@pytest.mark.every_database
def test_networks_are_spread_without_being_counted(fresh: Fresh) -> None:
    """In a large cloud agents' networks are counted every few seconds only; a burst of new ones is spread all the same."""
    server, api = fresh
    for host in ("a1", "a2", "a3"):
        bridged(server, host, "physnet1")
    server.scheduler.loads = Loads(most=0, clock=lambda: 1.0)
    placed = []
    for number in range(7):
        network = api.network(**PHYSICAL)
        api.subnet(network, "10.0.0.0/24")
        placed += [host for host, _ in places(api, network)]
        assert (server.scheduler.loads.kept() is not None) == (number > 0), "counted with the second one"
    assert sorted(Counter(placed).values()) == [2, 2, 3]
    counts = server.scheduler.loads.kept()
    assert counts is not None
    assert sorted(counts.values()) == [2, 2, 3]


# --- in the transaction of the subnet ---------------------------------------------------------------------------------


@pytest.mark.every_database
def test_a_network_is_placed_with_its_first_subnet(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the subnet's own transaction: no step after it could fail and leave the network without DHCP."""
    server, api = fresh
    bridged(server, "b1", "physnet1")
    monkeypatch.setattr(server.core.subnets.dhcp, "follow", lambda *_: None)
    network = api.network(**PHYSICAL)
    api.subnet(network, "10.0.0.0/24", enable_dhcp=False)
    assert places(api, network) == []
    later = api.subnet(network, "10.0.1.0/24")
    assert places(api, network) == [("b1", "ovs")]
    (port,) = dhcp_ports(api, network)
    assert [fixed["subnet_id"] for fixed in port["fixed_ips"]] == [later["id"]]


@pytest.mark.every_database
def test_a_subnet_that_gets_dhcp_places_its_network(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fresh
    bridged(server, "b1", "physnet1")
    monkeypatch.setattr(server.core.subnets.dhcp, "follow", lambda *_: None)
    network = api.network(**PHYSICAL)
    subnet = api.subnet(network, "10.0.0.0/24", enable_dhcp=False)
    api.put(f"/subnets/{subnet['id']}", {"subnet": {"enable_dhcp": True}}).expect(200)
    assert places(api, network) == [("b1", "ovs")]


@pytest.mark.every_database
def test_an_agent_that_reports_meanwhile_serves_the_network(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its report does not see the subnet, and the subnet's request has not seen it: it is found after the commit."""
    server, api = fresh
    network = api.network(**PHYSICAL)
    before_next_write(server, monkeypatch, lambda: bridged(server, "b1", "physnet1"))
    api.subnet(network, "10.0.0.0/24")
    assert places(api, network) == [("b1", "ovs")]


@pytest.mark.every_database
def test_a_network_that_is_placed_meanwhile_gets_no_second_agent(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fresh
    ids = [bridged(server, host, "physnet1") for host in ("b1", "b2")]
    network = api.network(**PHYSICAL)
    chosen = max(ids)  # not the one that the request chooses
    path = f"/agents/{chosen}/dhcp-networks"
    before_next_write(server, monkeypatch, lambda: api.post(path, {"network_id": network["id"]}).expect(201))
    api.subnet(network, "10.0.0.0/24")
    assert places(api, network) == [("b1" if chosen == ids[0] else "b2", "ovs")]
    agents = api.get(f"/networks/{network['id']}/dhcp-agents").expect(200).body["agents"]
    assert [agent["id"] for agent in agents] == [chosen]


@pytest.mark.every_database
def test_another_subnet_that_gets_dhcp_meanwhile(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fresh
    bridged(server, "b1", "physnet1")
    network = api.network(**PHYSICAL)
    first = api.subnet(network, "10.0.0.0/24", enable_dhcp=False)
    enabled = {"subnet": {"enable_dhcp": True}}
    before_next_write(server, monkeypatch, lambda: api.put(f"/subnets/{first['id']}", enabled).expect(200))
    second = api.subnet(network, "10.0.1.0/24")
    (port,) = dhcp_ports(api, network)
    assert {fixed["subnet_id"] for fixed in port["fixed_ips"]} == {first["id"], second["id"]}
