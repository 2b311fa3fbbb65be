"""Packets as Open vSwitch reads and prints them. Pure."""

import contextlib
import re
from collections.abc import Mapping
from typing import Final

import msgspec

from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, SCTP, TCP, UDP
from neutrino.dataplane.inspection.api import Tuple5
from neutrino.dataplane.openflow.text import CT_BITS, field_name, match_fields, parse_set_field
from neutrino.dataplane.openflow.trace import Fork
from neutrino.model.trace import Packet

Tags = tuple[int, ...]
"""VLAN ids of a packet's tags, the outer one first."""
NAMES: Final = {TCP: "tcp", UDP: "udp", SCTP: "sctp", ICMP: "icmp", ICMPV6: "icmp6"}
WITH_PORTS: Final = (TCP, UDP, SCTP)
_REPLIES: Final = {0: 8, 129: 128}  # types of ICMP replies, to those of the requests
_LOAD = re.compile(r"load:(\w+)->NXM_NX_(REG\d+)\[")
_MASKED = re.compile(r"set_field:(\w+)/(\w+)->(\w+)$")
NEW, REPLY = "new|trk", "est|rpl|trk"  # connection states: the first packet of a connection, and a reply to it


def version(packet: Packet) -> int:
    return 6 if ":" in packet.source else 4


def describe(packet: Packet) -> str:
    """A packet in a few words."""
    name = NAMES.get(packet.protocol, f"protocol {packet.protocol}")
    if packet.protocol in WITH_PORTS:
        bracket = "[{}]" if version(packet) == 6 else "{}"
        one, other = bracket.format(packet.source), bracket.format(packet.destination)
        return f"{name} {one}:{packet.source_port} → {other}:{packet.destination_port}"
    kind = f" type {packet.destination_port}" if packet.protocol in (ICMP, ICMPV6) else ""
    return f"{name}{kind} {packet.source} → {packet.destination}"


def flow_text(packet: Packet, in_port: int, tags: Tags = (), tunnel: tuple[int, str, str] | None = None) -> str:
    """Return a packet as `ofproto/trace` takes it. `tunnel`: id, and outer source and destination."""
    words = [f"in_port={in_port}", *_headers(packet)]
    if tags:
        words.append(f"dl_vlan={tags[0]}")
    if tunnel is not None:
        number, source, destination = tunnel
        prefix = "tun_ipv6" if ":" in source else "tun"
        words += [f"tun_id={number:#x}", f"{prefix}_src={source}", f"{prefix}_dst={destination}"]
    return ",".join(words)


def _headers(packet: Packet) -> list[str]:
    six = version(packet) == 6
    name = NAMES.get(packet.protocol)
    if name is None or ((packet.protocol == ICMPV6) != six and packet.protocol in (ICMP, ICMPV6)):
        words = ["ipv6" if six else "ip", f"nw_proto={packet.protocol}"]
    else:
        words = [f"{name}6" if six and packet.protocol in WITH_PORTS else name]
    words += [f"dl_src={packet.eth_src}", f"dl_dst={packet.eth_dst}"]
    prefix = "ipv6" if six else "nw"
    words += [f"{prefix}_src={packet.source}", f"{prefix}_dst={packet.destination}", f"nw_ttl={packet.ttl}"]
    if packet.protocol in WITH_PORTS:
        words += [f"{name}_src={packet.source_port}", f"{name}_dst={packet.destination_port}"]
    elif name in ("icmp", "icmp6") and name == words[0]:
        field = "icmpv6" if six else "icmp"
        words += [f"{field}_type={packet.destination_port}", f"{field}_code={packet.icmp_code}"]
    return words


def resumed(fork: Fork, packet: Packet) -> tuple[Packet, Tags]:
    """The packet that conntrack returns: as rewritten before it was sent there."""
    fields = fork.fields
    changed = {
        name: fields[field]
        for name, field in (
            ("eth_src", "dl_src"),
            ("eth_dst", "dl_dst"),
            *((("source", "ipv6_src"), ("destination", "ipv6_dst")) if version(packet) == 6 else ()),
            *((("source", "nw_src"), ("destination", "nw_dst")) if version(packet) == 4 else ()),
        )
        if field in fields
    }
    tags = (int(fields["dl_vlan"]),) if "dl_vlan" in fields else ()
    return msgspec.structs.replace(packet, **changed), tags


def resumed_text(fork: Fork, packet: Packet, tags: Tags, in_port: int, mark: int = 0) -> str:
    """The flow of a packet that conntrack returns: registers, connection state, and the connection's first packet."""
    words = [f"{name}={value}" for name, value in fork.fields.items() if name == "metadata" or name.startswith("reg")]
    first = first_packet(packet)
    state = REPLY if packet.reply else NEW
    zone = fork.fields.get("ct_zone", "0")
    words += [f"ct_state={state}", f"ct_zone={zone}", f"ct_mark={mark:#x}"]
    prefix = "ct_ipv6" if version(packet) == 6 else "ct_nw"
    words += [f"{prefix}_src={first.source}", f"{prefix}_dst={first.destination}", f"ct_nw_proto={packet.protocol}"]
    if packet.protocol in WITH_PORTS:
        words += [f"ct_tp_src={first.source_port}", f"ct_tp_dst={first.destination_port}"]
    elif packet.protocol in (ICMP, ICMPV6):
        words += [f"ct_tp_src={first.destination_port}", f"ct_tp_dst={packet.icmp_code}"]
    return ",".join((*words, flow_text(packet, in_port, tags)))


def first_packet(packet: Packet) -> Tuple5:
    """The first packet of the connection; of ICMP the destination port is the type of the request."""
    own = Tuple5(packet.protocol, packet.source, packet.destination, packet.source_port, packet.destination_port)
    if not packet.reply:
        return own
    if packet.protocol in (ICMP, ICMPV6):
        request = _REPLIES.get(packet.destination_port, packet.destination_port)
        return Tuple5(packet.protocol, packet.destination, packet.source, 0, request)
    return own.reversed()


def connection_tuple(packet: Packet) -> Tuple5:
    """The packet's own direction, as the kernel's connection tracker prints it."""
    ports = (packet.source_port, packet.destination_port) if packet.protocol in WITH_PORTS else (0, 0)
    return Tuple5(packet.protocol, packet.source, packet.destination, *ports)


# --- state of a packet in the pipeline --------------------------------------------------------------------------------


def numbers(text: str) -> dict[str, int]:
    """Fields of a flow as numbers, under their canonical names; fields of tunnels' ends are left out."""
    found: dict[str, int] = {}
    for word in text.split(","):
        if word.startswith("tun_") and not word.startswith("tun_id="):
            continue
        if word.startswith("ct_state="):
            found["ct_state"] = sum(CT_BITS[bit] for bit in word.partition("=")[2].split("|") if bit in CT_BITS)
            continue
        found |= {name: value for name, (value, _), _ in match_fields(word)}
    return found


def after(state: Mapping[str, int], actions: tuple[str, ...]) -> dict[str, int]:
    """The state after the actions of a flow, as far as flows match by it."""
    found = dict(state)
    for action in actions:
        if action.startswith("set_field:"):
            _set_field(found, action)
        elif load := _LOAD.match(action):
            found[load[2].lower()] = int(load[1], 0)
        elif action.startswith("push_vlan"):
            found["vlan_tci"] = 0x1000
        elif action in ("pop_vlan", "strip_vlan"):
            found["vlan_tci"] = 0
        elif action == "ct_clear":
            found = {name: value for name, value in found.items() if not name.startswith("ct_")}
    return found


def _set_field(found: dict[str, int], action: str) -> None:
    with contextlib.suppress(ValueError, KeyError):  # a field that no flow of ours matches
        if masked := _MASKED.match(action):
            name, mask = field_name(masked[3]), int(masked[2], 0)
            found[name] = found.get(name, 0) & ~mask | int(masked[1], 0) & mask
            return
        name, value = parse_set_field(action)
        found["vlan_tci" if name == "vlan_vid" else name] = value | (0x1000 if name == "vlan_vid" else 0)
