"""Traces through a router's real namespace, compared with real packets: rules, translations, routes and neighbours."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from neutrino.agent.l2.desired import HostState
from neutrino.agent.l2.reconciler import ReconcilerView
from neutrino.agent.reply_mac import REPLY_MAC
from neutrino.agent.trace.namespaces import NamespaceWalk
from neutrino.agent.trace.switch import SwitchState
from neutrino.agent.trace.trail import AtDevice, Trail
from neutrino.dataplane.inspection.api import Tuple5
from neutrino.dataplane.inspection.real import RealInspection
from neutrino.dataplane.netlink.real import RealNetlink
from neutrino.dataplane.ovsdb.api import Snapshot
from neutrino.model.routing import PortForwarding
from neutrino.model.trace import Cause, Packet
from tests.support.filtered_router import ADDRESSES, DUAL_GATEWAY, INSIDE, OTHER, OUTSIDE, FilteredRouter, filtered, net
from tests.support.firewall import GRE, ICMP, ICMPV6, PASSES, REFUSED, SCTP, TCP, UDP, group, rule
from tests.support.l2 import Cloud
from tests.support.routing import QG, floating, router

__all__ = ["net"]  # fixture

DEVICES = {INSIDE: "qr-00000001-aa", OTHER: "qr-00000002-aa", OUTSIDE: QG}
FLOATING = "203.0.113.20"
ECHO = {ICMP: 8, ICMPV6: 128}


@dataclasses.dataclass
class Traced:
    net: FilteredRouter

    def __post_init__(self) -> None:
        self.name = self.net._place.name
        self.netlink = RealNetlink()
        desired = Cloud("h1").hosts["h1"].resolve(HostState())
        self.switch = SwitchState(ReconcilerView(Snapshot(), desired, {}, {}), ())
        self.walk = NamespaceWalk(self.netlink, RealInspection(), lambda *where: "", lambda where: False)

    def packet(
        self,
        sender: str,
        receiver: str,
        protocol: int,
        port: int = 8000,
        *,
        version: int = 4,
        to: str = "",
        sport: int = 0,
    ) -> Packet:
        device = self.netlink.read_device(self.name, DEVICES[sender])
        assert device is not None
        ends = ADDRESSES[sender][version == 6], to or ADDRESSES[receiver][version == 6]
        return Packet(
            eth_src="02:00:00:00:00:01",
            eth_dst=device.mac,
            source=ends[0],
            destination=ends[1],
            protocol=protocol,
            source_port=0 if protocol in ECHO else sport or 40000,
            destination_port=ECHO.get(protocol, port),
        )

    def send(self, sender: str, sent: Packet) -> tuple[Packet | None, Trail]:
        """The packet as it leaves the namespace; None if it does not."""
        trail = Trail(with_texts=True)
        places = self.walk.run(AtDevice(self.name, DEVICES[sender], sent), self.switch, trail)
        return (places[0].packet if places else None), trail

    def ask(
        self, sender: str, receiver: str, protocol: int, port: int = 8000, **values: object
    ) -> tuple[Packet | None, Trail]:
        return self.send(sender, self.packet(sender, receiver, protocol, port, **values))  # type: ignore[arg-type]

    def cause(self, *question: object, **values: object) -> Cause:
        _, trail = self.ask(*question, **values)  # type: ignore[arg-type]
        (last,) = trail.exits
        return last.cause


@pytest.fixture
def traced(net: FilteredRouter) -> Traced:
    return Traced(net)


@contextlib.contextmanager
def changed(net: FilteredRouter, words: str, back: str) -> Iterator[None]:
    net.run(*words.split())
    try:
        yield
    finally:
        net.run(*back.split())


def open_router(net: FilteredRouter, **values: object) -> None:
    net.apply(router(filtered(1, ""), filtered(2, ""), **{"gateway": DUAL_GATEWAY, **values}))  # type: ignore[arg-type]


QUESTIONS = [
    *((OTHER, INSIDE, TCP, port, 4) for port in (80, 81)),
    *((OTHER, INSIDE, UDP, port, 4) for port in (4999, 5000, 5010)),
    (OTHER, INSIDE, ICMP, 0, 4),
    (OUTSIDE, INSIDE, TCP, 443, 4),
    (OTHER, INSIDE, TCP, 443, 4),
    (OTHER, INSIDE, TCP, 23, 4),
    (OTHER, INSIDE, TCP, 80, 6),
    (OUTSIDE, INSIDE, TCP, 80, 6),
    (OUTSIDE, INSIDE, ICMPV6, 0, 6),
    (INSIDE, OTHER, TCP, 80, 4),
    (OTHER, OUTSIDE, TCP, 80, 4),
]


def test_firewall_groups_decide_as_they_do_on_real_packets(net: FilteredRouter, traced: Traced) -> None:
    ingress = (
        rule(protocol=TCP, dport=80),
        rule(protocol=UDP, dport=(5000, 5010)),
        rule(protocol=ICMP, source="10.0.2.0/24"),
        rule(protocol=TCP, dport=443, source=ADDRESSES[OTHER][0]),
        rule("reject", TCP, dport=23),
        rule(protocol=TCP, dport=80, version=6, source="fd00:2::/64"),
        rule(protocol=ICMPV6, version=6),
    )
    net.filter(group(ingress=ingress))
    for sender, receiver, protocol, port, version in QUESTIONS:
        expected = net.send(sender, receiver, protocol, port, version=version)
        left, trail = traced.ask(sender, receiver, protocol, port, version=version)
        question = (sender, receiver, protocol, port, version, trail)
        assert (left is not None) == (expected == PASSES), question
        if left is None:
            (last,) = trail.exits
            assert last.cause == Cause.FIREWALL_GROUP, question
            assert ("rejects" in last.note) == (expected == REFUSED), question
            assert ("firewall_group", "group-1") in [(each.owner_kind, each.owner_id) for each in trail.observations]


@pytest.mark.parametrize("protocol, version", [(UDP, 4), (UDP, 6), (ICMP, 4), (ICMPV6, 6), (SCTP, 4), (GRE, 4)])
def test_between_subnets_of_a_distributed_router_a_reply_is_what_the_switch_has_marked(
    net: FilteredRouter, traced: Traced, protocol: int, version: int
) -> None:
    net.apply(
        router(filtered(1), filtered(2, ""), gateway=DUAL_GATEWAY, distributed=True),
        group(ingress=(rule(protocol=TCP, dport=80),), egress=(rule(), rule(version=6))),
    )
    sent = traced.packet(OTHER, INSIDE, protocol, 5000, version=version)
    replied = replace(sent, reply=True, destination_port={ICMP: 0, ICMPV6: 129}.get(protocol, 5000))
    asked = {False: sent, True: replied}
    for is_reply in asked:
        for marked in (False, True):
            mac = REPLY_MAC if marked else sent.eth_src
            with net.sending_from(OTHER, mac), net.untracked():
                expected = net.send_one(OTHER, INSIDE, protocol, version, 5000, reply=is_reply)
            left, trail = traced.send(OTHER, replace(asked[is_reply], eth_src=mac))
            assert (left is not None) == (expected == PASSES) == marked, (is_reply, trail)
            assert marked or trail.exits[0].cause == Cause.FIREWALL_GROUP


def test_a_reply_passes_by_the_connection_of_its_first_packet(net: FilteredRouter, traced: Traced) -> None:
    net.filter(group(ingress=(rule(protocol=TCP, dport=80),)))
    first = traced.packet(OTHER, INSIDE, TCP, 80, sport=40001)
    back = reply_to(traced, first, INSIDE)
    assert traced.send(INSIDE, back)[0] is None, "the connection does not exist yet"
    assert traced.send(OTHER, first)[0] is not None
    assert traced.send(INSIDE, back)[0] is not None


def reply_to(traced: Traced, first: Packet, sender: str) -> Packet:
    sent = traced.packet(sender, OTHER, first.protocol)
    return replace(
        sent,
        reply=True,
        source=first.destination,
        destination=first.source,
        source_port=first.destination_port,
        destination_port=first.source_port,
    )


def test_translations_and_their_replies(net: FilteredRouter, traced: Traced) -> None:
    open_router(net, floating_ips=(floating(20, ADDRESSES[INSIDE][0]),))
    out, _ = traced.ask(INSIDE, OUTSIDE, TCP, sport=40002)
    assert out is not None
    assert (out.source, out.destination, out.ttl) == (FLOATING, ADDRESSES[OUTSIDE][0], 63)
    snat = traced.packet(OTHER, OUTSIDE, TCP, sport=40003)
    masked, _ = traced.send(OTHER, snat)
    assert masked is not None
    assert masked.source == "203.0.113.5"
    back, trail = traced.send(OUTSIDE, reply_to(traced, masked, OUTSIDE))
    assert back is not None, trail
    assert (back.source, back.destination, back.destination_port) == (ADDRESSES[OUTSIDE][0], ADDRESSES[OTHER][0], 40003)
    inward, _ = traced.ask(OUTSIDE, INSIDE, TCP, to=FLOATING)
    assert inward is not None
    assert (inward.source, inward.destination) == (ADDRESSES[OUTSIDE][0], ADDRESSES[INSIDE][0])
    hairpin, _ = traced.ask(OTHER, INSIDE, TCP, to=FLOATING)
    assert hairpin is not None
    assert (hairpin.source, hairpin.destination) == ("203.0.113.5", ADDRESSES[INSIDE][0])
    plain, _ = traced.ask(INSIDE, OTHER, TCP)
    assert plain is not None
    assert plain.source == ADDRESSES[INSIDE][0]


def test_forwarded_ports(net: FilteredRouter, traced: Traced) -> None:
    ends = {"external_ip_address": FLOATING, "internal_ip_address": ADDRESSES[INSIDE][0], "protocol": "tcp"}
    several = [(80, 80, 8080, 8080), (1000, 1010, 1000, 1010), (2000, 2010, 22, 22), (3000, 3002, 4000, 4002)]
    names = ("external_port_first", "external_port_last", "internal_port_first", "internal_port_last")
    forwardings = tuple(
        PortForwarding(id=f"f{place}", **ends, **dict(zip(names, ports, strict=True)))
        for place, ports in enumerate(several)
    )
    open_router(net, port_forwardings=forwardings)
    net.run("ip", "address", "add", f"{FLOATING}/32", "dev", QG)
    try:
        for outside, inside in ((80, 8080), (1005, 1005), (2005, 22), (3001, 4001)):
            found, trail = traced.ask(OUTSIDE, INSIDE, TCP, outside, to=FLOATING)
            assert found is not None, trail
            assert (found.destination, found.destination_port) == (ADDRESSES[INSIDE][0], inside)
        nobody, trail = traced.ask(OUTSIDE, INSIDE, TCP, 81, to=FLOATING)
        assert nobody is None
        assert (trail.exits[0].cause, trail.exits[0].point) == (Cause.NONE, None)
    finally:
        net.run("ip", "address", "del", f"{FLOATING}/32", "dev", QG)


def test_an_existing_connection_counts_more_than_the_rules(net: FilteredRouter, traced: Traced) -> None:
    open_router(net)
    with net.connection(INSIDE, OUTSIDE) as (here, _):
        own, other = here.getsockname(), here.getpeername()
        open_router(net, floating_ips=(floating(20, ADDRESSES[INSIDE][0]),))
        found, trail = traced.ask(INSIDE, OUTSIDE, TCP, other[1], sport=own[1])
        assert found is not None, trail
        assert found.source == "203.0.113.5"
        assert any("an existing connection" in each.note for each in trail.observations)
        seen = RealInspection().connections(traced.name, Tuple5(TCP, own[0], other[0], own[1], other[1]))
        assert [each.source_translated for each in seen] == [True]
    fresh, _ = traced.ask(INSIDE, OUTSIDE, TCP, sport=40010)
    assert fresh is not None
    assert fresh.source == FLOATING


def test_what_the_kernel_refuses(net: FilteredRouter, traced: Traced) -> None:
    open_router(net)
    assert traced.cause(INSIDE, OTHER, TCP, to="198.51.100.1") == Cause.NO_ROUTE
    assert traced.cause(INSIDE, OTHER, TCP, to="2001:db8:9::1", version=6) == Cause.NO_ROUTE
    failed = f"ip neighbour replace 10.0.2.77 dev {DEVICES[OTHER]} nud failed"
    with changed(net, failed, f"ip neighbour del 10.0.2.77 dev {DEVICES[OTHER]}"):
        assert traced.cause(INSIDE, OTHER, TCP, to="10.0.2.77") == Cause.NO_SUCH_ADDRESS
    with changed(net, "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1"):
        _, trail = traced.ask(INSIDE, OTHER, TCP)
        assert "does not forward" in trail.exits[0].note
    device = DEVICES[OTHER]
    with changed(net, f"ip link set {device} mtu 1300", f"ip link set {device} mtu 1500"):
        sent = traced.packet(INSIDE, OTHER, TCP)
        big = replace(sent, size=1400)
        assert traced.send(INSIDE, big)[1].exits[0].cause == Cause.PACKET_TOO_BIG
        assert traced.send(INSIDE, sent)[0] is not None
    old = replace(sent, ttl=1)
    assert traced.send(INSIDE, old)[1].exits[0].cause == Cause.TTL_EXPIRED
    filtered_source = f"net.ipv4.conf.{DEVICES[INSIDE]}.rp_filter"
    with changed(net, f"sysctl -qw {filtered_source}=1", f"sysctl -qw {filtered_source}=0"):
        forged = replace(sent, source="10.0.2.9")
        _, trail = traced.send(INSIDE, forged)
        assert "reverse-path" in trail.exits[0].note
        assert traced.send(INSIDE, sent)[0] is not None
    other = replace(sent, eth_dst="02:00:00:00:00:99")
    _, trail = traced.send(INSIDE, other)
    assert [each.effect for each in trail.observations] == ["ignore"]


def test_a_route_of_an_address_that_is_deleted_by_hand_is_drift(net: FilteredRouter, traced: Traced) -> None:
    open_router(net)
    there = f"10.0.2.0/24 dev {DEVICES[OTHER]}"
    with changed(net, f"ip route del {there}", f"ip route add {there} src 10.0.2.1 proto kernel scope link"):
        _, trail = traced.ask(INSIDE, OTHER, TCP)
        assert (trail.exits[0].cause, len(trail.drift)) == (Cause.DRIFT, 1), trail
    found, trail = traced.ask(INSIDE, OTHER, TCP)
    assert found is not None
    assert not trail.drift


def test_packets_for_the_router_itself(net: FilteredRouter, traced: Traced) -> None:
    open_router(net)
    _, trail = traced.ask(INSIDE, OTHER, ICMP, to="10.0.1.1")
    (last,) = trail.exits
    assert (last.point, last.cause) == (None, Cause.NONE)
    assert "itself" in last.note


def test_rules_by_hand_are_drift(net: FilteredRouter, traced: Traced) -> None:
    open_router(net)
    net.run("nft", "insert", "rule", "ip", "neutrino", "prerouting_mark", "tcp", "dport", "8000", "drop")
    try:
        assert traced.cause(INSIDE, OTHER, TCP) == Cause.DRIFT
        assert traced.ask(INSIDE, OTHER, TCP, 8001)[0] is not None
    finally:
        net.run("nft", "delete", "table", "ip", "neutrino")
    net.run("nft", "add", "table", "ip", "theirs")
    net.run("nft", "add chain ip theirs f { type filter hook forward priority 0; }")
    net.run("nft", "add", "rule", "ip", "theirs", "f", "tcp", "dport", "8000", "reject")
    try:
        assert traced.cause(INSIDE, OTHER, TCP) == Cause.DRIFT
    finally:
        net.run("nft", "delete", "table", "ip", "theirs")


def test_a_namespace_or_device_that_is_missing(net: FilteredRouter, traced: Traced) -> None:
    sent = traced.packet(INSIDE, OTHER, TCP)
    for namespace, device in ((traced.name, "qr-none"), ("qrouter-none", "qr-none")):
        trail = Trail()
        assert not traced.walk.run(AtDevice(namespace, device, sent), traced.switch, trail)
        assert [each.cause for each in trail.exits] == [Cause.NO_DEVICE]
