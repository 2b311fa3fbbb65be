"""Traces of hybrid ports: the rules on their Linux bridges decide as they do on real packets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.trace.hybrid import HybridFilter
from neutrino.agent.trace.switch import SwitchState
from neutrino.agent.trace.trail import Trail
from neutrino.dataplane.inspection.real import RealInspection
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.ovsdb.api import Snapshot
from neutrino.model.state import GroupMembers, Member
from neutrino.model.trace import Cause, Packet
from tests.functional.test_hybrid_firewall import CLIENT, IDS, NET, OTHER, SERVER, TCP, UDP, Bench, bench, hybrid
from tests.support.hybrid import tcp_passes, udp_passes
from tests.support.l2 import OPEN, OUT, group, mac, rule

__all__ = ["bench"]
MEMBERS = GroupMembers(id="friends", members=frozenset({Member("10.0.0.1", mac(CLIENT))}))
RULES = (
    rule(protocol=TCP, port_min=80, port_max=81),
    rule(protocol=UDP, port_min=9, port_max=9, remote_group_id="friends"),
)


def sent(source: int, target: int, protocol: int, port: int, **values: object) -> Packet:
    known = {
        "eth_src": mac(source),
        "eth_dst": mac(target),
        "source": f"10.0.0.{source}",
        "destination": f"10.0.0.{target}",
        "protocol": protocol,
        "source_port": 40000,
        "destination_port": port,
    }
    return Packet(**{**known, **values})  # type: ignore[arg-type]


class Filtered:
    def __init__(self, bench: Bench) -> None:
        bench.serve(*RULES, more=(MEMBERS,))
        ports = {CLIENT: hybrid(CLIENT, "out"), OTHER: hybrid(OTHER, "out"), SERVER: hybrid(SERVER, "server")}
        desired = bench.host.resolve(NET, OUT, OPEN, group("server", *RULES), *ports.values(), MEMBERS)
        self.ports, self.state = ports, SwitchState(ReconcilerView(Snapshot(), desired, {}, {}), ())
        netlink = bench.host.namespace.driver(RealNetlink())
        self.filter = HybridFilter(bench.host.iptables, netlink, bench.host.namespace.driver(RealInspection()))

    def judge(self, number: int, direction: str, packet: Packet) -> tuple[bool, Trail]:
        trail = Trail(with_texts=True)
        return self.filter.passes(self.ports[number], packet, direction, self.state, trail), trail


@pytest.fixture
def filtered(bench: Bench) -> Filtered:
    return Filtered(bench)


@pytest.mark.parametrize(
    "source, protocol, port",
    [(CLIENT, TCP, 80), (CLIENT, TCP, 82), (CLIENT, UDP, 9), (OTHER, UDP, 9), (OTHER, TCP, 81)],
)
def test_rules_decide_as_on_real_packets(
    bench: Bench, filtered: Filtered, source: int, protocol: int, port: int
) -> None:
    packet = sent(source, SERVER, protocol, port)
    passes, trail = filtered.judge(SERVER, "ingress", packet)
    client = bench.client if source == CLIENT else bench.other
    real = tcp_passes if protocol == TCP else udp_passes
    assert passes == real(client, bench.server, port, expected=passes), trail
    assert filtered.judge(source, "egress", packet)[0]
    if not passes:
        assert [each.cause for each in trail.exits] == [Cause.SECURITY_GROUP_INGRESS]
    assert not [each for each in trail.observations if each.effect == "unknown"]


def test_guards_replies_and_devices(bench: Bench, filtered: Filtered) -> None:
    def cause(number: int, direction: str, packet: Packet) -> Cause:
        return filtered.judge(number, direction, packet)[1].exits[0].cause

    forged = replace(sent(CLIENT, SERVER, TCP, 80), source="10.0.0.99")
    assert cause(CLIENT, "egress", forged) == Cause.ADDRESS_SPOOFED
    assert cause(CLIENT, "egress", sent(CLIENT, SERVER, UDP, 68, source_port=67)) == Cause.DHCP_SERVER_GUARD
    advertisement = replace(sent(CLIENT, SERVER, 58, 134), source="2001:db8::1", destination="ff02::1")
    assert cause(CLIENT, "egress", advertisement) == Cause.RA_GUARD
    assert cause(SERVER, "egress", sent(SERVER, CLIENT, TCP, 5)) == Cause.SECURITY_GROUP_EGRESS
    assert filtered.judge(SERVER, "egress", sent(SERVER, CLIENT, TCP, 5, reply=True))[0]
    assert cause(SERVER, "ingress", sent(CLIENT, SERVER, TCP, 80, size=9000)) == Cause.PACKET_TOO_BIG
    tap = f"tap{IDS[SERVER][:11]}"
    bench.host.namespace.run("ip", "link", "set", tap, "down")
    try:
        assert cause(SERVER, "ingress", sent(CLIENT, SERVER, TCP, 80)) == Cause.NO_DEVICE
    finally:
        bench.host.namespace.run("ip", "link", "set", tap, "up")


def test_a_rule_by_hand_is_drift(bench: Bench, filtered: Filtered) -> None:
    bench.host.namespace.run("iptables", "-I", "FORWARD", "-p", "tcp", "--dport", "80", "-j", "DROP")
    try:
        passes, trail = filtered.judge(SERVER, "ingress", sent(CLIENT, SERVER, TCP, 80))
        assert (passes, trail.exits[0].cause) == (False, Cause.DRIFT)
    finally:
        bench.host.namespace.run("iptables", "-D", "FORWARD", "-p", "tcp", "--dport", "80", "-j", "DROP")


OTHERS = {
    "iptables-legacy": ("iptables-legacy -A FORWARD -p tcp --dport 80 -j DROP", "iptables-legacy -F FORWARD"),
    "nft": (
        "nft add table inet x; add chain inet x f { type filter hook forward priority 5; };"
        " add rule inet x f tcp dport 80 drop",
        "nft delete table inet x",
    ),
    "a policy of the other variant": (
        "iptables-legacy -A FORWARD -p tcp --dport 81 -j ACCEPT; iptables-legacy -A FORWARD -p tcp --sport 81 -j ACCEPT;"
        " iptables-legacy -P FORWARD DROP",
        "iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F FORWARD",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_rules_of_others_decide_as_on_real_packets(bench: Bench, filtered: Filtered, name: str) -> None:
    add, remove = OTHERS[name]

    def compare() -> list[bool]:
        found = []
        for port in (80, 81):
            passes, trail = filtered.judge(SERVER, "ingress", sent(CLIENT, SERVER, TCP, port))
            assert passes == tcp_passes(bench.client, bench.server, port, expected=passes), trail
            assert passes or trail.exits[0].cause == Cause.DRIFT
            found.append(passes)
        return found

    assert compare() == [True, True]
    words = add.split(" ", 1) if add.startswith("nft") else None
    bench.host.namespace.run(*(words or ["sh", "-c", add]))
    try:
        assert compare() == [False, True]
    finally:
        bench.host.namespace.run("sh", "-c", remove)
    assert compare() == [True, True]


def test_a_policy_of_the_chain_of_ours(bench: Bench, filtered: Filtered) -> None:
    """As Docker sets it: what our rules accept passes, what no rule is about does not."""
    bench.host.namespace.run("iptables", "-P", "FORWARD", "DROP")
    try:
        passes, trail = filtered.judge(SERVER, "ingress", sent(CLIENT, SERVER, TCP, 80))
        assert passes == tcp_passes(bench.client, bench.server, 80, expected=passes), trail
    finally:
        bench.host.namespace.run("iptables", "-P", "FORWARD", "ACCEPT")
