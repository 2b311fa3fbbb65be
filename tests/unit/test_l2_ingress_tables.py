"""Tables of extensions for packets to ports: every delivery passes them, and arrives where it does without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, L2Options
from neutrino.agent.l2.extension_api import Contribution, L2Extension, Unit, port_owner
from neutrino.dataplane.openflow.api import Flow
from neutrino.model import state
from neutrino.model.state import AddressPair
from tests.fakes import packet
from tests.fakes.openvswitch import FakeOpenVSwitch
from tests.fakes.packet import Packet
from tests.support.every_flow import DISTRIBUTED, OBJECTS, ROLES
from tests.support.l2 import OPEN, Cloud, Passing, mac, network, port
from tests.support.l2_extension import ExtensionHost

KINDS = ("vxlan", "vlan", "flat", "local")
SHARED = AddressPair("00:00:5e:00:01:01", "10.0.0.250")
BROADCAST = "ff:ff:ff:ff:ff:ff"


class Blocking(L2Extension):
    """Drops all packets to the ports with these ids."""

    name = "blocking"
    has_ingress_table = True

    def __init__(self, *blocked: str) -> None:
        self.blocked = blocked

    def ingress_ports(self, desired: Desired) -> tuple[str, ...]:
        return self.blocked

    def units(self, desired: Desired) -> Iterator[Unit]:
        table = desired.options.ingress_table(self.name)
        for each in desired.ports:
            if each.id in self.blocked:
                dropped = table.flow(1, f"{pipeline.REG_PORT}={each.ofport}", "drop")
                yield Unit(port_owner(each), (dropped,), lambda flow: Contribution({"br-int": [flow]}))


def net(kind: str) -> state.Network:
    return network(
        "net", kind, 0 if kind in ("flat", "local") else 205, "physnet1" if kind in ("vlan", "flat") else None
    )


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


def ports(*, hosts: int = 2) -> tuple[state.Object, ...]:
    """On the first host a port of every sort, and one on each other host."""
    return (
        OPEN,
        port("filtered", 1, groups=["open"], allowed_address_pairs=(SHARED,)),
        port("hybrid", 2, groups=["open"], hybrid_plug=True),
        port("free", 3, port_security_enabled=False),
        port("other", 4, groups=["open"], allowed_address_pairs=(SHARED,)),
        port("router", 5, device_owner="network:router_interface"),
        port("ha", 6, device_owner="network:ha_router_replicated_interface", replicated=True),
        *(port(f"far{number}", 6 + number, host=f"h{number}", groups=["open"]) for number in range(2, hosts + 1)),
    )


SENDERS = {"filtered": 1, "hybrid": 2, "free": 3, "other": 4, "router": 5, "ha": 6, "far2": 8}


def questions() -> Iterator[tuple[str, Packet]]:
    targets = [*(end(number) for number in SENDERS.values()), (mac(77), "10.0.0.77")]
    targets += [(SHARED.mac_address, SHARED.ip_address), (BROADCAST, "255.255.255.255")]
    for name, number in SENDERS.items():
        yield from ((name, packet.tcp(end(number), target, 80)) for target in targets if target[0] != mac(number))
        yield name, packet.arp_request(mac(number), f"10.0.0.{number}", "10.0.0.2")
    # A MAC behind the port without port security is learned; then it moves to the other host.
    yield "free", packet.tcp((mac(77), "10.0.0.77"), end(1), 80)
    yield from ((name, packet.tcp(end(number), targets[-3], 80)) for name, number in SENDERS.items())
    yield "ha", packet.tcp(end(6), end(1), 80)
    yield "filtered", packet.tcp(end(1), end(6), 80)


@pytest.mark.parametrize("kind", KINDS)
def test_every_packet_arrives_where_it_does_without_extensions(kind: str) -> None:
    plain, led = Cloud("h1", "h2"), Cloud("h1", "h2", extensions=(Passing(),))
    for cloud in (plain, led):
        cloud.apply(net(kind), *ports())
    for name, sent in questions():
        host = "h2" if name == "far2" else "h1"
        assert led.send(host, name, sent) == plain.send(host, name, sent), (name, sent)


@pytest.mark.parametrize("kind", KINDS)
def test_no_delivery_goes_past_the_table(kind: str) -> None:
    """Dropped there, nothing arrives at the port, and everything arrives at all others."""
    for blocked in ("filtered", "hybrid", "free", "router", "ha"):
        plain, led = Cloud("h1", "h2"), Cloud("h1", "h2", extensions=(Blocking(blocked),))
        for cloud in (plain, led):
            cloud.apply(net(kind), *ports())
        reached = False
        for name, sent in questions():
            host = "h2" if name == "far2" else "h1"
            arrived = plain.send(host, name, sent)
            reached |= blocked in arrived
            arrived.pop(blocked, None)
            assert led.send(host, name, sent) == arrived, (blocked, name, sent)
        assert reached


def test_learned_macs_move_between_ports_and_hosts() -> None:
    cloud = Cloud("h1", "h2", extensions=(Passing(),))
    free = (
        port(f"free{n}", n, host=host, port_security_enabled=False) for n, host in ((1, "h1"), (2, "h1"), (3, "h2"))
    )
    cloud.apply(net("vlan"), OPEN, *free, port("asks", 9, groups=["open"]))
    roaming, asked = (mac(77), "10.0.0.77"), packet.tcp(end(9), (mac(77), "10.0.0.77"), 80)
    for name, host in (("free1", "h1"), ("free3", "h2"), ("free2", "h1"), ("free3", "h2")):
        cloud.send(host, name, packet.tcp(roaming, end(9), 80))
        assert {*cloud.send("h1", "asks", asked)} == {name}


def test_packets_of_distributed_routers_pass() -> None:
    plain, led = (
        Cloud("h1", "h2", "h3", options=L2Options(distributed=True), extensions=e) for e in ((), (Passing(),))
    )
    for cloud in (plain, led):
        cloud.apply(*OBJECTS, *DISTRIBUTED, *ROLES)
    routed = ((mac(251), "10.9.0.1"), (mac(252), "10.9.0.1"))
    for source in routed:
        for number in (1, 2, 7, 8, 4):
            for host, gate in (("h1", "net"), ("h2", "net"), ("h1", "vlan"), ("h2", "vlan")):
                sent = packet.icmp(source, end(number))
                assert led.send(host, f"gw-{gate}-{host}", sent) == plain.send(host, f"gw-{gate}-{host}", sent)


def flows_of(cloud: Cloud) -> frozenset[Flow]:
    return cloud.hosts["h1"].switch.read_flows("br-int", 0, 0)


def added(extension: Blocking, *objects: state.Object) -> tuple[set[Flow], ...]:
    """The flows that the extension adds to and removes from the bridge, without the extensions' own tables."""
    plain, led = Cloud("h1"), Cloud("h1", extensions=(extension,))
    for cloud in (plain, led):
        cloud.apply(*objects)
    more, less = ({*flows_of(one)} - {*flows_of(other)} for one, other in ((led, plain), (plain, led)))
    return tuple({flow for flow in flows if flow.table not in pipeline.INGRESS_TABLES} for flows in (more, less))


def test_nothing_changes_for_ports_that_no_extension_names() -> None:
    assert added(Blocking(), net("vxlan"), *ports(hosts=1)) == (set(), set())
    more, less = added(Blocking("filtered"), net("vxlan"), OPEN, port("filtered", 1, groups=["open"]), port("b", 2))
    # The port's own flows, and the network's delivery of broadcasts, which now marks copies.
    assert {flow.table for flow in more} == {92, 60, 73}
    assert len([flow for flow in more if flow.table == 92]) == 7
    assert len(less) == 2


def test_an_extension_that_cannot_name_its_ports_keeps_the_last_ones() -> None:
    class Failing(Blocking):
        fails = False

        def ingress_ports(self, desired: Desired) -> tuple[str, ...]:
            if self.fails:
                raise LookupError("no ports")
            return super().ingress_ports(desired)

    failing, switch = Failing("p2"), FakeOpenVSwitch()
    host = ExtensionHost(switch.ovsdb, switch.openflow, "", [failing])
    objects: Iterable[state.Object] = (net("local"), OPEN, *(port(f"p{n}", n, groups=["open"]) for n in (1, 2)))
    host.reconcile()
    for name in ("p1", "p2"):
        host.plug(name)
    sent = packet.udp(end(1), end(2), 53)
    host.reconcile(*objects)
    assert switch.openflow.send("br-int", "tapp1", sent) == []
    failing.fails = True
    outcome = host.reconcile(*objects)
    assert (outcome.changed, outcome.faults) == (0, {"extension blocking": "blocking: LookupError: no ports"})
    assert switch.openflow.send("br-int", "tapp1", sent) == []
