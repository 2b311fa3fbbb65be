"""A lab host whose switch is as Neutron's agent leaves it, with instances on it and on another host, and its conversion.

Of each network, one of VXLAN and one of VLAN, there is an instance on either host. `leave_neutron` replaces what our agent
has made on the first host by what Neutron's would have (`neutron_switch.py`), and beside it a rule that the server does
not have.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from neutrino.agent.takeover.control import UNREACHABLE
from neutrino.agent.takeover.phase import directory
from neutrino.dataplane.openflow.api import Flow, parse_flow
from neutrino.dataplane.ovsdb.api import NO_CONTROLLER
from neutrino.lab.errors import wait_until
from neutrino.lab.lab import NEUTRINO
from neutrino.model.objects import Object
from tests.support import neutron_switch
from tests.support.commands import Done, run_neutrino
from tests.support.lab import PING_INTERVAL, Pinging
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    SOON,
    Attempt,
    Conversation,
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
    wait_to_fall_silent,
)
from tests.support.neutron_switch import CONTROLLER, COOKIE, NeutronNetwork, NeutronPort

HOST = "h1"
OTHER_HOST = "h2"
BRIDGES = ("br-int", "br-tun", "br-provider")
TUNNEL = "vxlan-otherwise"
UNSYNCED = "the server has not sent its objects yet"  # a conversion is refused
WEB = 80
MEMBERS = 81  # let in from the instances on the other host, by a remote group
SSH = 22  # let in by Neutron's flows, and by no rule of the server
TAGGED = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}


@dataclass(frozen=True)
class Place:
    """Of each network one guest on the host, and one on another."""

    lab: Lab
    near: tuple[Guest, Guest]
    far: tuple[Guest, Guest]
    members: str  # the security group of those on the other host
    say: Callable[[str], object]  # for figures

    @property
    def pairs(self) -> list[tuple[Guest, Guest]]:
        return [pair for near, far in zip(self.near, self.far, strict=True) for pair in ((near, far), (far, near))]

    def inwards(self, port: int) -> list[Attempt]:
        """To the instances on the host."""
        return [Attempt(far, near, port) for near, far in zip(self.near, self.far, strict=True)]

    def vsctl(self, *arguments: str) -> str:
        return self.lab.run(HOST, ["ovs-vsctl", *arguments]).stdout.strip()

    def number(self, name: str) -> int:
        return int(self.vsctl("get", "interface", name, "ofport"))

    def tags(self) -> list[str]:
        return [self.vsctl("get", "port", near.vm.switch_device, "tag") for near in self.near]

    def controllers(self) -> set[str]:
        return {self.vsctl("get-controller", bridge) for bridge in BRIDGES}

    def set_controllers(self, target: str) -> None:
        commands = [
            ("--", "set", "bridge", bridge, "other_config:disable-in-band=true", "--", "set-controller", bridge, target)
            for bridge in BRIDGES
        ]
        self.vsctl(*(word for command in commands for word in command))

    def of_neutron(self) -> list[Flow]:
        """The flows of Neutron, without those that the switch has learned."""
        lines = (line for bridge in BRIDGES for line in flows(self.lab, HOST, bridge).splitlines() if "cookie" in line)
        return sorted(flow for flow in map(parse_flow, lines) if flow.cookie == COOKIE and not flow.hard_timeout)

    def takeover(self, *options: str) -> Done:
        """`neutrino takeover host` on the host."""
        files = self.lab.agent_command(HOST)[len(NEUTRINO) + 1 :]
        environment = self.lab.processes.environment()
        argv = ["takeover", "host", *options, *files]
        return run_neutrino(argv, environment=environment, inside=self.lab.holder(HOST))


def make_place(lab: Lab, say: Callable[[str], object] = str) -> Place:
    members, _ = make_group(lab, "members", allow("icmp"), allow("tcp", WEB))
    rules = allow("icmp"), allow("tcp", WEB), allow("tcp", MEMBERS, remote_group_id=members)
    group, _ = make_group(lab, "taken over", *rules)
    nets = make_network(lab, "overlay"), make_network(lab, "tagged", **TAGGED)
    groups = {HOST: group, OTHER_HOST: members}
    specs = [Spec(f"{net['name']}-{host}", net, host, [groups[host]]) for host in groups for net in nets]
    first, second, third, fourth = make_guests(lab, *specs)
    return Place(lab, (first, second), (third, fourth), members, say)


def leave_neutron(place: Place) -> None:
    """Make the host's switch as Neutron's agent leaves it, never converted. Our agent must not run."""
    shutil.rmtree(directory(place.lab.paths.host(HOST)), ignore_errors=True)
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
    place.set_controllers(CONTROLLER)
    ports, networks = [], []
    for near, far in zip(place.near, place.far, strict=True):
        device = near.vm.switch_device
        tag, port = int(place.vsctl("get", "port", device, "tag")), near.port
        number = int(ofport(place.lab, HOST, near.port_id))
        tcp = None if near.vm.hybrid else (WEB, SSH, MEMBERS)
        ports.append(NeutronPort(number, tag, near.mac, near.addresses[4], tcp))
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
        place.lab.run(HOST, command, text="delete\n" + neutron_switch.as_lines(lines))


@contextlib.contextmanager
def traffic(place: Place, interval: float = PING_INTERVAL) -> Iterator[tuple[list[Conversation], list[Pinging]]]:
    """Connections and pings of all pairs, in both directions."""
    with contextlib.ExitStack() as stack:
        talks = connections(stack, [Attempt(*pair) for pair in place.pairs])
        pings = [
            stack.enter_context(Pinging(place.lab, source.name, target.addresses[4], interval))
            for source, target in place.pairs
        ]
        yield talks, pings


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


def convert(place: Place) -> str:
    """`neutrino takeover host`, as soon as the held agent has everything from the server; what it has printed."""
    done: list[Done] = []

    def is_answered() -> bool:
        done.append(place.takeover())
        return done[-1].status != UNREACHABLE and UNSYNCED not in done[-1].error

    wait_until(is_answered, SOON, "the agent has nothing from the server")
    return _succeeded(place, done[-1])


def give_back(place: Place) -> str:
    return _succeeded(place, place.takeover("--back"))


def _succeeded(place: Place, done: Done) -> str:
    place.say(done.out + done.error)
    assert done.status == 0, done
    return done.out


def convert_and_back(place: Place, interval: float = PING_INTERVAL) -> str:
    """The host's switch left as Neutron's, converted, given back and converted again, all under traffic: nothing is lost,
    and a rule that Neutron's flows have beyond the server's is closed, open and closed. What the first conversion has said.
    """
    lab, ssh = place.lab, place.inwards(SSH)
    lab.stop_agent(HOST)
    leave_neutron(place)
    left, numbers = place.of_neutron(), (place.number(TUNNEL), place.tags())
    assert connecting(ssh) == {*ssh}
    lab.start_agent(HOST, wait=False)
    with traffic(place, interval) as (talks, pings), contextlib.ExitStack() as stack:
        ending = connections(stack, ssh)
        said = convert(place)
        assert not place.of_neutron()
        assert (place.number(TUNNEL), place.tags(), place.controllers()) == (*numbers, {NO_CONTROLLER})
        assert all(talk.talks() for talk in talks)
        wait_to_fall_silent(*ending)
        assert connecting(ssh) == set(), "no rule lets it in"
        [since] = make_guests(lab, _like(place, place.near[0], "since"))
        to_new = Attempt(place.far[0], since, WEB)
        assert connecting([to_new]) == {to_new}

        give_back(place)
        assert connecting([to_new]) == set(), "no flow of Neutron filters it"
        assert place.of_neutron() == left
        assert all(talk.talks() for talk in talks)
        assert connecting(ssh) == {*ssh}, "Neutron's flow lets it in"

        convert(place)
        assert all(talk.talks() for talk in talks)
        assert connecting([to_new]) == {to_new}
    assert_none_lost(place, pings)
    lab.delete_vm(since.name)
    return said


def _like(place: Place, guest: Guest, name: str) -> Spec:
    """An instance on the same host and network, with the same security groups."""
    port: Object = place.lab.api.show("port", guest.port_id)
    return Spec(name, {"id": port["network_id"]}, HOST, port["security_groups"])


def assert_none_lost(place: Place, pings: list[Pinging]) -> None:
    text = ", ".join(f"{ping.lost} of {ping.sent}" for ping in pings) + " pings lost"
    text += "".join(f"\n{ping}" for ping in pings if ping.lost)
    place.say(text)
    assert [ping.lost for ping in pings] == [0] * len(pings), text
