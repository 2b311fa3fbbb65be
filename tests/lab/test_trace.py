"""Traces of packets between ports of one network: guards, rules, and everything that a port needs, with real packets."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from neutrino.lab.api_client import Object
from tests.support.lab_control import Lab
from tests.support.lab_frames import Frame, arriving, datagram, ends, honest, routes
from tests.support.lab_guests import (
    EVERYTHING,
    Guest,
    Spec,
    allow,
    make_group,
    make_guests,
    make_network,
)
from tests.support.lab_trace import Case, check, connects, created, datagrams, in_groups, pings, updated

UNSECURED = {"port_security_enabled": False, "security_groups": []}
OTHER_MAC = "02:00:00:00:00:99"
NOT_MINE, NOT_MINE6 = "10.0.0.240", "fd00:10::240"
PAIRED = "10.0.0.230"
SERVER_PORTS, SERVER_PORTS6 = (67, 68), (547, 546)


@dataclasses.dataclass(frozen=True)
class Site:
    lab: Lab
    network: Object
    a: Guest  # on h1, in `open`
    near: Guest  # on h1, in `open`
    far: Guest  # on h2, in `open`
    free: Guest  # on h1, without port security
    ear: Guest  # on h2, without port security: it receives every frame
    open: str
    closed: str  # no ingress rule
    tagged1: Guest  # on h1, on a VLAN of a physical network
    tagged2: Guest  # on h2
    groups: dict[str, str]  # further ones by name


@pytest.fixture(scope="module")
def site(lab: Lab) -> Site:
    net = make_network(lab, "blue")
    open_, _ = make_group(lab, "open", *EVERYTHING)
    closed, _ = make_group(lab, "closed")
    mute, _ = make_group(lab, "mute", lets_out=False)
    tagged = make_network(lab, "tagged", **{"provider:network_type": "vlan", "provider:physical_network": "physnet1"})
    a, near, far, free, ear, *others = make_guests(
        lab,
        Spec("a", net, "h1", [open_], {"allowed_address_pairs": [{"ip_address": PAIRED}]}),
        Spec("near", net, "h1", [open_]),
        Spec("far", net, "h2", [open_]),
        Spec("free", net, "h1", values=UNSECURED),
        Spec("ear", net, "h2", values=UNSECURED),
        Spec("tagged1", tagged, "h1", [open_]),
        Spec("tagged2", tagged, "h2", [open_]),
    )
    return Site(lab, net, a, near, far, free, ear, open_, closed, others[0], others[1], {"mute": mute})


C = Case[Site]
Change = Callable[[Site], Any]


def to(target: str, source: str = "a", version: int = 4, **more: Any) -> Callable[[Site], dict[str, Any]]:
    """A trace from one guest to another."""

    def request(site: Site) -> dict[str, Any]:
        ends = {"source_port_id": getattr(site, source).port_id, "destination_port_id": getattr(site, target).port_id}
        return {**ends, "ip_version": version, "protocol": "icmp" if version == 4 else "ipv6-icmp", **more}

    return request


def ping(target: str, source: str = "a", version: int = 4, *options: str) -> Callable[[Site], bool]:
    return lambda site: pings(site.lab, source, getattr(site, target).addresses[version], *options)


def tcp(target: str, port: int = 80, source: str = "a", version: int = 4) -> Callable[[Site], bool]:
    return lambda site: connects(site.lab, source, target, getattr(site, target).addresses[version], port)


def udp(target: str, port: int, source: str = "a") -> Callable[[Site], bool]:
    return lambda site: datagrams(site.lab, source, target, getattr(site, target).addresses[4], port)


def frame(make: Callable[[Site], Frame], source: str = "a") -> Callable[[Site], bool]:
    """Whether a frame that is made byte by byte arrives at `ear`."""

    def arrives(site: Site) -> bool:
        sender = getattr(site, source)
        return bool(arriving(sender, site.ear, {"it": make(site)}, honest(sender, site.ear)))

    return arrives


def spoofed(
    mac: str | None = None, address: str | None = None, version: int = 4, source: str = "a"
) -> Callable[[Site], Frame]:
    def make(site: Site) -> Frame:
        guest = getattr(site, source)
        return datagram((mac or guest.mac, address or guest.addresses[version]), ends(site.ear, version))

    return make


def port(name: str) -> Callable[[Site], str]:
    return lambda site: str(getattr(site, name).port_id)


def ruled(*rules: dict[str, Any], member: str = "far", stateful: bool = True, lets_out: bool = True) -> Change:
    """The member is in a group with these rules alone."""

    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        group, _ = make_group(site.lab, "ruled", *rules, stateful=stateful, lets_out=lets_out)
        try:
            with in_groups(getattr(site, member), group):
                site.groups["ruled"] = group
                yield
        finally:
            site.lab.api.delete("security_group", group)

    return change


def group(name: str) -> Callable[[Site], str]:
    return lambda site: site.groups[name]


TCP = {"protocol": "tcp", "destination_port": 80}
DROPPED_IN = {"cause": "security-group-ingress", "object": group("ruled")}

PLAIN = [
    C("on one host", to("near"), ping("near")),
    C("on another host", to("far"), ping("far")),
    C("IPv6", to("far", version=6), ping("far", "a", 6)),
    C("TCP", to("far", **TCP), tcp("far")),
    C("UDP", to("far", protocol="udp", destination_port=53), udp("far", 53)),
    C("without port security", to("far", "free"), ping("far", "free")),
    C("on a VLAN", to("tagged2", "tagged1"), ping("tagged2", "tagged1")),
    C(
        "nobody has the address",
        lambda site: {"source_port_id": site.a.port_id, "destination_address": "10.0.0.250"},
        lambda site: pings(site.lab, "a", "10.0.0.250"),
        "no-such-address",
    ),
]
GUARDS = [
    C(
        "a spoofed MAC",
        to("ear", source_mac=OTHER_MAC, protocol="udp", destination_port=7),
        frame(spoofed(mac=OTHER_MAC)),
        "address-spoofed",
        port("a"),
    ),
    C(
        "a spoofed address",
        to("ear", source_address=NOT_MINE, protocol="udp", destination_port=7),
        frame(spoofed(address=NOT_MINE)),
        "address-spoofed",
        port("a"),
    ),
    C(
        "a spoofed IPv6 address",
        to("ear", version=6, source_address=NOT_MINE6, protocol="udp", destination_port=7),
        frame(spoofed(address=NOT_MINE6, version=6)),
        "address-spoofed",
        port("a"),
    ),
    C(
        "an allowed address pair",
        to("ear", source_address=PAIRED, protocol="udp", destination_port=7),
        frame(spoofed(address=PAIRED)),
    ),
    C(
        "a spoofed address without port security",
        to("ear", "free", source_address=NOT_MINE, protocol="udp", destination_port=7),
        frame(spoofed(address=NOT_MINE, source="free"), "free"),
        one_way=True,
    ),
    C(
        "an instance as DHCP server",
        to("ear", protocol="udp", source_port=67, destination_port=68),
        frame(lambda site: datagram(ends(site.a), ends(site.ear), SERVER_PORTS)),
        "dhcp-server-guard",
        port("a"),
    ),
    C(
        "an instance as DHCPv6 server",
        to("ear", version=6, protocol="udp", source_port=547, destination_port=546),
        frame(lambda site: datagram(ends(site.a, 6), ends(site.ear, 6), SERVER_PORTS6)),
        "dhcp-server-guard",
        port("a"),
    ),
    C(
        "an instance as router",
        to("ear", version=6, icmp_type=134),
        frame(lambda site: routes(site.a.mac)),
        "ra-guard",
        port("a"),
    ),
]
RULES = [
    C(
        "no rule",
        to("far"),
        ping("far"),
        "security-group-ingress",
        lambda s: s.closed,
        lambda s: in_groups(s.far, s.closed),
    ),
    C("no rule on the same host", to("near", **TCP), tcp("near"), change=ruled(member="near"), **DROPPED_IN),
    C("no rule for IPv6", to("far", version=6), ping("far", "a", 6), change=ruled(allow()), **DROPPED_IN),
    C("a rule for IPv6", to("far", version=6), ping("far", "a", 6), change=ruled({"ethertype": "IPv6"})),
    C("the protocol", to("far", **TCP), tcp("far"), change=ruled(allow("tcp"))),
    C("another protocol", to("far"), ping("far"), change=ruled(allow("tcp")), **DROPPED_IN),
    C("in the port range", to("far", **TCP), tcp("far"), change=ruled(allow("tcp", (75, 85)))),
    C("out of the port range", to("far", **TCP), tcp("far"), change=ruled(allow("tcp", (81, 85))), **DROPPED_IN),
    C("the ICMP type", to("far"), ping("far"), change=ruled(allow("icmp", port_range_min=8))),
    C("another ICMP type", to("far"), ping("far"), change=ruled(allow("icmp", port_range_min=13)), **DROPPED_IN),
    C("in the prefix", to("far"), ping("far"), change=ruled(allow(remote_ip_prefix="10.0.0.0/24"))),
    C("out of the prefix", to("far"), ping("far"), change=ruled(allow(remote_ip_prefix="10.0.9.0/24")), **DROPPED_IN),
    C("a stateful reply", to("far", **TCP), tcp("far"), change=ruled(allow("tcp", 80), lets_out=False)),
    C(
        "no egress rule",
        to("far"),
        ping("far"),
        "security-group-egress",
        lambda s: s.groups["mute"],
        lambda s: in_groups(s.a, s.groups["mute"]),
    ),
    C(
        "an egress rule for another port",
        to("far", **TCP),
        tcp("far"),
        "security-group-egress",
        group("ruled"),
        ruled(allow("tcp", 81, direction="egress"), member="a", lets_out=False),
    ),
    C(
        "a stateless group without a rule for the reply",
        to("near", **TCP),
        tcp("near"),
        "security-group-egress",
        group("ruled"),
        ruled(allow("tcp", 80), member="near", stateful=False, lets_out=False),
        back=True,
    ),
    C(
        "a stateless group with a rule for the reply",
        to("near", **TCP),
        tcp("near"),
        change=ruled(allow("tcp", 80), allow("tcp", direction="egress"), member="near", stateful=False, lets_out=False),
    ),
]


def remote_group(member: bool) -> Change:
    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        remote = site.open if member else site.closed
        with ruled(allow(remote_group_id=remote))(site):
            yield

    return change


def address_group(*addresses: str) -> Change:
    @contextlib.contextmanager
    def change(site: Site) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            values = {"addresses": list(addresses), "name": "some"}
            made = stack.enter_context(created(site.lab, "address-groups", "address_group", **values))
            stack.enter_context(ruled(allow(remote_address_group_id=made["id"]))(site))
            yield

    return change


RULES += [
    C("a member of the remote group", to("far"), ping("far"), change=remote_group(member=True)),
    C("no member of the remote group", to("far"), ping("far"), change=remote_group(member=False), **DROPPED_IN),
    C("in the address group", to("far"), ping("far"), change=address_group("10.0.0.0/25", "10.0.0.128/25")),
    C("not in the address group", to("far"), ping("far"), change=address_group("10.9.0.0/16"), **DROPPED_IN),
]
STATES = [
    C(
        "the sending port is down",
        to("far"),
        ping("far"),
        "port-admin-down",
        port("a"),
        lambda s: updated(s.lab, "port", s.a.port_id, admin_state_up=False),
    ),
    C(
        "the receiving port is down",
        to("far"),
        ping("far"),
        "port-admin-down",
        port("far"),
        lambda s: updated(s.lab, "port", s.far.port_id, admin_state_up=False),
    ),
    C(
        "the network is down",
        to("far"),
        ping("far"),
        "network-admin-down",
        lambda s: str(s.network["id"]),
        lambda s: updated(s.lab, "network", s.network["id"], admin_state_up=False),
    ),
    C(
        "too big",
        to("far", packet_size=1500),
        ping("far", "a", 4, "-M", "do", "-s", "1472"),
        "packet-too-big",
        lambda s: str(s.network["id"]),
    ),
]
CASES = [*PLAIN, *GUARDS, *RULES, *STATES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_trace_agrees_with_real_packets(case: C, site: Site) -> None:
    check(site.lab, case, site)
