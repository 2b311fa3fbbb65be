"""What a host reports of its switch, and a renamed integration bridge: from the agent to the VIF details for Nova."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.agent import Agent, wait_for_status
from tests.support.neutrino import Caller, Neutrino
from tests.support.openvswitch import OpenVSwitch

SETTINGS = {"ovs": {"integration_bridge": "br-main", "bridge_mappings": ""}}


@pytest.fixture
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as running:
        yield running


@pytest.fixture
def api(switch: OpenVSwitch) -> Iterator[Caller]:
    with Neutrino({"feed": {"run": True}}) as server, Agent(server, switch, "h1", SETTINGS):
        caller = Caller(server.url)
        yield caller
        caller.close()


def test_the_switch_and_its_renamed_bridge_reach_the_server(api: Caller, switch: OpenVSwitch) -> None:
    (agent,) = api("GET", "/v2.0/agents").json()["agents"]
    configurations = agent["configurations"]
    assert configurations["integration_bridge"] == "br-main"
    assert "netdev" in configurations["ovs_capabilities"]["datapath_types"]
    assert {"vxlan", "internal"} <= set(configurations["ovs_capabilities"]["iface_types"])
    assert "Port" in agent["resource_versions"]

    network = api.create("network", name="blue")
    port = api.create("port", network_id=network["id"], **{"binding:host_id": "h1"})
    bridge, name = port["binding:vif_details"]["bridge_name"], f"tap{port['id'][:11]}"
    assert bridge == "br-main"
    ids = f"external_ids:iface-id={port['id']}"
    switch.vsctl("add-port", bridge, name, "--", "set", "interface", name, "type=dummy", ids)  # as Nova does
    wait_for_status(api, port["id"], "ACTIVE")
    assert "br-int" not in switch.vsctl("list-br").split()
