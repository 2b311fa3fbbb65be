"""A switch that Neutron's agent has wired is taken over while instances talk; then a Neutron agent is started there."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from neutrino.dataplane.ovsdb.api import NO_CONTROLLER
from neutrino.lab.errors import wait_until
from neutrino.model.agents import NEUTRON_AGENT
from neutrino.model.objects import Object
from tests.support import neutron_switch
from tests.support.lab import Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    SOON,
    Attempt,
    Guest,
    Spec,
    allow,
    connecting,
    connections,
    flows,
    make_group,
    make_guests,
    make_network,
    ofport,
)
from tests.support.neutron_switch import CONTROLLER, COOKIE, NeutronNetwork, NeutronPort

HOST = "h1"
BRIDGES = ("br-int", "br-tun", "br-provider")
TUNNEL = "vxlan-otherwise"
SSH = 22  # let in by Neutron's flows, and by no rule of the server


@dataclass(frozen=True)
class Place:
    """Of each network one guest on the host, and one on another."""

    lab: Lab
    near: tuple[Guest, Guest]
    far: tuple[Guest, Guest]

    @property
    def pairs(self) -> list[tuple[Guest, Guest]]:
        return [pair for near, far in zip(self.near, self.far, strict=True) for pair in ((near, far), (far, near))]

    def vsctl(self, *arguments: str) -> str:
        return self.lab.run(HOST, ["ovs-vsctl", *arguments]).stdout.strip()

    def number(self, name: str) -> int:
        return int(self.vsctl("get", "interface", name, "ofport"))

    def controllers(self) -> set[str]:
        return {self.vsctl("get-controller", bridge) for bridge in BRIDGES}

    def set_controllers(self, target: str) -> None:
        commands = [
            ("--", "set", "bridge", bridge, "other_config:disable-in-band=true", "--", "set-controller", bridge, target)
            for bridge in BRIDGES
        ]
        self.vsctl(*(word for command in commands for word in command))

    def of_neutron(self) -> list[str]:
        return [
            line for bridge in BRIDGES for line in flows(self.lab, HOST, bridge).splitlines() if hex(COOKIE) in line
        ]


@pytest.fixture(scope="module")
def place(lab: Lab) -> Place:
    group, _ = make_group(lab, "taken over", allow("icmp"), allow("tcp", 80))
    provider = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    nets = make_network(lab, "overlay"), make_network(lab, "tagged", **provider)
    hosts = (HOST, "h2")
    specs = [Spec(f"{net['name']}-{host}", net, host, [group]) for host in hosts for net in nets]
    first, second, third, fourth = make_guests(lab, *specs)
    return Place(lab, (first, second), (third, fourth))


def leave_neutron(place: Place) -> None:
    """Make the host's switch as Neutron's agent leaves it."""
    marked = [("bridge", bridge) for bridge in BRIDGES] + [("interface", name) for name in ("patch-tun", "patch-int")]
    marks = [("--", "remove", *row, "external_ids", "neutrino") for row in marked]
    options = place.lab.run(
        HOST, ["ovs-vsctl", "--columns=options,name", "--format=csv", "find", "interface", "type=vxlan"]
    )
    remote, old = re.findall(r"remote_ip=\"\"([^\"]+).*,(vxlan-\w+)", options.stdout)[0]
    local = re.findall(r"local_ip=\"\"([^\"]+)", options.stdout)[0]
    place.vsctl(*(word for mark in marks for word in mark), "--", "del-port", old)
    settings = {"remote_ip": remote, "local_ip": local, "in_key": "flow", "out_key": "flow", "egress_pkt_mark": "0"}
    words = [f"options:{key}={value}" for key, value in settings.items()]
    place.vsctl("add-port", "br-tun", TUNNEL, "--", "set", "interface", TUNNEL, "type=vxlan", *words)
    place.set_controllers(CONTROLLER)  # the first one: the switch deletes all flows
    ports, networks = [], []
    for near, far in zip(place.near, place.far, strict=True):
        device = f"tap{near.port_id[:11]}"
        tag, port = int(place.vsctl("get", "port", device, "tag")), near.port
        ports.append(
            NeutronPort(int(ofport(place.lab, HOST, near.port_id)), tag, near.mac, near.addresses[4], (80, SSH))
        )
        network: Object = place.lab.api.show("network", port["network_id"])
        is_tunnel = network["provider:network_type"] == "vxlan"
        networks.append(NeutronNetwork(tag, network["provider:segmentation_id"], [far.mac], is_tunnel))
        place.vsctl(*neutron_switch.qos(device)[1:])
    numbers = {name: place.number(name) for name in ("int-br-provider", "phy-br-provider", "patch-int", TUNNEL)}
    for bridge, lines in {
        "br-int": neutron_switch.integration(ports, networks, numbers["int-br-provider"]),
        "br-tun": neutron_switch.tunnels(networks, numbers["patch-int"], numbers[TUNNEL]),
        "br-provider": neutron_switch.physical(networks, numbers["phy-br-provider"]),
    }.items():
        command = ["ovs-ofctl", "-O", "OpenFlow14", "--bundle", "add-flows", bridge, "-"]
        place.lab.run(HOST, command, text=neutron_switch.as_lines(lines))


@contextlib.contextmanager
def neutron_agent(place: Place) -> Iterator[None]:
    """What an agent of Neutron does at its start, up to its first flows."""
    with place.lab.inside(HOST, lambda: socket.create_server(("127.0.0.1", 6633))):
        place.set_controllers(CONTROLLER)
        late = f"cookie={COOKIE:#x},priority=200,reg3=0,actions=set_queue:0,load:0x1->NXM_NX_REG3[0],resubmit(,0)"
        place.lab.run(HOST, ["ovs-ofctl", "-O", "OpenFlow14", "add-flow", "br-int", late])
        yield


def problems(lab: Lab) -> dict[str, str]:
    (agent,) = [agent for agent in lab.api.list("agent", host=HOST) if agent["agent_type"] == "Open vSwitch agent"]
    found: dict[str, str] = agent["configurations"].get("problems", {})
    return found


def test_no_packet_is_lost(place: Place) -> None:
    lab = place.lab
    lab.stop_agent(HOST)
    leave_neutron(place)
    ssh = [Attempt(place.far[0], place.near[0], SSH)]
    assert connecting(ssh) == {*ssh}
    numbers = (
        place.number(TUNNEL),
        [place.vsctl("get", "port", f"tap{near.port_id[:11]}", "tag") for near in place.near],
    )
    with contextlib.ExitStack() as stack:
        talks = connections(stack, [Attempt(*pair) for pair in place.pairs])
        pings = [stack.enter_context(Pinging(lab, source.name, target.addresses[4])) for source, target in place.pairs]
        lab.start_agent(HOST, {"agent": {"start_despite": "foreign_flows", "check_interval": "1"}})
        wait_until(lambda: not place.of_neutron(), SOON, "flows of Neutron are left")
        assert all(talk.talks() for talk in talks)
        assert connecting(ssh) == set(), "no rule lets it in"
        tags = [place.vsctl("get", "port", f"tap{near.port_id[:11]}", "tag") for near in place.near]
        assert (place.number(TUNNEL), tags) == numbers
        assert place.controllers() == {NO_CONTROLLER}
        assert "_type" not in place.vsctl("list", "qos"), "a QoS row of Neutron"
        assert "queue-num" not in place.vsctl("list", "queue")
        assert place.vsctl("get", "interface", f"tap{place.near[0].port_id[:11]}", "ingress_policing_rate") == "0"

        with neutron_agent(place):
            wait_until(lambda: NEUTRON_AGENT in problems(lab), SOON, "the agent of Neutron is not named")
            wait_until(lambda: not place.of_neutron(), SOON, "flows of Neutron are left")
            assert place.controllers() == {NO_CONTROLLER}
        wait_until(lambda: NEUTRON_AGENT not in problems(lab), SOON, "the agent of Neutron is named when it has ended")
        assert all(talk.talks() for talk in talks)
    assert [ping.lost for ping in pings] == [0] * len(pings)
    lab.stop_agent(HOST)
    lab.start_agent(HOST, {})
    assert lab.run(HOST, [*lab.agent_command(HOST, "verify")]).returncode == 0
