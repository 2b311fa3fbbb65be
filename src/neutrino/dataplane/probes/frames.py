"""Frames of probes: who has this address (ARP, neighbour solicitation), echo requests, and the answers to them. Pure."""

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, NamedTuple

_ETHERNET: Final = struct.Struct("!6s6sH")
_ARP: Final = struct.Struct("!HHBBH6s4s6s4s")
_IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
_IPV6: Final = struct.Struct("!IHBB16s16s")
_ECHO: Final = struct.Struct("!BBHHH")  # of ICMP and ICMPv6
_NEIGHBOUR: Final = struct.Struct("!BBHI16s")  # solicitation and advertisement
_PSEUDO: Final = struct.Struct("!16s16sII")  # of an IPv6 checksum: addresses, length, next header
_ARP_TYPE, _IPV4_TYPE, _IPV6_TYPE = 0x0806, 0x0800, 0x86DD
_ICMP_PROTOCOL, _ICMPV6_PROTOCOL = 1, 58
_REQUEST, _REPLY = 1, 2
_ECHO_REPLY, _ECHO_REQUEST = 0, 8
_ECHO6_REQUEST, _ECHO6_REPLY, _SOLICITATION, _ADVERTISEMENT = 128, 129, 135, 136
_SOURCE_MAC, _TARGET_MAC = 1, 2  # options of a neighbour message
_BROADCAST: Final = b"\xff" * 6
_ECHO_HOPS, _NEIGHBOUR_HOPS = 64, 255  # a neighbour message with fewer hops left has been routed, and is dropped
_PAYLOAD: Final = b"neutrino probe".ljust(32, b"\0")


class NeighbourReply(NamedTuple):
    """An address and its MAC, by ARP or by a neighbour advertisement."""

    address: str
    mac: str
    to: str  # MAC of the one who asked


class EchoReply(NamedTuple):
    identifier: int
    sequence: int


def neighbour_request(mac: str, address: str, peer: str) -> bytes:
    """Who has the peer's address: an ARP request, or a neighbour solicitation."""
    return _solicitation(mac, address, peer) if ":" in peer else _arp_request(mac, address, peer)


def echo_request(mac: str, address: str, peer_mac: str, peer: str, identifier: int, sequence: int) -> bytes:
    if ":" in peer:
        message = _ECHO.pack(_ECHO6_REQUEST, 0, 0, identifier, sequence) + _PAYLOAD
        return _ipv6(_mac(peer_mac), _mac(mac), _ip(address), _ip(peer), _ECHO_HOPS, message)
    icmp = _ECHO.pack(_ECHO_REQUEST, 0, 0, identifier, sequence) + _PAYLOAD
    icmp = _with_checksum(icmp, icmp)
    length = _IPV4.size + len(icmp)
    head = _IPV4.pack(0x45, 0, length, sequence, 0, _ECHO_HOPS, _ICMP_PROTOCOL, 0, _ip(address), _ip(peer))
    head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    return _padded(_ETHERNET.pack(_mac(peer_mac), _mac(mac), _IPV4_TYPE) + head + icmp)


def parse_answer(frame: bytes) -> NeighbourReply | EchoReply | None:
    """None for frames that are no answer, or cut off."""
    try:
        destination, source, kind = _ETHERNET.unpack_from(frame)
        body = frame[_ETHERNET.size :]
        if kind == _ARP_TYPE:
            _, _, _, _, code, sender, address, asked_by, _ = _ARP.unpack_from(body)
            return _neighbour(address, sender, asked_by) if code == _REPLY else None
        if kind == _IPV4_TYPE and body[9] == _ICMP_PROTOCOL:
            message, _, _, identifier, sequence = _ECHO.unpack_from(body, 4 * (body[0] & 0xF))
            return EchoReply(identifier, sequence) if message == _ECHO_REPLY else None
        if kind == _IPV6_TYPE and body[6] == _ICMPV6_PROTOCOL:
            return _parse_icmpv6(destination, source, body[_IPV6.size :])
    except (struct.error, IndexError):
        return None
    return None


def _parse_icmpv6(destination: bytes, source: bytes, message: bytes) -> NeighbourReply | EchoReply | None:
    if message[0] == _ECHO6_REPLY:
        _, _, _, identifier, sequence = _ECHO.unpack_from(message)
        return EchoReply(identifier, sequence)
    if message[0] == _ADVERTISEMENT:
        *_, target = _NEIGHBOUR.unpack_from(message)
        option = message[_NEIGHBOUR.size : _NEIGHBOUR.size + 8]
        # An advertisement to one host may leave its MAC out; then it is that of the frame.
        sender = option[2:] if len(option) == 8 and option[0] == _TARGET_MAC else source
        return _neighbour(target, sender, destination)
    return None


def _neighbour(address: bytes, mac: bytes, to: bytes) -> NeighbourReply:
    return NeighbourReply(str(ip_address(address)), mac.hex(":"), to.hex(":"))


def _arp_request(mac: str, address: str, peer: str) -> bytes:
    source = _mac(mac)
    body = _ARP.pack(1, _IPV4_TYPE, 6, 4, _REQUEST, source, _ip(address), b"\0" * 6, _ip(peer))
    return _padded(_ETHERNET.pack(_BROADCAST, source, _ARP_TYPE) + body)


def _solicitation(mac: str, address: str, peer: str) -> bytes:
    """To the multicast group of the peer's address, with the source that the port may have by its anti-spoofing rules."""
    target, source = _ip(peer), _mac(mac)
    group = IPv6Address("ff02::1:ff00:0").packed[:13] + target[13:]
    message = _NEIGHBOUR.pack(_SOLICITATION, 0, 0, 0, target) + bytes((_SOURCE_MAC, 1)) + source
    return _ipv6(b"\x33\x33" + group[12:], source, _ip(address), group, _NEIGHBOUR_HOPS, message)


def _ipv6(to: bytes, mac: bytes, source: bytes, destination: bytes, hops: int, message: bytes) -> bytes:
    """A frame with an ICMPv6 message, whose checksum is filled in."""
    pseudo = _PSEUDO.pack(source, destination, len(message), _ICMPV6_PROTOCOL)
    message = _with_checksum(message, pseudo + message)
    head = _IPV6.pack(6 << 28, len(message), _ICMPV6_PROTOCOL, hops, source, destination)
    return _padded(_ETHERNET.pack(to, mac, _IPV6_TYPE) + head + message)


def _padded(frame: bytes) -> bytes:
    return frame.ljust(60, b"\0")  # the shortest frame on a wire


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _ip(text: str) -> bytes:
    return IPv6Address(text).packed if ":" in text else IPv4Address(text).packed


def _with_checksum(message: bytes, covered: bytes) -> bytes:
    """A message of ICMP or ICMPv6, whose checksum is 0, with that of what it covers."""
    return message[:2] + struct.pack("!H", _checksum(covered)) + message[4:]


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
