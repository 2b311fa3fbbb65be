"""The whole agent, wiring and serving, as a process beside a server: an instance is plugged, and gets its address."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.dataplane.netlink.namespaces import Namespaces
from tests.support.agent import Agent, wait_for_status
from tests.support.dhcp_lab import Client, run
from tests.support.neutrino import Caller, Neutrino
from tests.support.openvswitch import OpenVSwitch
from tests.support.process import wait_until

TAG = uuid.uuid4().hex[:8]
BRIDGE = f"bi{TAG}"


@pytest.fixture(scope="module")
def server() -> Iterator[Neutrino]:
    with Neutrino({"feed": {"run": True}}) as running:
        yield running


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as running:
        yield running
        for bridge in (BRIDGE, f"bt{TAG}"):  # of this type it is a real device, and would stay
            running.vsctl("--if-exists", "del-br", bridge)


@pytest.fixture(scope="module")
def agent(server: Neutrino, switch: OpenVSwitch) -> Iterator[Agent]:
    bridges = {"integration_bridge": BRIDGE, "tunnel_bridge": f"bt{TAG}", "bridge_mappings": ""}
    settings = {
        "DEFAULT": {"roles": "l2,dhcp"},
        "agent": {"repair_interval": "2"},
        "ovs": {**bridges, "datapath_type": "netdev"},
    }
    with Agent(server, switch, f"host-{TAG}", settings) as running:
        try:
            yield running
        finally:
            left = service(running)
            for network_id in left.networks():  # by tests that failed
                left.stop_all(network_id)
                run("ip", "netns", "del", f"qdhcp-{network_id}", check=False)


@pytest.fixture
def api(server: Neutrino, agent: Agent) -> Iterator[Caller]:
    caller = Caller(server.url)
    yield caller
    caller.close()


@pytest.fixture
def network(api: Caller, agent: Agent) -> Iterator[dict[str, Any]]:
    made = api.create("network", name="blue")
    api.create("subnet", network_id=made["id"], ip_version=4, cidr="10.0.0.0/24")
    yield made
    for port in api("GET", f"/v2.0/ports?network_id={made['id']}&device_owner=compute:nova").json()["ports"]:
        api("DELETE", f"/v2.0/ports/{port['id']}")
    assert api("DELETE", f"/v2.0/networks/{made['id']}").status_code == 204
    until(lambda: made["id"] not in service(agent).networks(), "nothing is left of the network")
    assert f"qdhcp-{made['id']}" not in run("ip", "netns", "list")


def service(agent: Agent) -> Dnsmasq:
    return Dnsmasq(str(agent.directory / "state" / "dhcp"), Namespaces())


def pid(agent: Agent, network: dict[str, Any]) -> int | None:
    return next(service(agent).pids(network["id"]), None)


def until(condition: Any, what: str) -> None:
    wait_until(condition, timeout=60, what=what, failed=lambda: None)


class _Here:
    """The part of a lab that a client uses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory


@contextlib.contextmanager
def instance(switch: OpenVSwitch, port: dict[str, Any], directory: Path) -> Iterator[Client]:
    """A machine as Nova plugs one: a device with the port's id and MAC on the bridge."""
    namespace, outside = f"vm-{port['id'][:8]}", f"tap{port['id'][:11]}"
    run("ip", "netns", "add", namespace)
    try:
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        client = Client(_Here(directory), namespace, "eth0")  # type: ignore[arg-type]
        client.ip("link", "set", "eth0", "address", port["mac_address"])
        client.ip("link", "set", "eth0", "up")
        client.inside("ethtool", "-K", "eth0", "tx", "off", check=False)
        run("ip", "link", "set", outside, "up")
        ids = (f"external_ids:iface-id={port['id']}", f'external_ids:attached-mac="{port["mac_address"]}"')
        switch.vsctl("add-port", BRIDGE, outside, "--", "set", "interface", outside, *ids)
        yield client
    finally:
        switch.vsctl("--if-exists", "del-port", outside)
        run("ip", "link", "del", outside, check=False)
        run("ip", "netns", "del", namespace, check=False)


def vm(api: Caller, agent: Agent, network: dict[str, Any]) -> dict[str, Any]:
    where = {"binding:host_id": agent.host, "device_owner": "compute:nova"}
    return api.create("port", network_id=network["id"], **where)


def test_an_instance_gets_its_address_and_keeps_it(
    api: Caller, agent: Agent, switch: OpenVSwitch, network: dict[str, Any], tmp_path: Path
) -> None:
    port = vm(api, agent, network)
    address = port["fixed_ips"][0]["ip_address"]
    with instance(switch, port, tmp_path) as client:
        wait_for_status(api, port["id"], "ACTIVE")
        assert client.udhcpc()["ip"] == address
        before = pid(agent, network)
        assert before is not None
        served = api("GET", f"/v2.0/ports?network_id={network['id']}&device_owner=network:dhcp").json()["ports"]
        wait_for_status(api, served[0]["id"], "ACTIVE")
        assert agent.end() == 0
        assert client.udhcpc()["ip"] == address, "served while the agent is away"
        agent.start()
        assert agent.look("verify").returncode == 0, agent.look("verify").stdout
        assert pid(agent, network) == before
        switch.stop_switch()
        switch.start_switch()
        until(lambda: client.udhcpc(tries=2).get("ip") == address, "served again after the switch's restart")
        assert pid(agent, network) == before


def test_a_device_that_is_deleted_by_hand_is_back(
    api: Caller, agent: Agent, switch: OpenVSwitch, network: dict[str, Any], tmp_path: Path
) -> None:
    port = vm(api, agent, network)
    with instance(switch, port, tmp_path) as client:
        wait_for_status(api, port["id"], "ACTIVE")
        lease = client.udhcpc()["ip"]
        inside = ("ip", "netns", "exec", f"qdhcp-{network['id']}", "ip")
        (device,) = (name for line in run(*inside, "-o", "link").splitlines() if (name := _device(line)) != "lo")
        run(*inside, "link", "del", device)
        until(lambda: client.udhcpc(tries=2).get("ip") == lease, "served again by a new device")


def _device(line: str) -> str:
    """The name in a line such as `2: tap1@if3: <BROADCAST,…`."""
    return line.split(":")[1].strip().partition("@")[0]


def test_the_agent_has_neutrons_names(api: Caller, agent: Agent, network: dict[str, Any]) -> None:
    until(lambda: pid(agent, network) is not None, "served")
    agents = api("GET", f"/v2.0/agents?host={agent.host}").json()["agents"]
    (dhcp,) = (a for a in agents if a["agent_type"] == "DHCP agent")
    assert (dhcp["binary"], dhcp["topic"], dhcp["alive"]) == ("neutron-dhcp-agent", "dhcp_agent", True)
    assert dhcp["configurations"]["dhcp_lease_duration"] == 86400
    assert dhcp["configurations"]["dhcp_driver"] == "neutron.agent.linux.dhcp.Dnsmasq"
    hosts = api("GET", f"/v2.0/networks/{network['id']}/dhcp-agents").json()["agents"]
    assert [a["host"] for a in hosts] == [agent.host]
