"""DHCP of routed networks: agents and DHCP ports for each segment, what hosts get, and what ports wait for."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from neutrino.model.agents import DHCP
from neutrino.server.main import Server
from neutrino.server.ml2.ports.provisioning import Ready
from tests.api.agents import report, switch
from tests.api.client import Api
from tests.api.dhcp import dhcp_ports
from tests.api.segments import SETTINGS, routed_network

Make = Callable[..., Server]
NUMBERS = itertools.count()


@pytest.fixture
def server(another_server: Make) -> Server:
    return another_server(SETTINGS)


@pytest.fixture
def admin(server: Server) -> Api:
    return Api(server.app).as_admin()


def serve(server: Server, host: str, *racks: str) -> str:
    switch(server, host, bridge_mappings={rack: f"br-{rack}" for rack in racks})
    return report(server, DHCP, host, dhcp_port_by_server=True).agent_id


def agents(admin: Api, network_id: str) -> list[str]:
    return sorted(one["host"] for one in admin.get(f"/networks/{network_id}/dhcp-agents").body["agents"])


def addresses(admin: Api, network: dict[str, Any]) -> dict[str, list[str]]:
    """The subnets of each host's DHCP port."""
    return {
        port["binding:host_id"]: [fixed["subnet_id"] for fixed in port["fixed_ips"]]
        for port in dhcp_ports(admin, network)
    }


@pytest.mark.every_database
def test_each_segment_has_an_agent_and_a_port(server: Server, admin: Api) -> None:
    for host, rack in (("a1", "rack1"), ("a2", "rack1"), ("b1", "rack2"), ("c1", "physnet1")):
        serve(server, host, rack)
    routed = routed_network(admin, enable_dhcp=True)
    serving = agents(admin, routed.id)
    assert len(serving) == 2
    assert serving[0] in ("a1", "a2")
    assert serving[1] == "b1"
    first, second = (one["id"] for one in routed.subnets)
    assert addresses(admin, routed.network) == {serving[0]: [first], "b1": [second]}
    assert all(port["binding:vif_type"] == "ovs" for port in dhcp_ports(admin, routed.network))


def test_several_agents_per_segment(another_server: Make) -> None:
    server = another_server({**SETTINGS, "DEFAULT": {"dhcp_agents_per_network": "2"}})
    admin = Api(server.app).as_admin()
    for host, rack in (("a1", "rack1"), ("a2", "rack1"), ("a3", "rack1"), ("b1", "rack2")):
        serve(server, host, rack)
    routed = routed_network(admin, enable_dhcp=True)
    serving = agents(admin, routed.id)
    assert len(serving) == 3
    assert serving[-1] == "b1"


def test_a_new_host_serves_the_segment_that_lacks_an_agent(server: Server, admin: Api) -> None:
    serve(server, "a1", "rack1")
    routed = routed_network(admin, enable_dhcp=True)
    assert agents(admin, routed.id) == ["a1"]
    serve(server, "a2", "rack1")
    serve(server, "c1", "physnet1")
    serve(server, "m1", "rack1", "rack2")
    assert agents(admin, routed.id) == ["a1"]
    serve(server, "b1", "rack2")
    assert agents(admin, routed.id) == ["a1", "b1"]
    assert addresses(admin, routed.network)["b1"] == [routed.subnets[1]["id"]]


def test_an_agent_whose_segment_was_unknown_gives_the_network_back(server: Server, admin: Api) -> None:
    report(server, DHCP, "x1", dhcp_port_by_server=True)
    routed = routed_network(admin, enable_dhcp=True, racks=1)
    assert agents(admin, routed.id) == ["x1"]
    assert addresses(admin, routed.network) == {}
    serve(server, "a1", "rack1")
    assert agents(admin, routed.id) == ["x1"]
    switch(server, "x1", bridge_mappings={"rack2": "br"})
    assert agents(admin, routed.id) == ["a1"]
    assert addresses(admin, routed.network) == {"a1": [routed.subnets[0]["id"]]}


def test_an_agent_whose_segment_was_unknown_serves_it(server: Server, admin: Api) -> None:
    report(server, DHCP, "x1", dhcp_port_by_server=True)
    routed = routed_network(admin, enable_dhcp=True, racks=1)
    switch(server, "x1", bridge_mappings={"rack1": "br"})
    assert addresses(admin, routed.network) == {"x1": [routed.subnets[0]["id"]]}


def test_failover_stays_on_the_segment(server: Server, admin: Api) -> None:
    serve(server, "a1", "rack1")
    agent_id = serve(server, "b1", "rack2")
    routed = routed_network(admin, enable_dhcp=True)
    before = addresses(admin, routed.network)
    serve(server, "a2", "rack1")
    serve(server, "b2", "rack2")
    assert agents(admin, routed.id) == ["a1", "b1"]
    admin.change("agent", agent_id, admin_state_up=False)
    assert agents(admin, routed.id) == ["a1", "b2"]
    assert addresses(admin, routed.network) == {"a1": before["a1"], "b2": before["b1"]}


def test_a_port_waits_for_dhcp_of_its_segment_alone(server: Server, admin: Api) -> None:
    serve(server, "a1", "rack1")
    switch(server, "b1", bridge_mappings={"rack2": "br-2"})
    routed = routed_network(admin, enable_dhcp=True)
    assert agents(admin, routed.id) == ["a1"]
    provisioning = server.core.provisioning
    for host, waits in (("a1", True), ("b1", False)):
        port = admin.make("port", network_id=routed.id, binding__host_id=host)
        assert port["binding:vif_type"] == "ovs"
        provisioning.complete(port["id"], "L2", host)
        status = admin.get(f"/ports/{port['id']}").body["port"]["status"]
        assert status == ("DOWN" if waits else "ACTIVE")


def test_a_port_waits_for_the_distributed_agent_of_its_host(server: Server, admin: Api) -> None:
    serve(server, "a1", "rack1")
    routed = routed_network(admin, enable_dhcp=True)
    assert agents(admin, routed.id) == ["a1"]
    for host, rack in (("a2", "rack1"), ("c1", "rack1")):
        switch(server, host, bridge_mappings={rack: f"br-{rack}"})
    report(server, DHCP, "a2", dhcp_port_by_server=True, dhcp_distributed=True)
    provisioning = server.core.provisioning
    for host, provider, other in (("a2", "a2", "a1"), ("c1", "a1", "a2")):
        port = admin.make("port", network_id=routed.id, binding__host_id=host)
        provisioning.complete(port["id"], "L2", host)
        assert not provisioning.ready_all([Ready(port["id"], other, port["revision_number"])])
        assert admin.show("port", port["id"])["status"] == "DOWN"
        assert provisioning.ready_all([Ready(port["id"], provider, port["revision_number"])])
        assert admin.show("port", port["id"])["status"] == "ACTIVE"


def test_a_subnet_without_dhcp_needs_no_agent(server: Server, admin: Api) -> None:
    serve(server, "a1", "rack1")
    serve(server, "b1", "rack2")
    routed = routed_network(admin, enable_dhcp=False)
    assert agents(admin, routed.id) == []
    admin.change("subnet", routed.subnets[1]["id"], enable_dhcp=True)
    assert agents(admin, routed.id) == ["b1"]
    assert addresses(admin, routed.network) == {"b1": [routed.subnets[1]["id"]]}
