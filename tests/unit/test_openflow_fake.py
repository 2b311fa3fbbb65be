"""The fake switch itself: priorities, conjunctions, conntrack, learning and NORMAL."""

import pytest

from neutrino.dataplane.openflow.api import flow
from tests.fakes import packet
from tests.fakes.openflow import FakePort, FakeSwitch
from tests.fakes.openflow_tables import AmbiguousFlows

A, B = ("fa:16:3e:00:00:01", "10.0.0.1"), ("fa:16:3e:00:00:02", "10.0.0.2")


@pytest.fixture
def switch() -> FakeSwitch:
    made = FakeSwitch()
    made.add_bridge("br")
    for number in (1, 2, 3):
        made.set_port("br", FakePort(number, f"p{number}", tag=7 if number < 3 else None))
    return made


def program(switch: FakeSwitch, *flows: tuple[int, int, str, str]) -> None:
    switch.apply_flows("br", add=[flow(*each) for each in flows], delete=[])


def leaves(switch: FakeSwitch, sent: packet.Packet, port: str = "p1") -> list[str]:
    return [delivery.port for delivery in switch.send("br", port, sent)]


def test_an_empty_bridge_forwards_nothing(switch):
    assert leaves(switch, packet.tcp(A, B, 80)) == []


def test_the_highest_priority_wins_and_equals_are_an_error(switch):
    program(switch, (0, 1, "", "output:2"), (0, 2, "tcp", "output:3"))
    assert leaves(switch, packet.tcp(A, B, 80)) == ["p3"]
    program(switch, (0, 2, "ip", "output:2"))
    with pytest.raises(AmbiguousFlows):
        leaves(switch, packet.tcp(A, B, 80))


def test_normal_floods_learns_and_tags(switch):
    program(switch, (0, 0, "", "NORMAL"))
    flooded = switch.send("br", "p1", packet.tcp(A, B, 80))
    assert [(delivery.port, delivery.packet.vlan) for delivery in flooded] == [("p2", None), ("p3", 7)]
    assert leaves(switch, packet.tcp(B, A, 80), "p2") == ["p1"]
    assert leaves(switch, packet.tcp(A, B, 80)) == ["p2"]
    assert leaves(switch, packet.tcp(A, B, 80).having(vlan=7)) == []


def test_a_conjunction_needs_all_its_dimensions(switch):
    program(
        switch,
        (0, 5, "ip,nw_src=10.0.0.1", "conjunction(9,1/2)"),
        (0, 5, "tcp,tp_dst=80", "conjunction(9,2/2)"),
        (0, 5, "tcp", "conjunction(8,2/2)"),
        (0, 5, "conj_id=9", "output:2"),
        (0, 1, "", "output:3"),
    )
    assert leaves(switch, packet.tcp(A, B, 80)) == ["p2"]
    assert leaves(switch, packet.tcp(A, B, 81)) == ["p3"]
    assert leaves(switch, packet.tcp(B, A, 80)) == ["p3"]


def test_connections(switch):
    program(
        switch,
        (0, 1, "ip", "ct(table=1,zone=4)"),
        (1, 9, "ip,ct_state=+new+trk,in_port=1", "ct(commit,zone=4),output:2"),
        (1, 9, "ip,ct_state=+est+rpl+trk", "output:1"),
        (1, 9, "ip,ct_state=+est-rpl+trk", "output:3"),
    )
    sent = packet.udp(A, B, 53)
    assert leaves(switch, packet.reply(sent), "p2") == []
    assert leaves(switch, sent) == ["p2"]
    assert leaves(switch, packet.reply(sent), "p2") == ["p1"]
    assert leaves(switch, sent) == ["p3"]
    switch.conntrack.flush(zone=4)
    assert leaves(switch, packet.reply(sent), "p2") == []


def test_actions_after_a_resubmit_see_what_it_changed(switch):
    program(switch, (0, 1, "", "resubmit(,1),output:3"), (1, 1, "", "push_vlan:0x8100,set_field:4105->vlan_vid"))
    (delivery,) = switch.send("br", "p1", packet.tcp(A, B, 80))
    assert delivery.packet.vlan == 9
    program(switch, (0, 1, "", "clone(resubmit(,1)),output:3"))
    (delivery,) = switch.send("br", "p1", packet.tcp(A, B, 80))
    assert delivery.packet.vlan is None


def test_loops_are_an_error(switch):
    program(switch, (0, 1, "", "resubmit(,0)"))
    with pytest.raises(RuntimeError):
        leaves(switch, packet.tcp(A, B, 80))
