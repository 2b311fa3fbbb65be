"""Real packets through a real switch with its own connection tracker: what security groups let pass, and when no more."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.model import state
from tests.support.l2 import OUT, Cloud, FakeHost, group, mac, network, port, rule
from tests.support.openvswitch import OpenVSwitch

UDP, TCP = 17, 6
CLIENT, SERVER, OTHER = 1, 2, 3


class RealHost:
    """A host of the fake dataplane whose flows, and packets, are on a real switch."""

    def __init__(self, switch: OpenVSwitch) -> None:
        self.switch = switch
        self.cloud = Cloud("h1")
        self.host: FakeHost = self.cloud.hosts["h1"]
        self.openflow = OvsOfctl(switch.run_directory)

    def apply(self, *objects: state.Object) -> None:
        desired = self.host.apply(self.cloud.state_for("h1", objects))
        have = set(self.switch.vsctl("list-br").split())
        for bridge in self.host.switch.bridges.values():
            if bridge.name not in have:
                add = (
                    "add-br",
                    bridge.name,
                    "--",
                    "set",
                    "bridge",
                    bridge.name,
                    "datapath_type=dummy",
                    "fail_mode=secure",
                )
                self.switch.vsctl(*add)
            for entry in bridge.ports.values():
                kind = ["type=patch", f"options:peer={entry.peer[1]}"] if entry.peer else ["type=dummy"]
                wanted = (f"ofport_request={entry.number}", *kind)
                add = ("--may-exist", "add-port", bridge.name, entry.name, "--", "set", "interface", entry.name)
                self.switch.vsctl(*add, *wanted)
        for plan in self.host.plans(desired, self.openflow):
            changed = {number: new for number, (_, new) in plan.meters.change.items()}
            if plan.meters:
                self.openflow.apply_meters(
                    plan.bridge, add=plan.meters.add, change=changed, delete=list(plan.meters.remove)
                )
            self.openflow.apply_flows(plan.bridge, add=plan.set, delete=plan.delete)
        assert not any(self.host.plans(desired, self.openflow))
        self.switch.appctl("revalidator/wait")  # the datapath still holds decisions that older flows made

    def passes(self, source: int, target: int, protocol: int, ports: tuple[int, int], address: str = "") -> bool:
        """Whether a packet from port number `source` leaves at port number `target`."""
        before = self._sent(target)
        destination = mac(target) if not address else "ff:ff:ff:ff:ff:ff"
        transport = f"udp(src={ports[0]},dst={ports[1]})"
        if protocol == TCP:
            transport = f"tcp(src={ports[0]},dst={ports[1]}),tcp_flags(ack)"
        to = address or f"10.0.0.{target}"
        flow = (
            f"in_port(1),eth(src={mac(source)},dst={destination}),eth_type(0x0800),"
            f"ipv4(src=10.0.0.{source},dst={to},proto={protocol},tos=0,ttl=64,frag=no),{transport}"
        )
        self.switch.appctl("netdev-dummy/receive", f"p{source}", flow)
        return self._comes(target, before)

    def _comes(self, target: int, before: int) -> bool:
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            if self._sent(target) > before:
                return True
            time.sleep(0.02)
        return False

    def _sent(self, number: int) -> int:
        ofport = self.host.ofports[f"p{number}"]
        output = self.switch.call(
            "ovs-ofctl", "dump-ports", f"unix:{self.switch.run_directory}/br-int.mgmt", str(ofport)
        )
        return int(re.findall(r"tx pkts=(\d+)", output)[0])


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.fixture
def host(switch) -> Iterator[RealHost]:
    made = RealHost(switch)
    yield made
    switch.appctl("dpctl/flush-conntrack")
    for bridge in switch.vsctl("list-br").split():
        switch.vsctl("del-br", bridge)


NET = network("net")
CLIENTS = [port(f"p{n}", n, groups=["out"]) for n in (CLIENT, OTHER)]
WEB = group("web", rule(protocol=UDP, port_min=9, port_max=9), rule(protocol=TCP, port_min=80, port_max=80))


@pytest.mark.parametrize("protocol, number", [(UDP, 9), (TCP, 80)])
def test_a_connection_lives_and_dies_with_its_rule(host, protocol, number):
    server = port("p2", SERVER, groups=["web"])
    there, back = (4000, number), (number, 4000)
    host.apply(NET, OUT, WEB, *CLIENTS, server)
    assert not host.passes(SERVER, CLIENT, protocol, back)
    assert host.passes(CLIENT, SERVER, protocol, there)
    assert host.passes(SERVER, CLIENT, protocol, back)
    assert host.passes(CLIENT, SERVER, protocol, there)
    assert not host.passes(CLIENT, SERVER, protocol, (4001, number + 1))

    host.apply(NET, OUT, group("web"), *CLIENTS, server)
    assert not host.passes(CLIENT, SERVER, protocol, there)
    assert not host.passes(SERVER, CLIENT, protocol, back)

    host.apply(NET, OUT, WEB, *CLIENTS, server)
    assert host.passes(CLIENT, SERVER, protocol, there)
    assert host.passes(SERVER, CLIENT, protocol, back)


def test_a_remote_group(host):
    friends = state.GroupMembers(id="friends", members=frozenset({state.Member("10.0.0.1", mac(1))}))
    web = group("web", rule(protocol=UDP, port_min=9, port_max=10, remote_group_id="friends"))
    host.apply(NET, OUT, web, friends, *CLIENTS, port("p2", SERVER, groups=["web"]))
    assert host.passes(CLIENT, SERVER, UDP, (4000, 9))
    assert host.passes(CLIENT, SERVER, UDP, (4000, 10))
    assert not host.passes(CLIENT, SERVER, UDP, (4000, 11))
    assert not host.passes(OTHER, SERVER, UDP, (4000, 9))


def test_broadcasts_meet_the_firewall_of_every_port(host):
    host.apply(NET, OUT, WEB, *CLIENTS, port("p2", SERVER, groups=["web"]))
    assert host.passes(CLIENT, SERVER, UDP, (4000, 9), "10.0.0.255")
    assert not host.passes(CLIENT, SERVER, UDP, (4000, 10), "10.0.0.255")
    assert not host.passes(CLIENT, OTHER, UDP, (4000, 9), "10.0.0.255")


def test_a_stateful_client_of_a_stateless_server(host):
    free = group("free", rule(protocol=UDP), rule("egress", protocol=UDP), stateful=False)
    host.apply(NET, OUT, free, *CLIENTS, port("p2", SERVER, groups=["free"]))
    assert not host.passes(SERVER, CLIENT, UDP, (9, 4000))
    assert host.passes(CLIENT, SERVER, UDP, (4000, 9))
    assert host.passes(SERVER, CLIENT, UDP, (9, 4000))
    assert not host.passes(SERVER, OTHER, UDP, (9, 4000))
    assert host.openflow.read_flows("br-int", COOKIE, COOKIE_MASK)
