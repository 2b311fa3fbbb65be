"""Answers to packets that a firewall group of an instance port rejects: the packets to send. Pure.

The switch cannot answer, so a flow of a rule that rejects copies the packet to the agent, by a meter of the group, and
drops it. The agent answers in the name of the packet's target, as a router does:

    TCP            a reset
    all else       ICMP or ICMPv6 port unreachable, with the beginning of the packet

A packet from a port is answered out of that port. One to a port is answered as if the port had sent it, after the group's
own table: security groups know its connection and check its source, and the answer takes the way of any packet of the
port, to another host too.

What must not be answered (RFC 1122, RFC 4443): resets, errors, later fragments, and packets from or to addresses that are
not of one machine. Ethernet addresses that are not of one machine are not answered either.
"""

import struct
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from neutrino.agent.l2.desired import L2Options
from neutrino.agent.l2.packets import FIREWALL_GROUPS
from neutrino.agent.l2.pipeline import EXTENSION_TABLES
from neutrino.agent.runtime.bucket import Bucket, SharedBucket
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, TCP
from neutrino.dataplane.protocols.packet_in import PacketIn, PacketOut

RECEIVER = 5  # the register with the port that a packet is for: REG_PORT
# Answers of a host, whatever its groups' meters let through, and besides those of each port, whatever others have rejected.
PER_SECOND, AT_ONCE = 1000.0, 200.0
PORT_PER_SECOND, PORT_AT_ONCE = 10.0, 10.0
_ETHERNET, _VLAN, _IPV4, _IPV6 = 14, 0x8100, 0x0800, 0x86DD
_QUOTED = 548  # bytes of the packet in an error: it fits into any packet
_TTL = 64
_ERRORS = frozenset({3, 4, 5, 11, 12})  # of ICMP; of ICMPv6 those below 128, and redirects
_REDIRECT_6 = 137
_EXTENSIONS, _FRAGMENT = frozenset({0, 43, 60}), 44  # headers between that of IPv6 and the protocol's
_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
Address = IPv4Address | IPv6Address


class _Ip(NamedTuple):
    """A packet of IPv4 or IPv6."""

    source: Address
    target: Address
    protocol: int
    payload: bytes  # after all headers of IP; its end may be missing
    length: int  # of the payload, as the header says
    data: bytes  # all that there is of the packet


def answers(clock: Callable[[], float]) -> SharedBucket:
    """Limits the answers, by ports of the switch (`rejecting_port`)."""
    return SharedBucket(Bucket(clock, PER_SECOND, AT_ONCE), lambda: Bucket(clock, PORT_PER_SECOND, PORT_AT_ONCE))


def rejecting_port(copied: PacketIn) -> int:
    """The port whose group has rejected a packet: its sender, or the one that it is for."""
    return copied.in_port if copied.table in EXTENSION_TABLES else copied.registers.get(RECEIVER, 0)


def refuse(copied: PacketIn, options: L2Options) -> PacketOut | None:
    """The answer to a packet that a flow of a firewall group has copied; None if there must not be one."""
    from_ports, to_ports = options.extension_table(FIREWALL_GROUPS), options.ingress_table(FIREWALL_GROUPS)
    data = answer(copied.data) if copied.table in (from_ports.number, to_ports.number) else None
    if data is None:
        return None
    if copied.table == from_ports.number:
        return PacketOut(copied.in_port, data)
    receiver = copied.registers.get(RECEIVER, 0)
    return PacketOut(receiver, data, options.after_extension(from_ports).number) if receiver else None


def answer(frame: bytes) -> bytes | None:
    """The frame that answers another one; None if there must not be one."""
    head = _ETHERNET + 4 if frame[12:14] == _VLAN.to_bytes(2, "big") else _ETHERNET
    if len(frame) < head or not (_is_station(frame[0:6]) and _is_station(frame[6:12])):
        return None
    found = _parse(int.from_bytes(frame[head - 2 : head], "big"), frame[head:])
    if found is None or not (_is_machine(found.source) and _is_machine(found.target)):
        return None
    if found.protocol == TCP:
        answered = _reset(found)
    elif _is_error(found):
        return None
    else:
        answered = _unreachable(found)
    return frame[6:12] + frame[0:6] + frame[12:head] + answered if answered else None


def _is_station(mac: bytes) -> bool:
    return not mac[0] & 1 and any(mac)


def _is_machine(address: Address) -> bool:
    wrong = address.is_multicast or address.is_unspecified or address.is_loopback
    return not (wrong or (address.version == 4 and address.is_reserved))  # 240.0.0.0/4, with the broadcast address


def _is_error(packet: _Ip) -> bool:
    """Also a packet of ICMP whose kind is not there."""
    if packet.protocol not in (ICMP, ICMPV6):
        return False
    if not packet.payload:
        return True
    kind = packet.payload[0]
    return kind in _ERRORS if packet.protocol == ICMP else kind < 128 or kind == _REDIRECT_6


# --- reading ----------------------------------------------------------------------------------------------------------


def _parse(kind: int, data: bytes) -> _Ip | None:
    if kind == _IPV4 and len(data) >= 20 and data[0] >> 4 == 4:
        return _parse_4(data)
    if kind == _IPV6 and len(data) >= 40 and data[0] >> 4 == 6:
        return _parse_6(data)
    return None


def _parse_4(data: bytes) -> _Ip | None:
    head, total = (data[0] & 0x0F) * 4, int.from_bytes(data[2:4], "big")
    fragment = int.from_bytes(data[6:8], "big") & 0x1FFF
    if not 20 <= head <= min(len(data), total) or fragment:
        return None
    source, target = ip_address(data[12:16]), ip_address(data[16:20])
    return _Ip(source, target, data[9], data[head:total], total - head, data[:total])


def _parse_6(data: bytes) -> _Ip | None:
    total, start, protocol = 40 + int.from_bytes(data[4:6], "big"), 40, data[6]
    while protocol in _EXTENSIONS or protocol == _FRAGMENT:
        if len(data) < start + 8 or (protocol == _FRAGMENT and int.from_bytes(data[start + 2 : start + 4], "big") >> 3):
            return None
        size = 8 if protocol == _FRAGMENT else 8 * (data[start + 1] + 1)
        protocol, start = data[start], start + size
    if start > total:
        return None
    source, target = ip_address(data[8:24]), ip_address(data[24:40])
    return _Ip(source, target, protocol, data[start:total], total - start, data[:total])


# --- writing ----------------------------------------------------------------------------------------------------------


def _reset(packet: _Ip) -> bytes | None:
    """As RFC 9293 (3.10.7.1) has it for a segment to a connection that does not exist."""
    if len(packet.payload) < 20:
        return None
    source, target, sequence, acknowledged, offset, flags = struct.unpack_from("!HHIIBB", packet.payload)
    head = (offset >> 4) * 4
    if flags & _RST or not 20 <= head <= packet.length:
        return None
    if flags & _ACK:
        numbers, answered = (acknowledged, 0), _RST
    else:
        size = packet.length - head + bool(flags & _SYN) + bool(flags & _FIN)
        numbers, answered = (0, (sequence + size) & 0xFFFFFFFF), _RST | _ACK
    return _packet(packet, TCP, struct.pack("!HHIIBBHHH", target, source, *numbers, 5 << 4, answered, 0, 0, 0), 16)


def _unreachable(packet: _Ip) -> bytes:
    protocol, kind, code = (ICMP, 3, 3) if packet.source.version == 4 else (ICMPV6, 1, 4)
    return _packet(packet, protocol, struct.pack("!BBHI", kind, code, 0, 0) + packet.data[:_QUOTED], 2)


def _packet(answered: _Ip, protocol: int, payload: bytes, at: int) -> bytes:
    """A packet back to the sender; the checksum of its payload is `at` there."""
    source, target = answered.target.packed, answered.source.packed
    four = answered.source.version == 4
    pseudo = b"" if four and protocol == ICMP else source + target + struct.pack("!II", len(payload), protocol)
    payload = payload[:at] + _checksum(pseudo + payload).to_bytes(2, "big") + payload[at + 2 :]
    if not four:
        return struct.pack("!IHBB", 6 << 28, len(payload), protocol, _TTL) + source + target + payload
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, _TTL, protocol, 0) + source + target
    return header[:10] + _checksum(header).to_bytes(2, "big") + header[12:] + payload


def _checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
