"""Traces through a real Open vSwitch: they end where a fake switch, and real packets, say; drops have their cause."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK, LEARNED_COOKIE, flow
from neutrino.dataplane.openflow.real import OvsOfctl
from neutrino.model.trace import Cause, HostAnswer, Point, PointKind, Question
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.functional.test_dataplane_openflow import ARRIVING, QUESTIONS, asked, end, end6, wired
from tests.functional.test_l2_firewall_groups import HERE, OTHER, GroupHost
from tests.support.every_flow import OBJECTS
from tests.support.firewall import TCP, group, rule
from tests.support.l2 import Cloud, Passing, mac
from tests.support.openvswitch import OpenVSwitch
from tests.support.trace_host import show
from tests.support.trace_switch import TracedHost, model_packet

IP = (0x0800, 0x86DD)


@pytest.fixture(scope="module")
def switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.fixture(scope="module", params=[(), (Passing(),)], ids=["built-in", "extension tables"])
def cloud(switch: OpenVSwitch, request: pytest.FixtureRequest) -> Iterator[Cloud]:
    made = Cloud("h1", "h2", "h3", extensions=request.param)
    made.apply(*OBJECTS)
    host = made.hosts["h1"]
    wired(switch, host)
    real = OvsOfctl(switch.run_directory)
    for bridge_plan in host.plans(host.desired, real):  # type: ignore[arg-type]
        real.apply_flows(bridge_plan.bridge, add=bridge_plan.set, delete=bridge_plan.delete)
    yield made
    for bridge in host.switch.bridges:
        switch.vsctl("del-br", bridge)


@pytest.fixture
def traced(cloud: Cloud, switch: OpenVSwitch) -> TracedHost:
    host = cloud.hosts["h1"]
    host.switch.conntrack.flush()
    for bridge in host.switch.bridges.values():
        bridge.macs.clear()
        learned = host.switch.read_flows(bridge.name, LEARNED_COOKIE, COOKIE_MASK)
        host.switch.apply_flows(bridge.name, add=[], delete=learned)
    return TracedHost(host, switch)


def ask(traced: TracedHost, entry: str, sent: Packet, **values: object) -> HostAnswer:
    point = Point(kind=PointKind.PORT, port_id=entry)
    return asyncio.run(traced.tracer().answer(Question(point=point, packet=model_packet(sent, **values), flows=True)))


def is_plain(sent: Packet) -> bool:
    """What a question can describe: IP, without neighbour discovery and without a tag from an instance."""
    return sent.fields["dl_type"] in IP and "nd_target" not in sent.fields and sent.vlan is None


@pytest.mark.parametrize(
    "bridge, entry, sent",
    [*(("br-int", *question) for question in QUESTIONS if is_plain(question[1])), *ARRIVING],
    ids=asked,
)
def test_a_trace_ends_where_the_fake_switch_delivers(traced: TracedHost, bridge: str, entry: str, sent: Packet) -> None:
    expected = {left.port for left in traced.host.switch.send(bridge, entry, sent)}
    found, trail = traced.leaves(bridge, entry, sent)
    assert found == expected, trail
    assert not trail.drift, "nothing has drifted"
    if not expected:
        assert [each.cause for each in trail.exits] not in ([Cause.NONE], [])


@pytest.mark.parametrize(
    "entry, sent, cause",
    [
        ("p1", packet.tcp((mac(9), "10.0.0.1"), end(3), 80), Cause.ADDRESS_SPOOFED),
        ("p1", packet.tcp((mac(1), "10.0.0.9"), end(3), 80), Cause.ADDRESS_SPOOFED),
        ("p1", packet.tcp((mac(1), "2001:db8::9"), end6(3), 80), Cause.ADDRESS_SPOOFED),
        (
            "p1",
            packet.udp(end(1), ("ff:ff:ff:ff:ff:ff", "255.255.255.255"), 68, source_port=67),
            Cause.DHCP_SERVER_GUARD,
        ),
        ("p1", packet.icmp((mac(1), "fe80::1"), ("33:33:00:00:00:01", "ff02::1"), 134), Cause.RA_GUARD),
        ("p1", packet.tcp(end(1), end(2), 22), Cause.SECURITY_GROUP_INGRESS),
        ("p1", packet.tcp(end6(1), end6(3), 22), Cause.SECURITY_GROUP_INGRESS),
        ("p2", packet.tcp(end(2), end(6), 22), Cause.PORT_ADMIN_DOWN),
        ("p6", packet.tcp(end(6), end(1), 80), Cause.PORT_ADMIN_DOWN),
        ("p10", packet.tcp(end(10), end(1), 80), Cause.SECURITY_GROUP_EGRESS),
        ("p99", packet.tcp(end(1), end(2), 80), Cause.NO_DEVICE),
    ],
    ids=str,
)
def test_a_drop_has_its_cause(traced: TracedHost, entry: str, sent: Packet, cause: Cause) -> None:
    found = ask(traced, entry, sent)
    assert [each.cause for each in found.exits if each.point is None] == [cause], show(found)


def test_replies_pass_where_a_first_packet_does_not(traced: TracedHost) -> None:
    back = packet.tcp(end(2), end(1), 40000, source_port=80)
    assert ask(traced, "p2", back).exits[0].cause == Cause.SECURITY_GROUP_INGRESS
    assert ask(traced, "p2", back, reply=True).exits[0].point == Point(kind=PointKind.PORT, port_id="p1")


def test_texts_are_given_only_if_asked_for(traced: TracedHost) -> None:
    point = Point(kind=PointKind.PORT, port_id="p1")
    asked_for = Question(point=point, packet=model_packet(packet.tcp(end(1), end(2), 80)))
    found = asyncio.run(traced.tracer().answer(asked_for))
    assert found.observations
    assert not [each.text for each in found.observations if each.text]
    assert all(each.note for each in found.observations if each.source == "openflow")


def test_a_flow_that_is_deleted_by_hand_is_the_cause(traced: TracedHost) -> None:
    sent = packet.tcp(end(1), end(2), 80)
    assert ask(traced, "p1", sent).exits[0].point is not None
    number = traced.host.ofports["p1"]
    gone = [
        each
        for each in traced.openflow.read_flows("br-int", COOKIE, COOKIE_MASK)
        if each.table == 25 and f"in_port={number}" in each.match
    ]
    traced.openflow.apply_flows("br-int", add=(), delete=gone)
    try:
        found = ask(traced, "p1", sent)
        assert [each.cause for each in found.exits] == [Cause.DRIFT], show(found)
        assert [line for line in found.drift if line.startswith("br-int + ") and "table=25" in line], found.drift
    finally:
        traced.openflow.apply_flows("br-int", add=gone, delete=())


def test_a_flow_that_is_added_by_hand_is_the_cause(traced: TracedHost) -> None:
    added = flow(72, 65535, "tcp,tp_dst=80", "drop", cookie=0x1234)
    traced.openflow.apply_flows("br-int", add=[added], delete=())
    try:
        found = ask(traced, "p1", packet.tcp(end(1), end(2), 80))
        assert [each.cause for each in found.exits] == [Cause.DRIFT], show(found)
        assert any("cookie=0x1234" in line for line in found.drift), found.drift
    finally:
        traced.openflow.apply_flows("br-int", add=(), delete=[added])


def test_a_changed_action_is_reported(traced: TracedHost) -> None:
    number = traced.host.ofports["p1"]
    flows = traced.openflow.read_flows("br-int", COOKIE, COOKIE_MASK)
    (entry,) = (each for each in flows if each.table == 60 and each.match == f"in_port={number}")
    traced.openflow.apply_flows("br-int", add=[entry._replace(actions="drop")], delete=())
    try:
        found = ask(traced, "p1", packet.tcp(end(1), end(2), 80))
        assert found.exits[0].cause in (Cause.DRIFT, Cause.NO_SUCH_ADDRESS)
        assert any(line.startswith("br-int ~ ") and "table=60" in line for line in found.drift), found.drift
    finally:
        traced.openflow.apply_flows("br-int", add=[entry], delete=())


# --- firewall groups, with real packets ---


@pytest.fixture(scope="module")
def other_switch() -> Iterator[OpenVSwitch]:
    with OpenVSwitch() as server:
        yield server


@pytest.mark.parametrize("version", [4, 6])
def test_firewall_groups_decide_as_they_do_on_real_packets(other_switch: OpenVSwitch, version: int) -> None:
    switch, host = other_switch, GroupHost(other_switch)
    try:
        web = rule(protocol=TCP, dport=(80, 83), version=version)
        host.filter(group(ingress=(web,)))
        traced = TracedHost(host.host, switch)
        ends = {number: end(number) if version == 4 else end6(number) for number in (HERE, OTHER)}
        for number in (80, 84):
            passes = host.sends(OTHER, HERE, TCP, (4000, number), version)
            found = ask(traced, f"p{OTHER}", packet.tcp(ends[OTHER], ends[HERE], number))
            assert (found.exits[0].point is not None) == passes, show(found)
            if not passes:
                assert found.exits[0].cause == Cause.FIREWALL_GROUP, show(found)
                assert ("firewall_group", "group-1") in [
                    (each.owner_kind, each.owner_id) for each in found.observations
                ]
        back = packet.tcp(ends[HERE], ends[OTHER], 4000, source_port=80)
        assert host.sends(HERE, OTHER, TCP, (80, 4000), version)
        assert ask(traced, f"p{HERE}", back, reply=True).exits[0].point is not None
        assert ask(traced, f"p{HERE}", back).exits[0].cause == Cause.FIREWALL_GROUP
    finally:
        switch.appctl("dpctl/flush-conntrack")
        for bridge in switch.vsctl("list-br").split():
            switch.vsctl("del-br", bridge)
