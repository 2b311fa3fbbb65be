"""The situations. A row of `docs/trace.md` is made of each: `python -m tests.support.trace_document`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.support.lab_frames import Frame, arriving, datagram, ends, honest, routes
from tests.support.lab_guests import allow
from tests.support.lab_trace import OUTSIDE, PING, PING6, UNKNOWN, Packet, Situation, pings, tcp, udp
from tests.support.routing_lab import MACHINE
from tests.support.trace_situations import changes as c
from tests.support.trace_situations import faults, firewalls
from tests.support.trace_situations.site import BEHIND, BEYOND, KINDS, PAIRED, UNLISTED, Site

S = Situation[Site]
OTHER_MAC = "02:00:00:00:00:99"
NOT_MINE, NOT_MINE6, NOBODY = "10.0.0.240", "fd00:10::240", "10.0.31.250"
FORWARDED = 8022
INGRESS: Final[Any] = {"cause": "security-group-ingress", "names": "group ruled"}


def _frame(make: Callable[[Site], Frame], source: str = "a") -> Callable[[Site], bool]:
    """Whether a frame that is made byte by byte arrives at `ear`."""

    def arrives(site: Site) -> bool:
        sender, ear = site.guests[source], site.guests["ear"]
        return bool(arriving(sender, ear, {"it": make(site)}, honest(sender, ear)))

    return arrives


def _from(mac: str = "", address: str = "", version: int = 4, source: str = "a") -> Callable[[Site], bool]:
    def make(site: Site) -> Frame:
        guest = site.guests[source]
        sender = mac or guest.mac, address or guest.addresses[version]
        return datagram(sender, ends(site.guests["ear"], version))

    return _frame(make, source)


def _ports(first: int, second: int, version: int = 4) -> Callable[[Site], bool]:
    return _frame(lambda s: datagram(ends(s.guests["a"], version), ends(s.guests["ear"], version), (first, second)))


def _udp7(version: int = 4, **values: Any) -> Packet:
    return udp(7, version=version, values=values)


def _off(name: str) -> c.Change:
    return c.port(name, admin_state_up=False)


def _disabled(kind: str) -> Any:
    change = c.router(kind, admin_state_up=False)
    return {"cause": "router-admin-down", "names": f"router {kind}", "change": change}


def _unserved() -> Any:
    return {"cause": "router-not-scheduled", "names": "router island"}


def _denied(where: str, protocol: str) -> Any:
    return {"cause": "firewall-group", "names": "made firewall", "change": c.firewall(where, protocol=protocol)}


def _link(host: str, device: str) -> Any:
    return {"cause": "link-down", "agrees": False, "change": faults.link_down(host, device)}


def _pings_from(site: Site, source: str, address: str, target: str) -> bool:
    return pings(site.lab, source, site.address(target), "-I", site.address(address))


def _pings_with(site: Site, source: str, address: str, target: str) -> bool:
    """With an address that the instance has for the time of the ping."""
    words = ["address", "{}", f"{site.address(address)}/32", "dev", "lo"]
    site.lab.run(source, ["ip", *(word.format("add") for word in words)])
    try:
        return _pings_from(site, source, address, target)
    finally:
        site.lab.run(source, ["ip", *(word.format("del") for word in words)])


ONE_NETWORK = [
    S("on one host", "a", "near"),
    S("on two hosts", "a", "far"),
    S("IPv6", "a", "far", PING6),
    S("TCP", "a", "far", tcp()),
    S("UDP", "a", "far", udp(53)),
    S("without port security", "free", "far"),
    S("a VLAN of a physical network", "tagged1", "tagged2"),
    S("a network of type local", "alone1", "alone2", cause="network-local", names="network alone"),
    S("a port to itself", "a", "a", reply=None),
    S("a subport of a trunk", "green", "green-peer"),
    S("to a subport of a trunk", "green-peer", "green"),
    S("larger than the MTU", "tagged1", "tagged2", Packet(size=1600), cause="packet-too-big", names="network tagged"),
    S("an MTU that was lowered", "a", "near", Packet(size=1400), change=c.network("blue", mtu=1300)),
    S(
        "an address that no port has",
        "tagged1",
        "10.0.0.250",
        cause="no-such-address",
        verdict=UNKNOWN,
        arrives=False,
    ),
    S("a local IP", "a", "anycast", change=c.local_ip("near"), packet=Packet(server="near")),
    S(
        "a local IP of another host",
        "a",
        "anycast",
        cause="no-local-ip",
        names="made anycast",
        change=c.local_ip("far"),
    ),
]
GUARDS = [
    S("another MAC", "a", "ear", _udp7(source_mac=OTHER_MAC), "address-spoofed", names="a", real=_from(OTHER_MAC)),
    S(
        "another address",
        *("a", "ear", _udp7(source_address=NOT_MINE), "address-spoofed"),
        names="a",
        real=_from(address=NOT_MINE),
    ),
    S(
        "another IPv6 address",
        *("a", "ear", _udp7(6, source_address=NOT_MINE6), "address-spoofed"),
        names="a",
        real=_from(address=NOT_MINE6, version=6),
    ),
    S("an allowed address pair", "a", "ear", _udp7(source_address=PAIRED), real=_from(address=PAIRED)),
    S(
        "another address without port security",
        *("free", "ear", _udp7(source_address=NOT_MINE)),
        real=_from(address=NOT_MINE, source="free"),
    ),
    S(
        "an instance as DHCP server",
        *("a", "ear", udp(68, values={"source_port": 67}), "dhcp-server-guard"),
        names="a",
        real=_ports(67, 68),
    ),
    S(
        "an instance as DHCPv6 server",
        *("a", "ear", udp(546, version=6, values={"source_port": 547}), "dhcp-server-guard"),
        names="a",
        real=_ports(547, 546, 6),
    ),
    S(
        "an instance as router",
        *("a", "ear", Packet(version=6, values={"icmp_type": 134}), "ra-guard"),
        names="a",
        real=_frame(lambda site: routes(site.guests["a"].mac)),
    ),
]
RULES = [
    S("no rule", "a", "far", PING, "security-group-ingress", names="group closed", change=c.grouped("far", "closed")),
    S("no rule on the same host", "a", "near", tcp(), change=c.ruled(member="near"), **INGRESS),
    S("no rule for IPv6", "a", "far", PING6, change=c.ruled(allow()), **INGRESS),
    S("a rule for IPv6", "a", "far", PING6, change=c.ruled({"ethertype": "IPv6"})),
    S("the protocol of the rule", "a", "far", tcp(), change=c.ruled(allow("tcp"))),
    S("another protocol", "a", "far", change=c.ruled(allow("tcp")), **INGRESS),
    S("in the port range", "a", "far", tcp(), change=c.ruled(allow("tcp", (75, 85)))),
    S("out of the port range", "a", "far", tcp(), change=c.ruled(allow("tcp", (81, 85))), **INGRESS),
    S("the ICMP type", "a", "far", change=c.ruled(allow("icmp", port_range_min=8))),
    S("another ICMP type", "a", "far", change=c.ruled(allow("icmp", port_range_min=13)), **INGRESS),
    S("in the prefix", "a", "far", change=c.ruled(allow(remote_ip_prefix="10.0.0.0/24"))),
    S("out of the prefix", "a", "far", change=c.ruled(allow(remote_ip_prefix="10.0.9.0/24")), **INGRESS),
    S("a stateful reply", "a", "far", tcp(), change=c.ruled(allow("tcp", 80), lets_out=False)),
    S("no egress rule", "a", "far", PING, "security-group-egress", names="group mute", change=c.grouped("a", "mute")),
    S(
        "an egress rule for another port",
        *("a", "far", tcp(), "security-group-egress"),
        names="group ruled",
        change=c.ruled(allow("tcp", 81, direction="egress"), member="a", lets_out=False),
    ),
    S(
        "a stateless group without a rule for the reply",
        *("a", "near", tcp()),
        reply_cause="security-group-egress",
        names="group ruled",
        change=c.ruled(allow("tcp", 80), member="near", stateful=False, lets_out=False),
    ),
    S(
        "a stateless group with a rule for the reply",
        *("a", "near", tcp()),
        change=c.ruled(
            allow("tcp", 80), allow("tcp", direction="egress"), member="near", stateful=False, lets_out=False
        ),
    ),
    S("a member of the remote group", "a", "far", change=c.remote_group("open")),
    S("no member of the remote group", "a", "far", change=c.remote_group("closed"), **INGRESS),
    S("in the address group", "a", "far", change=c.address_group("10.0.0.0/25", "10.0.0.128/25")),
    S("not in the address group", "a", "far", change=c.address_group("10.9.0.0/16"), **INGRESS),
]
STATES = [
    S("the sending port is disabled", "a", "far", PING, "port-admin-down", names="a", change=_off("a")),
    S("the receiving port is disabled", "a", "far", PING, "port-admin-down", names="far", change=_off("far")),
    S(
        "the network is disabled",
        *("a", "far", PING, "network-admin-down"),
        names="network blue",
        change=c.network("blue", admin_state_up=False),
    ),
    S(
        "an unbound port",
        "legacy-left",
        "spare",
        PING,
        "port-unbound",
        names="spare",
        change=c.spare_port("legacy-left"),
    ),
    S(
        "a host that cannot bind",
        *("a", "spare", PING, "binding-failed"),
        names="spare",
        change=c.spare_port(**{"binding:host_id": "h9", "device_owner": "compute:x"}),
    ),
    S(
        "a port that was never plugged",
        *("a", "spare", PING, "no-device"),
        names="spare",
        change=c.spare_port(**{"binding:host_id": "h2", "device_owner": "compute:x"}),
    ),
    S("an instance that is gone", "a", "far", PING, "no-device", names="far", change=faults.unplugged),
]
VIRTUAL_ADDRESSES = [
    S("to an address that a port reserves and another uses", "legacy-left", "vip"),
    S("from such an address", "vip", "legacy-left", real=lambda s: _pings_from(s, "keeper", "vip", "legacy-left")),
    S("such an address behind a floating IP", OUTSIDE, "floating IP of vip"),
    S("such an address through a router", "legacy-right", "vip"),
    S(
        "an address of a port without port security",
        *("legacy-right", UNLISTED, PING, "no-such-address"),
        verdict=UNKNOWN,
        arrives=True,
        reply=None,
    ),
]
ROUTERS = [
    situation
    for kind in KINDS
    for situation in (
        S(f"{kind}: routed", f"{kind}-left", f"{kind}-right"),
        S(f"{kind}: SNAT", f"{kind}-left", MACHINE),
        S(f"{kind}: a floating IP out", f"{kind}-right", MACHINE),
        S(f"{kind}: a floating IP in", OUTSIDE, f"floating IP of {kind}-right"),
        S(f"{kind}: to a floating IP from the external network", "direct", f"floating IP of {kind}-right"),
        S(f"{kind}: a floating IP to the external network", f"{kind}-right", "direct"),
        S(f"{kind}: to a floating IP from inside", f"{kind}-left", f"floating IP of {kind}-right"),
        S(f"{kind}: a router that is disabled", f"{kind}-left", f"{kind}-right", PING, **_disabled(kind)),
        S(f"{kind}: IPv6", f"{kind}-left", f"{kind}-right", PING6),
        S(
            f"{kind}: a port forwarding",
            *(OUTSIDE, "forwarded", tcp(FORWARDED, at=22, server=f"{kind}-left")),
            change=c.forwarded(f"{kind}-left", FORWARDED, 22),
        ),
    )
]
OUTSIDES = [
    S("beyond the external network", "legacy-left", BEYOND),
    S("from an instance on the external network, by its gateway", "direct", BEYOND),
    S("from an instance on the external network", "direct", MACHINE),
    S(
        "without translation",
        *("plain", MACHINE),
        reply=UNKNOWN,
        reply_cause="no-route-back",
        arrives=False,
    ),
    S(
        "without translation, and the outside has a route",
        *("plain", MACHINE),
        reply=UNKNOWN,
        reply_cause="no-route-back",
        arrives=True,
        change=c.route_outside,
    ),
    S(
        "without translation, to a floating IP of another router",
        *("plain", "floating IP of legacy-right"),
        reply=UNKNOWN,
        reply_cause="no-route-back",
        arrives=False,
    ),
    S("no floating IP", OUTSIDE, "legacy-left", PING, "no-floating-ip"),
    S("a floating IP of no port", OUTSIDE, "idle", PING, "no-floating-ip", change=c.idle_floating_ip),
    S(
        "another port than a forwarded one",
        *(OUTSIDE, "forwarded", tcp(80, server="legacy-left"), "no-floating-ip"),
        change=c.forwarded("legacy-left", FORWARDED, 22),
    ),
    S(
        "a ping to a floating IP with port forwardings",
        *(OUTSIDE, "forwarded"),
        reply=None,
        change=c.forwarded("legacy-left", FORWARDED, 22),
    ),
    S("a port behind another router", "legacy-left", "behind", PING, "not-reached", names="behind"),
    S(
        "the floating IP as source",
        *("legacy-right", MACHINE, Packet(values={"source_address": "floating IP of legacy-right"})),
        "address-spoofed",
        real=lambda s: _pings_with(s, "legacy-right", "floating IP of legacy-right", MACHINE),
    ),
]
ROUTES = [
    S("no route", "island", MACHINE, PING, "no-route", names="router island"),
    S("two address scopes", "scope-red", "scope-green", PING, "address-scope"),
    S("no router", "lonely", MACHINE, PING, "no-router"),
    S("no agent serves the router", "island", "shore", PING, change=c.unscheduled, **_unserved()),
    S("the agent of the router is disabled", "island", "shore", PING, change=c.disabled_agent, **_unserved()),
    S(
        "a route by an instance that forwards",
        *("legacy-left", BEHIND, PING, "next-hop"),
        verdict=UNKNOWN,
        names="gate",
        change=c.routed("legacy", "10.77.0.0/24", "gate"),
    ),
    S(
        "a route by an instance that does not",
        *("legacy-left", "10.77.0.9", PING, "next-hop"),
        verdict=UNKNOWN,
        arrives=False,
        names="gate",
        change=c.routed("legacy", "10.77.0.0/24", "gate"),
    ),
    S(
        "a route by an address that no port has",
        *("island", BEHIND, PING, "no-such-address"),
        change=c.routed("island", "10.77.0.0/24", NOBODY),
    ),
    S(
        "too big behind the router",
        *("legacy-left", "legacy-right", Packet(size=1400), "packet-too-big"),
    ),
]
FIREWALLS = [
    S("a firewall group of an instance", "legacy-left", "legacy-right", **_denied("legacy-right", "icmp")),
    S("legacy: one of a router", "legacy-left", "legacy-right", **_denied("legacy/legacy-right", "icmp")),
    S("dvr: one of a router, TCP", "dvr-left", "dvr-right", tcp(), **_denied("dvr/dvr-right", "tcp")),
    S("dvr: one of a router, ping", "dvr-left", "dvr-right", **_denied("dvr/dvr-right", "icmp")),
    S("dvr: one of a router, UDP", "dvr-left", "dvr-right", udp(5000), **_denied("dvr/dvr-right", "udp")),
    S("dvr-ha: one of a router, ping", "dvr-ha-left", "dvr-ha-right", **_denied("dvr-ha/dvr-ha-right", "icmp")),
    S(
        "dvr-ha: one of a router, UDP",
        "dvr-ha-left",
        "dvr-ha-right",
        udp(5000),
        **_denied("dvr-ha/dvr-ha-right", "udp"),
    ),
    S(
        "dvr: replies pass one of a router, ping",
        "dvr-left",
        "dvr-right",
        change=c.firewall("dvr/dvr-left", protocol="icmp"),
    ),
    S(
        "dvr: replies pass one of a router, UDP",
        *("dvr-left", "dvr-right", udp(5000)),
        change=c.firewall("dvr/dvr-left", protocol="udp"),
    ),
    S(
        "dvr: replies pass one of a router, TCP",
        *("dvr-left", "dvr-right", tcp()),
        change=c.firewall("dvr/dvr-left", protocol="tcp"),
    ),
    S(
        "dvr: one of a router, to the outside",
        *("dvr-left", MACHINE),
        change=c.firewall("dvr/dvr-left", protocol="icmp"),
    ),
    S(
        "dvr: one of a router, to a floating IP",
        *(OUTSIDE, "floating IP of dvr-right"),
        **_denied("dvr/dvr-right", "icmp"),
    ),
    S(
        "another protocol than the firewall group denies",
        *("legacy-left", "legacy-right"),
        change=c.firewall("legacy/legacy-right", protocol="tcp"),
    ),
    S(
        "the security group behind a router",
        *("dvr-left", "dvr-right", PING, "security-group-ingress"),
        names="group closed",
        change=c.grouped("dvr-right", "closed"),
    ),
    S(
        "the security group behind a floating IP",
        *(OUTSIDE, "floating IP of legacy-right", PING, "security-group-ingress"),
        names="group closed",
        change=c.grouped("legacy-right", "closed"),
    ),
]
VPN = [
    S("a VPN connection to a router of the same cloud", "vpn1", "vpn2"),
    S("a VPN connection, to an address", "vpn1", "vpn2", target="vpn2"),
    S(
        "its peer's security group",
        "vpn1",
        "vpn2",
        PING,
        "security-group-ingress",
        change=c.port("vpn2", security_groups=[]),
    ),
    S("another key than its peer's", "vpn1", "vpn2", PING, "vpn-down", change=c.vpn("DOWN", psk="another")),
    S("a disabled VPN connection", "vpn1", "vpn2", PING, "vpn-down", change=c.vpn("DOWN", admin_state_up=False)),
]
FAULTS = [
    S("the underlay's link is down at the receiver", "a", "far", PING, **_link("h2", "underlay")),
    S("the underlay's link is down at the sender", "far", "a", PING, **_link("h2", "underlay")),
    S("the provider's link is down at the receiver", "tagged1", "tagged2", PING, **_link("h2", "provider")),
    S("the provider's link is down at the sender", "tagged2", "tagged1", PING, **_link("h2", "provider")),
    S(
        "the external network's link is down",
        *("legacy-left", MACHINE, PING, "link-down"),
        agrees=False,
        change=faults.external_link_down,
    ),
    S(
        "the external network's link is down, from outside",
        *(OUTSIDE, "floating IP of legacy-right", PING, "link-down"),
        agrees=False,
        change=faults.external_link_down,
    ),
    S(
        "a machine outside that does not answer",
        *("legacy-left", MACHINE, PING, "no-neighbour"),
        agrees=False,
        change=faults.silent_outside,
    ),
    S(
        "the receiver's own device is down",
        "a",
        "far",
        PING,
        "link-down",
        agrees=False,
        change=faults.instance_link_down,
    ),
    S("the sender's own device is down", "far", "a", PING, "link-down", agrees=False, change=faults.instance_link_down),
    S("missing flows", "a", "far", PING, "drift", agrees=False, change=faults.without_flows),
    S("a foreign flow", "a", "far", PING, "drift", agrees=False, change=faults.foreign_flow),
    S("a foreign nft table", "island", "shore", PING, "drift", agrees=False, change=faults.foreign_rule),
    *(
        S(f"a foreign rule of {program}", "island", "shore", PING, "drift", agrees=False, change=change)
        for program in ("iptables-legacy", "iptables-nft")
        for change in (faults.foreign_iptables(program),)
    ),
    S("a missing route", "island", "shore", PING, "drift", agrees=False, change=faults.missing_route),
    S("missing SNAT rules", "behind", MACHINE, PING, "drift", agrees=False, change=faults.without_translation),
    S("a switch that is down", "a", "far", PING, "dataplane-down", change=faults.switch_down),
    S("ha: after a failover", "ha-left", MACHINE, change=faults.failed_over),
    S("ha: after a failover, from outside", OUTSIDE, "floating IP of ha-right", change=faults.failed_over),
]
SITUATIONS: Final[tuple[S, ...]] = (
    *(*ONE_NETWORK, *GUARDS, *RULES, *STATES, *VIRTUAL_ADDRESSES),
    *(*ROUTERS, *OUTSIDES, *ROUTES, *FIREWALLS, *firewalls.DISTRIBUTED, *VPN, *FAULTS),
)
