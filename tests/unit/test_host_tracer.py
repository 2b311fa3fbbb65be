"""HostTracer on fakes: validation, entries, traces resumed after conntrack, failures, and the frame of an answer."""

# ruff: noqa: E501  # recorded lines

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.trace import tracer as module
from neutrino.agent.trace.drift import ObjectDrift
from neutrino.agent.trace.local import LocalPorts
from neutrino.agent.trace.namespaces import NamespaceWalk
from neutrino.agent.trace.netfilter.connections import LIMIT, TracedConnections, choose
from neutrino.agent.trace.tracer import BadQuestion, HostTracer
from neutrino.agent.trace.trail import MAX_DRIFT, MAX_EXITS, MAX_OBSERVATIONS, MAX_TEXT, Trail
from neutrino.dataplane.inspection.api import Route, TrackedConnection, Tuple5
from neutrino.dataplane.netlink.api import SetDevice, SetItem, SetVeth
from neutrino.dataplane.netlink.values import address as address_on
from neutrino.dataplane.netlink.values import route as route_by
from neutrino.dataplane.openflow.trace import SwitchPort
from neutrino.model.agents import PROBLEMS, AgentState
from neutrino.model.trace import Cause, HostAnswer, Packet, Point, PointKind, Question
from tests.fakes.inspection import FakeInspection
from tests.fakes.netlink import FakeNetlink
from tests.support.l2 import OPEN, Cloud, mac, network, port
from tests.support.trace_switch import snapshot

PACKET = Packet(
    eth_src=mac(1),
    eth_dst=mac(2),
    source="10.0.0.1",
    destination="10.0.0.2",
    protocol=6,
    source_port=40000,
    destination_port=80,
)
PORT = Point(kind=PointKind.PORT, port_id="p1")
TRACKED = f"""\
bridge("br-int")
----------------
72. ct_state=-trk,ip, priority 5, cookie 0x6e74726e48011b7e
    ct(table=72,zone=NXM_NX_REG6[0..15])
    drop
     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 72.

Datapath actions: ct(zone=1),recirc(0x14)

===============================================================================
recirc(0x14) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

Flow: recirc_id=0x14,ct_state=new|trk,ct_zone=1,eth,tcp,reg5=0x64,reg6=0x1,in_port=100,vlan_tci=0x0000,dl_src={mac(1)},dl_dst={mac(2)}
Datapath actions: drop
"""
DELIVERED = 'bridge("br-int")\n----------------\n92. ip, priority 90, cookie 0x6e74726e48011b7e\n    output:101\n\nDatapath actions: 3\n'


@dataclasses.dataclass
class Role:
    """A role, as far as the frame of an answer needs one."""

    position: int | None = 7
    problems: dict[str, str] = dataclasses.field(default_factory=dict)

    def applied(self) -> int | None:
        return self.position

    def describe(self) -> Iterator[AgentState]:
        yield AgentState("type", "binary", "h1", "", configurations={PROBLEMS: self.problems})


class Host:
    """Two ports on br-int: p1 is at port 2 of the datapath, p2 at 3."""

    def __init__(self) -> None:
        cloud = Cloud("h1")
        self.fake = cloud.hosts["h1"]
        objects = (network("net"), OPEN, port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]))
        desired = self.fake.apply(cloud.state_for("h1", objects))
        rendered = self.fake.renderer.render(desired)
        self.seen = ReconcilerView(snapshot(self.fake), desired, rendered.flows, self.fake.renderer.owners("br-int"))
        self.netlink = FakeNetlink()
        ports = [("br-int", "p1", 100, 2), ("br-int", "p2", 101, 3), ("br-int", "br-int", 65534, 1)]
        self.inspection = FakeInspection(tuple(SwitchPort(*each, "dummy") for each in ports))
        self.inspection.traces = {"br-int": TRACKED, "br-int 72": DELIVERED}
        self.roles: list[Any] = [Role(), Role(None), Role(5, {"p1": "no", "other": "no"})]
        self.inside: dict[str, tuple[str, str]] = {}

    async def view(self) -> ReconcilerView:
        return self.seen

    def tracer(self) -> HostTracer:
        walk = NamespaceWalk(self.netlink, self.inspection, lambda *where: "", lambda where: False)
        local = LocalPorts(self.netlink, self.inspection, self.inside.get)
        drift = ObjectDrift(lambda *where: frozenset())
        return HostTracer(self, self.inspection, local, walk, drift, self.roles)

    def ask(self, question: Question) -> HostAnswer:
        return asyncio.run(self.tracer().answer(question))


@pytest.fixture
def host() -> Host:
    return Host()


def test_a_copy_resumes_with_registers_state_and_the_first_packet(host: Host) -> None:
    found = host.ask(Question(point=PORT, packet=PACKET))
    assert [each.point for each in found.exits] == [Point(kind=PointKind.PORT, port_id="p2")]
    first, (where, resumed) = host.inspection.asked
    assert first[1].startswith("in_port=100,tcp,")
    assert where == "br-int 72"
    words = set(resumed.split(","))
    assert {"reg5=0x64", "reg6=0x1", "ct_state=new|trk", "ct_zone=1", "in_port=100", "ct_tp_dst=80"} <= words
    host.ask(Question(point=PORT, packet=msgspec.structs.replace(PACKET, reply=True)))
    words = set(host.inspection.asked[-1][1].split(","))
    assert {"ct_state=est|rpl|trk", "ct_nw_src=10.0.0.2", "ct_tp_src=80", "ct_tp_dst=40000"} <= words


def test_the_frame_of_an_answer(host: Host) -> None:
    found = host.ask(Question(point=PORT, packet=PACKET))
    assert found.position == 5
    assert found.problems == {"p1": "no"}
    assert not [each.text for each in found.observations if each.text]


def test_a_switch_that_does_not_answer_is_the_cause(host: Host) -> None:
    host.inspection.down = "the switch has closed the connection"
    found = host.ask(Question(point=PORT, packet=PACKET))
    assert [(each.cause, each.note) for each in found.exits] == [(Cause.DATAPLANE_DOWN, host.inspection.down)]


def test_a_question_has_a_time_limit(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> ReconcilerView:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(module, "SECONDS", 0.05)
    monkeypatch.setattr(host, "view", never)
    assert [each.cause for each in host.ask(Question(point=PORT, packet=PACKET)).exits] == [Cause.HOST_TIMEOUT]


def test_the_thread_of_a_question_that_timed_out_keeps_the_next_one_waiting(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer, go_on, running = host.tracer(), threading.Event(), []
    follow = tracer._follow

    def slow(*args: Any) -> Any:
        running.append(1)
        try:
            go_on.wait(10)
            assert len(running) == 1
            return follow(*args)
        finally:
            running.pop()

    async def scenario() -> list[HostAnswer]:
        monkeypatch.setattr(tracer, "_follow", slow)
        monkeypatch.setattr(module, "SECONDS", 0.05)
        late = [await tracer.answer(Question(point=PORT, packet=PACKET)) for _ in range(2)]
        assert running == [1]  # the second one has never begun
        monkeypatch.setattr(module, "SECONDS", 10.0)
        go_on.set()
        return [*late, await tracer.answer(Question(point=PORT, packet=PACKET))]

    causes = [found.exits[-1].cause for found in asyncio.run(scenario())]
    assert causes[:2] == [Cause.HOST_TIMEOUT] * 2
    assert causes[2] is not Cause.HOST_TIMEOUT


@pytest.mark.parametrize(
    "point, cause",
    [
        (Point(kind=PointKind.PORT, port_id="p9"), Cause.NO_DEVICE),
        (Point(kind=PointKind.TUNNEL, peer="192.0.2.9", network_type="vxlan", segmentation_id=1), Cause.NO_TUNNEL),
        (Point(kind=PointKind.PHYSICAL, physical_network="none"), Cause.NO_PHYSICAL_NETWORK),
    ],
)
def test_entries_that_this_host_does_not_have(host: Host, point: Point, cause: Cause) -> None:
    assert [each.cause for each in host.ask(Question(point=point, packet=PACKET)).exits] == [cause]
    assert not host.inspection.asked


BAD = {
    "packet.source": {"source": "10.0.0.1; reboot"},
    "packet.eth_dst": {"eth_dst": "fa:16:3e:00:00:02,actions=drop"},
    "packet.protocol": {"protocol": 256},
    "packet.destination_port": {"destination_port": -1},
    "packet: source and destination": {"source": "2001:db8::1"},
}


@pytest.mark.parametrize("named", BAD)
def test_an_invalid_packet_is_refused(host: Host, named: str) -> None:
    with pytest.raises(BadQuestion, match=named):
        host.ask(Question(point=PORT, packet=msgspec.structs.replace(PACKET, **BAD[named])))
    assert not host.inspection.asked


@pytest.mark.parametrize(
    "point",
    [
        Point(kind=PointKind.PORT),
        Point(kind=PointKind.TUNNEL, peer="h2", network_type="vxlan"),
        Point(kind=PointKind.TUNNEL, peer="192.0.2.2", network_type="vlan"),
        Point(kind=PointKind.PHYSICAL),
        Point(kind=PointKind.PHYSICAL, physical_network="physnet1", segmentation_id=4095),
        Point(kind=PointKind.TUNNEL, peer="192.0.2.2", network_type="gre", segmentation_id=-1),
    ],
    ids=str,
)
def test_an_invalid_point_is_refused(host: Host, point: Point) -> None:
    with pytest.raises(BadQuestion, match="point"):
        host.ask(Question(point=point, packet=PACKET))


def test_devices_of_instances(host: Host) -> None:
    system = tuple(dataclasses.replace(each, kind="system") for each in host.inspection.switch_ports)
    host.inspection.switch_ports = system
    question = Question(point=PORT, packet=PACKET)
    assert host.ask(question).exits[0].cause == Cause.NO_DEVICE
    host.netlink.add_device("", "p2", "tun")
    assert "down" in host.ask(question).exits[0].note
    host.netlink.apply("", [SetDevice("p2", up=True, mtu=1400)])
    assert host.ask(question).exits[0].point == Point(kind=PointKind.PORT, port_id="p2")
    big = Question(point=PORT, packet=msgspec.structs.replace(PACKET, size=1450))
    assert host.ask(big).exits[0].cause == Cause.PACKET_TOO_BIG


def test_a_routing_loop_ends(host: Host) -> None:
    """Two namespaces that route to each other: by TTL, or by the number of steps."""
    for one, other in (("qrouter-1", "qrouter-2"), ("qrouter-2", "qrouter-1")):
        host.netlink.create_namespace(one)
        host.netlink.create_namespace(other)
        host.inspection.routes[one, PACKET.destination] = Route(device="out")
    host.netlink.apply("qrouter-1", [SetVeth("out", "out", "qrouter-2"), SetDevice("out", up=True, mac=mac(2))])
    host.netlink.apply("qrouter-2", [SetDevice("out", up=True, mac=mac(3))])
    host.inside = {"p2": ("qrouter-1", "out")}
    for ttl in (64, 5):
        found = host.ask(Question(point=PORT, packet=msgspec.structs.replace(PACKET, ttl=ttl)))
        assert [each.cause for each in found.exits] == [Cause.TTL_EXPIRED]


def test_answers_are_bounded() -> None:
    trail = Trail(with_texts=True)
    for number in range(2 * MAX_OBSERVATIONS):
        trail.observe("openflow", "br-int", "forward", text="x" * 2 * MAX_TEXT)
        trail.drop(PACKET, Cause.OTHER, str(number))
    trail.drifted([str(number) for number in range(2 * MAX_DRIFT)])
    assert (len(trail.observations), len(trail.exits), len(trail.drift)) == (MAX_OBSERVATIONS, MAX_EXITS, MAX_DRIFT)
    assert {len(each.text) for each in trail.observations} == {MAX_TEXT}


# --- remembered connections -------------------------------------------------------------------------------------------

FIRST = Tuple5(6, "10.0.0.1", "203.0.113.1", 40000, 80)
BACK = Tuple5(6, "203.0.113.1", "203.0.113.5", 80, 40000)
MASKED = TrackedConnection(FIRST, BACK)


def test_connections_are_found_by_both_directions_and_limited() -> None:
    known = TracedConnections()
    known.remember("a", MASKED)
    assert known.find("a", FIRST) is known.find("a", BACK) is MASKED
    assert known.find("b", FIRST) is None
    for number in range(LIMIT):
        own = FIRST._replace(source_port=number)
        known.remember("a", TrackedConnection(own, own.reversed()))
    assert known.find("a", BACK) is None


def test_which_connection_counts() -> None:
    assert MASKED.source_translated
    assert not MASKED.destination_translated
    assert choose([MASKED], None, FIRST, reply=False) == (MASKED, False)
    assert choose([MASKED], None, BACK, reply=False) == (MASKED, True)
    assert choose([], MASKED, BACK, reply=True) == (MASKED, True)
    assert choose([], MASKED, FIRST, reply=False) == (None, False), "rules may have changed since"
    assert choose([], None, BACK, reply=True) == (None, True)


def test_of_connections_that_look_alike_a_reply_is_of_its_first_packets() -> None:
    """Two pings to floating IPs of one instance: their identifiers are not compared."""
    back = Tuple5(1, "10.0.0.1", "192.0.2.1")
    one, two = (TrackedConnection(Tuple5(1, "192.0.2.1", f"203.0.113.{n}"), back) for n in (1, 2))
    assert choose([one, two], None, back, reply=True) == (one, True)
    assert choose([one, two], two, back, reply=True) == (two, True)
    assert choose([one], two, back, reply=True) == (one, True)


def test_a_standby_router_is_named() -> None:
    host = Host()
    host.netlink.create_namespace("qrouter-1")
    host.netlink.add_device("qrouter-1", "qr-1")
    host.netlink.apply("qrouter-1", [SetDevice("qr-1", up=True, mac=mac(2))])
    walk = NamespaceWalk(host.netlink, host.inspection, lambda *where: "", lambda where: where == "qrouter-1")
    trail = Trail()
    at = module.AtDevice("qrouter-1", "qr-1", PACKET)
    walk.run(at, SimpleNamespace(), trail)  # type: ignore[arg-type]
    assert [each.cause for each in trail.exits] == [Cause.ROUTER_NOT_ACTIVE]


# --- links ------------------------------------------------------------------------------------------------------------


def _devices(host: Host, *names: str) -> None:
    """Devices of the kernel that are up; the ports of these names are theirs."""
    ports = host.inspection.switch_ports
    host.inspection.switch_ports = tuple(
        dataclasses.replace(each, kind="system") if each.name in names else each for each in ports
    )
    for name in names:
        host.netlink.apply("", [SetVeth(name, f"{name}-peer"), SetDevice(name, up=True, mtu=1500)])
        _set_carrier(host, name, up=True)


def _set_carrier(host: Host, name: str, *, up: bool) -> None:
    host.netlink.apply("", [SetDevice(f"{name}-peer", up=up)])


@pytest.mark.parametrize(("name", "words"), [("p1", "the instance sends nothing"), ("p2", "the instance gets nothing")])
def test_an_instance_whose_device_has_no_carrier(host: Host, name: str, words: str) -> None:
    _devices(host, "p1", "p2")
    question = Question(point=PORT, packet=PACKET)
    found = host.ask(question)
    assert found.exits[0].point == Point(kind=PointKind.PORT, port_id="p2")
    assert ("device", "p1", "input") in [(each.source, each.where, each.effect) for each in found.observations]
    _set_carrier(host, name, up=False)
    (last,) = host.ask(question).exits
    assert (last.cause, words in last.note) == (Cause.LINK_DOWN, True), last.note


def test_an_instance_sends_no_more_than_the_mtu_of_its_device(host: Host) -> None:
    _devices(host, "p1")
    big = Question(point=PORT, packet=msgspec.structs.replace(PACKET, size=1501))
    (last,) = host.ask(big).exits
    assert (last.cause, last.note) == (Cause.PACKET_TOO_BIG, "1501 bytes; device p1 takes 1500")


def _physical(host: Host, *ports: SwitchPort) -> Question:
    """A physical network on br-ex with these ports besides its own device; a question about a packet from there."""
    options = dataclasses.replace(host.seen.desired.options, bridge_mappings=(("ext", "br-ex"),))
    host.seen = dataclasses.replace(host.seen, desired=dataclasses.replace(host.seen.desired, options=options))
    own = SwitchPort("br-ex", "br-ex", 65534, 20, "internal")
    host.inspection.switch_ports += (own, SwitchPort("br-ex", "to-int", 1, None, "patch"), *ports)
    host.inspection.traces["br-ex"] = DELIVERED
    return Question(point=Point(kind=PointKind.PHYSICAL, physical_network="ext"), packet=PACKET)


def test_the_own_device_of_a_bridge_without_another_uplink_is_its_uplink(host: Host) -> None:
    """As on one machine: the host itself is what is outside."""
    question = _physical(host)
    found = host.ask(question)
    assert found.exits[0].cause is not Cause.NO_PHYSICAL_NETWORK, found.exits[0].note
    assert host.inspection.asked[0][1].startswith("in_port=65534,")
    host.inspection.traces["br-int"] = DELIVERED.replace("actions: 3", "actions: 20")
    (last,) = host.ask(Question(point=PORT, packet=PACKET)).exits
    assert last.point == Point(kind=PointKind.PHYSICAL, physical_network="ext")


def test_a_flooded_copy_for_the_bridges_own_device_is_none_where_there_is_an_uplink(host: Host) -> None:
    _physical(host, SwitchPort("br-ex", "eth1", 2, 21, "system"))
    host.inspection.traces["br-int"] = DELIVERED.replace("actions: 3", "actions: 20,21")
    (last,) = host.ask(Question(point=PORT, packet=PACKET)).exits
    assert (last.point, last.note) == (Point(kind=PointKind.PHYSICAL, physical_network="ext"), "by eth1")


def test_an_uplink_without_carrier(host: Host) -> None:
    question = _physical(host, SwitchPort("br-ex", "eth1", 2, 21, "system"))
    _devices(host, "eth1")
    host.inspection.traces["br-int"] = DELIVERED.replace("actions: 3", "actions: 21")
    outwards = Question(point=PORT, packet=PACKET)
    assert host.ask(outwards).exits[0].point is not None
    _set_carrier(host, "eth1", up=False)
    for each in (question, outwards):
        (last,) = host.ask(each).exits
        assert (last.cause, last.note) == (Cause.LINK_DOWN, "physical network ext: device eth1 has no carrier")


def test_a_next_hop_outside_that_does_not_answer(host: Host) -> None:
    """By a link that is down, its question does not leave the host: then that is the cause."""
    _physical(host, SwitchPort("br-ex", "eth1", 2, 21, "system"), SwitchPort("br-ex", "qg-1", 3, 22, "internal"))
    _devices(host, "eth1")
    host.inspection.traces |= {"br-int": DELIVERED, "br-ex": DELIVERED.replace("actions: 3", "actions: 21")}
    host.netlink.create_namespace("qrouter-1")
    for name, address in (("qr-1", mac(2)), ("qg-1", mac(3))):
        host.netlink.add_device("qrouter-1", name)
        host.netlink.apply("qrouter-1", [SetDevice(name, up=True, mac=address)])
    host.inside = {"p2": ("qrouter-1", "qr-1")}
    host.inspection.routes["qrouter-1", PACKET.destination] = Route(device="qg-1", via="203.0.113.1")
    (last,) = host.ask(Question(point=PORT, packet=PACKET)).exits
    assert last.point == Point(kind=PointKind.PHYSICAL, physical_network="ext"), "it has not been asked yet"
    host.inspection.resolved["qrouter-1", "qg-1"] = {"203.0.113.1": ""}
    (last,) = host.ask(Question(point=PORT, packet=PACKET)).exits
    assert (last.cause, last.note) == (Cause.NO_NEIGHBOUR, "qrouter-1: 203.0.113.1 does not answer on qg-1")
    _set_carrier(host, "eth1", up=False)
    (last,) = host.ask(Question(point=PORT, packet=PACKET)).exits
    assert (last.cause, last.note) == (Cause.LINK_DOWN, "physical network ext: device eth1 has no carrier")


@pytest.mark.parametrize(
    ("namespace", "named", "address", "route", "arrives"),
    [
        ("qrouter-2", "qg-2", "203.0.113.2/24", "", False),
        ("qrouter-2", "qg-2", "203.0.113.1/24", "", True),
        ("fip-1", "fg-1", "203.0.113.2/24", "203.0.113.1/32", True),
        ("fip-1", "fg-1", "203.0.113.2/24", "203.0.113.3/32", False),
    ],
)
def test_a_question_for_a_neighbour_is_answered_by_who_has_the_address(
    host: Host, namespace: str, named: str, address: str, route: str, arrives: bool
) -> None:
    """The bridge floods it to all: another router there does not forward the packet."""
    _physical(
        host,
        SwitchPort("br-ex", "eth1", 2, 21, "system"),
        SwitchPort("br-ex", "qg-1", 3, 22, "internal"),
    )
    host.inspection.traces |= {"br-int": DELIVERED, "br-ex": DELIVERED.replace("actions: 3", "actions: 2,21")}
    for where, name, number in (("qrouter-1", "qr-1", 2), ("qrouter-1", "qg-1", 3), (namespace, named, 4)):
        host.netlink.create_namespace(where)
        host.netlink.add_device(where, name)
        host.netlink.apply(where, [SetDevice(name, up=True, mac=mac(number))])
    host.netlink.apply(namespace, [SetItem(address_on(named, address))])
    if route:
        host.netlink.add_device(namespace, "fpr-1")
        host.netlink.apply(namespace, [SetDevice("fpr-1", up=True), SetItem(route_by(route, "fpr-1"))])
    host.inside = {"p2": ("qrouter-1", "qr-1"), "p1": (namespace, named)}
    host.inspection.routes["qrouter-1", PACKET.destination] = Route(device="qg-1", via="203.0.113.1")
    host.inspection.routes[namespace, PACKET.destination] = Route(device="lo", local=True)
    consumed = [
        each for each in host.ask(Question(point=PORT, packet=PACKET)).exits if each.note.startswith("received")
    ]
    assert bool(consumed) == arrives


@pytest.mark.parametrize("on_bridge", [False, True], ids=["a device", "a bridge of the switch"])
def test_the_underlay_without_carrier(host: Host, on_bridge: bool) -> None:
    peer = "192.0.2.9"
    tunnel = SwitchPort("br-tun", "vxlan-9", 5, 30, "vxlan", {"remote_ip": peer})
    uplink = SwitchPort("br-underlay", "eth0", 1, 31, "system")
    host.inspection.switch_ports += (tunnel, uplink)
    _devices(host, "eth0")
    host.netlink.add_device("", "br-underlay", "openvswitch")
    host.netlink.apply("", [SetDevice("br-underlay", up=True)])
    host.inspection.routes["", peer] = Route(device="br-underlay" if on_bridge else "eth0")
    host.inspection.traces |= {"br-tun": DELIVERED}
    actions = f"actions: set(tunnel(tun_id=0x64,dst={peer})),30"
    host.inspection.traces["br-int"] = DELIVERED.replace("actions: 3", actions)
    come = Point(kind=PointKind.TUNNEL, peer=peer, network_type="vxlan", segmentation_id=100)
    for point in (PORT, come):
        assert host.ask(Question(point=point, packet=PACKET)).exits[0].cause is not Cause.LINK_DOWN
    _set_carrier(host, "eth0", up=False)
    for point in (PORT, come):
        (last,) = host.ask(Question(point=point, packet=PACKET)).exits
        assert (last.cause, "eth0 has no carrier" in last.note) == (Cause.LINK_DOWN, True), last.note


LOCAL_IP = "10.0.0.200"


def _translated(host: Host, *, simulated: bool) -> HostAnswer:
    """A packet to a local IP that conntrack leads to p2; `simulated`: the trace has the new destination already."""
    target = "10.0.0.2" if simulated else LOCAL_IP
    nat = TRACKED.replace("zone=NXM_NX_REG6[0..15])", "zone=7,nat(dst=10.0.0.2))").replace("ct_zone=1", "ct_zone=7")
    host.inspection.traces = {"br-int": nat.replace("tcp,reg5", f"tcp,nw_dst={target},reg5"), "br-int 72": DELIVERED}
    found = host.tracer()
    there = asyncio.run(
        found.answer(Question(point=PORT, packet=msgspec.structs.replace(PACKET, destination=LOCAL_IP)))
    )
    assert there.exits[0].packet.destination == "10.0.0.2"
    host.inspection.traces["br-int"] = TRACKED.replace("zone=NXM_NX_REG6[0..15])", "zone=7,nat)").replace(
        "ct_zone=1", "ct_zone=7"
    )
    reply = msgspec.structs.replace(
        PACKET, source="10.0.0.2", destination="10.0.0.1", source_port=80, destination_port=40000, reply=True
    )
    return asyncio.run(found.answer(Question(point=PORT, packet=reply)))


@pytest.mark.parametrize("simulated", [False, True])
def test_a_reply_from_behind_a_local_ip_has_its_address_again(host: Host, simulated: bool) -> None:
    """Traces of some releases of Open vSwitch show the translated destination, those of others do not."""
    assert _translated(host, simulated=simulated).exits[0].packet.source == LOCAL_IP
