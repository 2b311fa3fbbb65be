"""Logs of security groups on the fake switch: which packets are copied to the agent, and that nothing else changes."""

from __future__ import annotations

import pytest

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.extension_api import cookie_of
from neutrino.model import state
from neutrino.model.packet_log import PacketLog
from tests.fakes import packet
from tests.fakes.packet import Packet
from tests.support.l2 import OPEN, Cloud, mac, network, port

FROM, TO, DROPPED = (
    table.number for table in (pipeline.ACCEPT_OR_INGRESS, pipeline.ACCEPTED_INGRESS, pipeline.DROPPED)
)
CLOSED = state.SecurityGroup(id="closed", project_id="project")


def end(number: int) -> tuple[str, str]:
    return mac(number), f"10.0.0.{number}"


class Net:
    """Ports 1 and 2 are open, port 3 lets nothing in; all on one host. Port 4 is on another host."""

    def __init__(self, *logs: PacketLog) -> None:
        self.cloud = Cloud("h1", "h2")
        self.apply(*logs)

    def apply(self, *logs: PacketLog) -> None:
        ports = (port("p1", 1, groups=["open"]), port("p2", 2, groups=["open"]), port("p3", 3, groups=["closed"]))
        self.cloud.apply(network("net"), OPEN, CLOSED, *ports, port("p4", 4, host="h2", groups=["open"]), *logs)
        host = self.cloud.hosts["h1"]
        assert host.desired is not None
        assert not any(host.plans(host.desired))

    def send(self, sent: Packet) -> set[str]:
        source = next(number for number in (1, 2, 3, 4) if mac(number) == sent["dl_src"])
        return {*self.cloud.send("h2" if source == 4 else "h1", f"p{source}", sent)}

    def copies(self, host: str = "h1") -> list[tuple[int, str]]:
        """Tables and ports of the copies since the last call."""
        copied = self.cloud.hosts[host].switch.bridges["br-int"].copied
        ports = {cookie_of(f"port p{number}"): f"p{number}" for number in (1, 2, 3, 4)}
        found = [(table, ports[cookie]) for table, cookie in copied]
        copied.clear()
        return found


def test_a_new_connection_is_logged_once_for_each_end() -> None:
    net = Net(PacketLog(id="l", event="ACCEPT", resource_id="open"))
    sent = packet.tcp(end(1), end(2), 80)
    assert net.send(sent) == {"p2"}
    assert net.copies() == [(FROM, "p1"), (TO, "p2")]
    assert net.send(packet.reply(sent)) == {"p1"}
    assert net.send(sent) == {"p2"}
    assert net.copies() == []


def test_a_packet_to_another_host_is_logged_on_both() -> None:
    net = Net(PacketLog(id="l", event="ALL", resource_id="open"))
    assert net.send(packet.tcp(end(1), end(4), 80)) == {"p4"}
    assert (net.copies("h1"), net.copies("h2")) == ([(FROM, "p1")], [(TO, "p4")])


def test_dropped_packets_are_logged_for_the_port_that_drops_them() -> None:
    net = Net(PacketLog(id="l", event="DROP", resource_id="closed"))
    assert net.send(packet.tcp(end(1), end(3), 80)) == set()
    assert net.send(packet.tcp(end(3), end(1), 80)) == set()
    assert net.copies() == [(DROPPED, "p3"), (DROPPED, "p3")]
    assert net.send(packet.tcp(end(1), end(2), 80)) == {"p2"}
    assert net.copies() == []


@pytest.mark.parametrize(
    ("log", "logged"),
    [
        (PacketLog(id="l", target_id="p1", network_id="net"), [(FROM, "p1")]),
        (PacketLog(id="l", target_id="p2", network_id="net"), [(TO, "p2")]),
        (PacketLog(id="l", target_id="p2", network_id="net", event="DROP"), []),
        (PacketLog(id="l", project_id="project"), []),
        (PacketLog(id="l", project_id=""), [(FROM, "p1"), (TO, "p2")]),
    ],
)
def test_the_ports_of_a_log(log: PacketLog, logged: list[tuple[int, str]]) -> None:
    net = Net(log)
    assert net.send(packet.tcp(end(1), end(2), 80)) == {"p2"}
    assert net.copies() == logged


def test_a_removed_log_leaves_nothing() -> None:
    net = Net(PacketLog(id="l", resource_id="open"))
    bridge = net.cloud.hosts["h1"].switch.bridges["br-int"]
    assert len(bridge.meters) == 1
    net.apply()
    assert net.send(packet.tcp(end(1), end(2), 80)) == {"p2"}
    assert (net.copies(), bridge.meters) == ([], {})


def test_a_broadcast_reaches_every_port_and_is_logged_for_each() -> None:
    net = Net(PacketLog(id="l", resource_id="open"))
    sent = packet.udp(end(1), ("ff:ff:ff:ff:ff:ff", "10.0.0.255"), 5353)
    assert net.send(sent) == {"p2", "p4"}
    assert sorted(net.copies()) == [(FROM, "p1"), (TO, "p2")]
