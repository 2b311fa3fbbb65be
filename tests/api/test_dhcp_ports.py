"""DHCP ports: created, readdressed, moved and deleted as their network is scheduled and its subnets change."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import sqlalchemy as sa

from neutrino.model.agents import DHCP, OVS, AgentState
from neutrino.model.dhcp import device_id
from neutrino.server.dhcp.ports import DhcpPorts
from neutrino.server.ipam import allocation
from neutrino.server.main import Server
from neutrino.server.ml2.subnets import DhcpChange
from neutrino.server.scheduling.scheduler import PlacementChange
from tests.api.agents import BINARIES, report, set_clock, switch
from tests.api.client import Api
from tests.api.dhcp import dhcp_ports, serve

Fresh = tuple[Server, Api]


@pytest.fixture
def fresh(another_server: Any) -> Fresh:
    server = another_server()
    return server, Api(server.app).as_admin()


def subnets_on(port: dict[str, Any]) -> set[str]:
    return {f["subnet_id"] for f in port["fixed_ips"]}


def test_device_ids_are_those_of_neutron() -> None:
    network = "11111111-2222-3333-4444-555555555555"
    short = uuid.uuid5(uuid.NAMESPACE_DNS, "node-7")
    assert device_id("node-7", network) == device_id("node-7.example.org", network) == f"dhcp{short}-{network}"


def test_a_dhcp_subnet_creates_a_bound_port(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "h1")
    network = api.network()
    assert dhcp_ports(api, network) == []
    subnet = api.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(api, network)
    assert port["device_id"] == device_id("h1", network["id"])
    assert (port["name"], port["binding:host_id"], port["binding:vif_type"]) == ("", "h1", "ovs")
    assert subnets_on(port) == {subnet["id"]}
    assert (port["port_security_enabled"], port["security_groups"]) == (False, [])
    assert port["project_id"] == network["project_id"]
    assert port["dns_assignment"][0]["ip_address"] == port["fixed_ips"][0]["ip_address"]


def test_agents_that_create_their_own_ports_get_none(fresh: Fresh) -> None:
    server, api = fresh
    switch(server, "h1")
    report(server, DHCP, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    assert len(api.get(f"/networks/{network['id']}/dhcp-agents").body["agents"]) == 1
    assert dhcp_ports(api, network) == []


def test_the_addresses_of_the_port_follow_the_subnets(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "h1")
    network = api.network()
    one = api.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(api, network)
    address = port["fixed_ips"][0]["ip_address"]
    two = api.subnet(network, "10.0.1.0/24")
    slaac = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
    three = api.subnet(network, "2001:db8::/64", **slaac)
    api.subnet(network, "10.0.2.0/24", enable_dhcp=False)
    (port,) = dhcp_ports(api, network)
    assert subnets_on(port) == {one["id"], two["id"], three["id"]}
    assert address in {f["ip_address"] for f in port["fixed_ips"]}, "addresses that it has stay"
    api.change("subnet", two["id"], enable_dhcp=False)
    assert subnets_on(dhcp_ports(api, network)[0]) == {one["id"], three["id"]}
    api.change("subnet", two["id"], enable_dhcp=True)
    assert subnets_on(dhcp_ports(api, network)[0]) == {one["id"], two["id"], three["id"]}
    api.delete(f"/subnets/{one['id']}").expect(204)
    (after,) = dhcp_ports(api, network)
    assert (after["id"], subnets_on(after)) == (port["id"], {two["id"], three["id"]})
    api.delete(f"/subnets/{three['id']}").expect(204)
    api.change("subnet", two["id"], enable_dhcp=False)
    assert dhcp_ports(api, network) == [], "no DHCP subnet is left"
    api.change("subnet", two["id"], enable_dhcp=True)
    assert subnets_on(dhcp_ports(api, network)[0]) == {two["id"]}
    api.delete(f"/subnets/{two['id']}").expect(204)
    assert dhcp_ports(api, network) == []


def test_a_network_without_a_port_can_be_deleted(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    assert dhcp_ports(api, network)
    api.delete(f"/networks/{network['id']}").expect(204)
    assert api.all("/ports") == []


def test_a_new_agent_gets_the_port(fresh: Fresh) -> None:
    server, api = fresh
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    assert dhcp_ports(api, network) == []
    serve(server, "late")
    (port,) = dhcp_ports(api, network)
    assert (port["binding:host_id"], port["binding:vif_type"]) == ("late", "ovs")


def test_a_port_that_could_not_be_bound_is_bound_when_the_switch_reports(fresh: Fresh) -> None:
    server, api = fresh
    report(server, DHCP, "h1", dhcp_port_by_server=True)
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    assert dhcp_ports(api, network)[0]["binding:vif_type"] == "binding_failed"
    switch(server, "h1")
    assert dhcp_ports(api, network)[0]["binding:vif_type"] == "ovs"


def test_manual_placement_deletes_and_creates_the_port(fresh: Fresh) -> None:
    server, api = fresh
    one, two = serve(server, "h1"), serve(server, "h2")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    (first,) = dhcp_ports(api, network)
    had, other = (one, two) if first["binding:host_id"] == "h1" else (two, one)
    api.post(f"/agents/{other}/dhcp-networks", {"network_id": network["id"]}).expect(201)
    assert {p["binding:host_id"] for p in dhcp_ports(api, network)} == {"h1", "h2"}
    api.delete(f"/agents/{had}/dhcp-networks/{network['id']}").expect(204)
    (left,) = dhcp_ports(api, network)
    assert left["binding:host_id"] != first["binding:host_id"]
    api.delete(f"/agents/{other}/dhcp-networks/{network['id']}").expect(204)
    assert dhcp_ports(api, network) == []
    api.post(f"/agents/{had}/dhcp-networks", {"network_id": network["id"]}).expect(201)
    assert len(dhcp_ports(api, network)) == 1


@pytest.mark.every_database
def test_failover_moves_the_port_with_its_address(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "dies")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    (before,) = dhcp_ports(api, network)
    serve(server, "lives")
    for _ in range(3):  # one of the two goes on reporting
        set_clock(server, 60)
        for kind in (OVS, DHCP):
            by_server = {"dhcp_port_by_server": True, "tunnel_types": ["vxlan"], "tunneling_ip": "192.0.2.1"}
            server.registry.report(AgentState(kind, BINARIES[kind], "lives", "topic", configurations=by_server))
    server.scheduler.reschedule_dead()
    (after,) = dhcp_ports(api, network)
    assert (after["id"], after["fixed_ips"], after["mac_address"]) == (
        before["id"],
        before["fixed_ips"],
        before["mac_address"],
    )
    assert after["binding:host_id"] == "lives"
    assert after["device_id"] == device_id("lives", network["id"])


def test_a_deleted_agents_port_moves_to_another(fresh: Fresh) -> None:
    server, api = fresh
    gone = serve(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    api.delete(f"/agents/{gone}").expect(204)
    assert dhcp_ports(api, network) == []
    serve(server, "h2")
    assert [p["binding:host_id"] for p in dhcp_ports(api, network)] == ["h2"]


def test_a_reserved_port_is_reused_first(fresh: Fresh) -> None:
    server, api = fresh
    network = api.network()
    subnet = api.subnet(network, "10.0.0.0/24")
    reserved = api.port(
        network,
        device_owner="network:dhcp",
        device_id="reserved_dhcp_port",
        fixed_ips=[{"subnet_id": subnet["id"], "ip_address": "10.0.0.7"}],
    )
    serve(server, "h1")
    (port,) = dhcp_ports(api, network)
    assert (port["id"], port["device_id"]) == (reserved["id"], device_id("h1", network["id"]))
    assert port["fixed_ips"][0]["ip_address"] == "10.0.0.7"
    assert port["binding:vif_type"] == "ovs"


def test_a_port_deleted_by_a_client_is_created_again(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(api, network)
    api.delete(f"/ports/{port['id']}").expect(204)
    (again,) = dhcp_ports(api, network)
    assert (again["id"] != port["id"], again["device_id"]) == (True, port["device_id"])


@pytest.mark.every_database
def test_two_concurrent_requests_create_one_port(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    other = serve(server, "h2")
    with server.db.read() as connection:
        one, two = (server.scheduler.ports.steps(connection, network["id"], [other]) for _ in range(2))
    with server.core.operations.write([], one):
        pass
    with pytest.raises(sa.exc.IntegrityError), server.core.operations.write([], two):
        pass


@pytest.mark.every_database
def test_a_network_placed_while_its_subnet_is_created_has_one_port(
    fresh: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its commit the subnet's request sees the other agent, and its own port moves there."""
    server, api = fresh
    serve(server, "h1")
    network, meanwhile = api.network(), list[str]()
    prepare = server.scheduler.prepare

    def overtaken(*arguments: Any) -> DhcpChange:
        change = prepare(*arguments)
        if not meanwhile:
            meanwhile.append(serve(server, "h2"))
            server.scheduler.place(network["id"], PlacementChange(join=meanwhile))
        return change

    monkeypatch.setattr(server.scheduler, "prepare", overtaken)
    api.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(api, network)
    assert port["binding:host_id"] == "h2"
    agents = api.get(f"/networks/{network['id']}/dhcp-agents").body["agents"]
    assert [agent["id"] for agent in agents] == meanwhile


def test_a_subnet_is_placed_once_if_nothing_changes_meanwhile(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fresh
    serve(server, "h1")
    placed = list[str]()
    monkeypatch.setattr(server.scheduler, "place", lambda key, change: placed.append(key))
    network = api.network()
    for cidr in ("10.0.0.0/24", "10.0.1.0/24"):
        api.subnet(network, cidr)
    disabled = api.subnet(network, "10.0.2.0/24", enable_dhcp=False)
    api.change("subnet", disabled["id"], enable_dhcp=True)
    assert placed == []
    (port,) = dhcp_ports(api, network)
    assert len(port["fixed_ips"]) == 3


@pytest.mark.every_database
def test_an_address_taken_by_a_concurrent_request_is_no_error(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fresh
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    taken = api.port(network)["fixed_ips"]
    choose, chosen = DhcpPorts._addresses, [taken]

    def too_late(self: DhcpPorts, *arguments: Any) -> list[dict[str, Any]]:
        return chosen.pop() if chosen else choose(self, *arguments)

    monkeypatch.setattr(DhcpPorts, "_addresses", too_late)
    serve(server, "h1")
    assert chosen == []
    (port,) = dhcp_ports(api, network)
    assert port["fixed_ips"][0]["ip_address"] != taken[0]["ip_address"]


def test_the_address_of_a_new_port_is_looked_up_once(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    server, api = fresh
    serve(server, "h1")
    network, looked_up = api.network(), list[str]()
    read = allocation._read_allocated

    def noted(connection: sa.Connection, subnet_id: str, addresses: Sequence[str]) -> Iterable[str]:
        looked_up.extend(addresses)
        return read(connection, subnet_id, addresses)

    monkeypatch.setattr(allocation, "_read_allocated", noted)
    api.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(api, network)
    assert looked_up.count(port["fixed_ips"][0]["ip_address"]) == 1


@pytest.mark.every_database
def test_a_second_port_of_a_host_is_deleted(fresh: Fresh) -> None:
    server, api = fresh
    serve(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    (port,) = dhcp_ports(api, network)
    api.port(network, device_owner="network:dhcp", device_id=port["device_id"])
    assert len(dhcp_ports(api, network)) == 2
    server.scheduler.reconcile_ports(network["id"])
    assert [p["device_id"] for p in dhcp_ports(api, network)] == [port["device_id"]]


def test_a_new_port_of_a_host_gets_another_mac_than_the_moved_one(fresh: Fresh) -> None:
    """The first one has moved to another host, with the MAC that it was made with."""
    server, api = fresh
    first = serve(server, "h1")
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    (moved,) = dhcp_ports(api, network)
    serve(server, "h2")
    api.put(f"/agents/{first}", {"agent": {"admin_state_up": False}}).expect(200)
    api.put(f"/agents/{first}", {"agent": {"admin_state_up": True}}).expect(200)
    api.post(f"/agents/{first}/dhcp-networks", {"network_id": network["id"]}).expect(201)
    ports = {p["binding:host_id"]: p for p in dhcp_ports(api, network)}
    assert ports["h2"]["mac_address"] == moved["mac_address"] != ports["h1"]["mac_address"]


@pytest.mark.every_database
def test_a_full_subnet_is_no_error(fresh: Fresh) -> None:
    server, api = fresh
    network = api.network()
    subnet = api.subnet(network, "10.0.0.0/24", allocation_pools=[{"start": "10.0.0.5", "end": "10.0.0.5"}])
    port = api.port(network)
    serve(server, "h1")
    assert dhcp_ports(api, network) == []
    api.delete(f"/ports/{port['id']}").expect(204)
    api.change("subnet", subnet["id"], enable_dhcp=False)
    api.change("subnet", subnet["id"], enable_dhcp=True)
    assert len(dhcp_ports(api, network)) == 1


def test_an_agent_with_use_gateway_ips_has_a_port_without_addresses(fresh: Fresh) -> None:
    server, api = fresh
    switch(server, "h1")
    report(server, DHCP, "h1", dhcp_port_by_server=True, use_gateway_ips=True)
    network = api.network()
    api.subnet(network, "10.0.0.0/24")
    api.subnet(network, "2001:db8::/64", ip_version=6, ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    (port,) = dhcp_ports(api, network)
    assert (port["fixed_ips"], port["binding:vif_type"]) == ([], "ovs")
    report(server, DHCP, "h1", dhcp_port_by_server=True)
    api.subnet(network, "10.0.1.0/24")
    assert len(dhcp_ports(api, network)[0]["fixed_ips"]) == 3, "it has changed its mind"
    report(server, DHCP, "h1", dhcp_port_by_server=True, use_gateway_ips=True)
    server.scheduler.reconcile_ports(network["id"])
    assert dhcp_ports(api, network)[0]["fixed_ips"] == []
