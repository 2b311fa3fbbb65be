"""Frames of probes: ARP requests and ICMP echo requests, and the answers to them. Pure."""

import struct
from ipaddress import IPv4Address
from typing import Final, NamedTuple

_ETHERNET: Final = struct.Struct("!6s6sH")
_ARP: Final = struct.Struct("!HHBBH6s4s6s4s")
_IPV4: Final = struct.Struct("!BBHHHBBH4s4s")
_ICMP: Final = struct.Struct("!BBHHH")
_ARP_TYPE, _IPV4_TYPE, _ICMP_PROTOCOL = 0x0806, 0x0800, 1
_REQUEST, _REPLY = 1, 2
_ECHO_REPLY, _ECHO_REQUEST = 0, 8
_BROADCAST: Final = b"\xff" * 6
_PAYLOAD: Final = b"neutrino probe".ljust(32, b"\0")


class ArpReply(NamedTuple):
    address: str
    mac: str
    to: str  # MAC of the one who asked


class EchoReply(NamedTuple):
    identifier: int
    sequence: int


def arp_request(mac: str, address: str, peer: str) -> bytes:
    source = _mac(mac)
    body = _ARP.pack(1, _IPV4_TYPE, 6, 4, _REQUEST, source, _ip(address), b"\0" * 6, _ip(peer))
    return _padded(_ETHERNET.pack(_BROADCAST, source, _ARP_TYPE) + body)


def echo_request(mac: str, address: str, peer_mac: str, peer: str, identifier: int, sequence: int) -> bytes:
    icmp = _ICMP.pack(_ECHO_REQUEST, 0, 0, identifier, sequence) + _PAYLOAD
    icmp = _ICMP.pack(_ECHO_REQUEST, 0, _checksum(icmp), identifier, sequence) + _PAYLOAD
    length = _IPV4.size + len(icmp)
    head = _IPV4.pack(0x45, 0, length, sequence, 0, 64, _ICMP_PROTOCOL, 0, _ip(address), _ip(peer))
    head = head[:10] + struct.pack("!H", _checksum(head)) + head[12:]
    return _padded(_ETHERNET.pack(_mac(peer_mac), _mac(mac), _IPV4_TYPE) + head + icmp)


def parse_answer(frame: bytes) -> ArpReply | EchoReply | None:
    """None for frames that are no answer, or cut off."""
    try:
        _, _, kind = _ETHERNET.unpack_from(frame)
        body = frame[_ETHERNET.size :]
        if kind == _ARP_TYPE:
            _, _, _, _, code, sender, address, asked_by, _ = _ARP.unpack_from(body)
            return ArpReply(str(IPv4Address(address)), sender.hex(":"), asked_by.hex(":")) if code == _REPLY else None
        if kind == _IPV4_TYPE and body[9] == _ICMP_PROTOCOL:
            message, _, _, identifier, sequence = _ICMP.unpack_from(body, 4 * (body[0] & 0xF))
            return EchoReply(identifier, sequence) if message == _ECHO_REPLY else None
    except (struct.error, IndexError):
        return None
    return None


def _padded(frame: bytes) -> bytes:
    return frame.ljust(60, b"\0")  # the shortest frame on a wire


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _ip(text: str) -> bytes:
    return IPv4Address(text).packed


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
