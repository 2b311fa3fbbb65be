"""Packets for the fake switch: the fields that flows match, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from ipaddress import ip_address

from neutrino.dataplane.openflow.text import canonical_match, field_name, format_number, parse_number

BROADCAST = "ff:ff:ff:ff:ff:ff"
ICMP, TCP, UDP, ICMPV6, IPV6_FRAGMENT = 1, 6, 17, 58, 44
NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT = 135, 136
ROUTER_SOLICITATION, ROUTER_ADVERTISEMENT = 133, 134

_SWAPPED = (("dl_src", "dl_dst"), ("nw_src", "nw_dst"), ("ipv6_src", "ipv6_dst"), ("tp_src", "tp_dst"))


@dataclasses.dataclass(frozen=True)
class Packet:
    fields: Mapping[str, int]
    inner_tags: tuple[int, ...] = ()
    about: Packet | None = None  # what an ICMP error complains of
    invalid: bool = False  # one that conntrack makes nothing of, such as a bad checksum
    unseen: Mapping[str, int] = dataclasses.field(
        default_factory=dict
    )  # of a fragment: what only conntrack puts together

    def __getitem__(self, name: str) -> str:
        """A field as text: `packet["dl_src"]`."""
        field = field_name(name)
        return format_number(field, self.fields.get(field, 0))

    @property
    def vlan(self) -> int | None:
        tci = self.fields.get("vlan_tci", 0)
        return tci & 0xFFF if tci & 0x1000 else None

    def having(self, **values: str | int) -> Packet:
        """The same packet with some fields changed; `vlan` sets a tag."""
        fields = dict(self.fields)
        for name, value in values.items():
            if name == "vlan":
                fields["vlan_tci"] = 0x1000 | int(value)
            else:
                field = field_name(name)
                fields[field] = value if isinstance(value, int) else parse_number(field, value)
        return dataclasses.replace(self, fields=fields)

    def text(self) -> str:
        """As `ofproto/trace` takes it."""
        parts = [f"{name}={format_number(name, number)}" for name, number in self.fields.items() if name != "vlan_tci"]
        tag = [f"dl_vlan={self.vlan}"] if self.vlan is not None else []
        return canonical_match(",".join([*parts, *tag]))


def frame(source: str, destination: str, **values: str | int) -> Packet:
    return Packet({}).having(dl_src=source, dl_dst=destination, **values)


def arp_request(source: str, source_ip: str, wanted_ip: str) -> Packet:
    arp = frame(source, BROADCAST, dl_type=0x0806, arp_op=1, arp_spa=source_ip, arp_tpa=wanted_ip)
    return arp.having(arp_sha=source)


def arp_reply(source: str, source_ip: str, destination: str, destination_ip: str) -> Packet:
    arp = frame(source, destination, dl_type=0x0806, arp_op=2, arp_spa=source_ip, arp_tpa=destination_ip)
    return arp.having(arp_sha=source, arp_tha=destination)


def ip(source: tuple[str, str], destination: tuple[str, str], protocol: int, **values: str | int) -> Packet:
    """A packet of either family, from (MAC, address) to (MAC, address)."""
    (source_mac, source_ip), (destination_mac, destination_ip) = source, destination
    bare = frame(source_mac, destination_mac, nw_proto=protocol, **values)
    if ip_address(source_ip).version == 4:
        return bare.having(dl_type=0x0800, nw_src=source_ip, nw_dst=destination_ip)
    return bare.having(dl_type=0x86DD, ipv6_src=source_ip, ipv6_dst=destination_ip)


def tcp(source: tuple[str, str], destination: tuple[str, str], port: int, *, source_port: int = 40000) -> Packet:
    return ip(source, destination, TCP, tp_src=source_port, tp_dst=port)


def udp(source: tuple[str, str], destination: tuple[str, str], port: int, *, source_port: int = 40000) -> Packet:
    return ip(source, destination, UDP, tp_src=source_port, tp_dst=port)


def icmp(source: tuple[str, str], destination: tuple[str, str], kind: int = 8, code: int = 0) -> Packet:
    protocol = ICMP if ip_address(source[1]).version == 4 else ICMPV6
    return ip(source, destination, protocol, icmp_type=kind, icmp_code=code)


def neighbour(kind: int, source: tuple[str, str], destination: tuple[str, str], target: str) -> Packet:
    """A neighbour solicitation or advertisement."""
    return icmp(source, destination, kind).having(nd_target=target)


def reply(packet: Packet) -> Packet:
    """What the receiver answers: addresses and ports the other way round."""
    fields = dict(packet.fields)
    for one, other in _SWAPPED:
        if one in fields:
            fields[one], fields[other] = fields[other], fields[one]
    for request, answer in ((8, 0), (128, 129)):
        if fields.get("icmp_type") == request and fields.get("nw_proto") in (ICMP, ICMPV6):
            fields["icmp_type"] = answer
            break
    return dataclasses.replace(packet, fields=fields)


def fragment(whole: Packet, kind: str = "first") -> Packet:
    """A fragment of a packet, in which flows see no ports; of one after the first by IPv6, no protocol either."""
    names = {"tp_src", "tp_dst", "icmp_type", "icmp_code", "nd_target"} & whole.fields.keys()
    fields = {name: value for name, value in whole.fields.items() if name not in names}
    unseen = {name: whole.fields[name] for name in (*names, "nw_proto")}
    if kind == "later" and whole.fields["dl_type"] == 0x86DD:
        fields["nw_proto"] = IPV6_FRAGMENT
    # Neighbour discovery in fragments is nothing to conntrack (and to hosts: RFC 6980).
    invalid = whole.invalid or (unseen["nw_proto"] == ICMPV6 and 133 <= unseen.get("icmp_type", 0) <= 137)
    return dataclasses.replace(whole, fields=fields, unseen=unseen, invalid=invalid).having(nw_frag=kind)


def error_about(packet: Packet, source: tuple[str, str]) -> Packet:
    """An ICMP error that somebody on the way sends to the sender of a packet."""
    family4 = packet.fields["dl_type"] == 0x0800
    sender = packet["nw_src"] if family4 else packet["ipv6_src"]
    bare = icmp(source, (packet["dl_src"], sender), 3 if family4 else 1, 1)
    return dataclasses.replace(bare, about=packet)
