"""Gratuitous ARP and unsolicited neighbour advertisements, which announce an address on a link. Pure.

Without them, neighbours send to the MAC that had the address before until their cache expires. For IPv4 both a request
and a reply are sent, because some switches and systems handle only one of them.
"""

import ipaddress
import struct

_ETH_ARP, _ETH_IPV6 = 0x0806, 0x86DD
_BROADCAST = b"\xff" * 6
_ALL_NODES_MAC = bytes.fromhex("333300000001")
_ALL_NODES = ipaddress.IPv6Address("ff02::1").packed
_ARP_REQUEST, _ARP_REPLY = 1, 2
_ICMPV6, _NEIGHBOUR_ADVERTISEMENT = 58, 136
_ROUTER, _OVERRIDE = 0x80000000, 0x20000000
_TARGET_LINK_ADDRESS = 2


def render_announcement(mac: bytes, address: str, *, router: bool = False) -> tuple[bytes, ...]:
    """The Ethernet frames of one announcement."""
    ip = ipaddress.ip_address(address)
    if ip.version == 4:
        ethernet = struct.pack("!6s6sH", _BROADCAST, mac, _ETH_ARP)
        head = struct.pack("!HHBB", 1, 0x0800, 6, 4)
        # In a request the target's MAC is empty; in a reply it is the sender's own.
        question = struct.pack("!H6s4s6s4s", _ARP_REQUEST, mac, ip.packed, bytes(6), ip.packed)
        answer = struct.pack("!H6s4s6s4s", _ARP_REPLY, mac, ip.packed, mac, ip.packed)
        return ethernet + head + question, ethernet + head + answer
    flags = _OVERRIDE | (_ROUTER if router else 0)
    option = struct.pack("!BB6s", _TARGET_LINK_ADDRESS, 1, mac)
    message = struct.pack("!BBHI16s", _NEIGHBOUR_ADVERTISEMENT, 0, 0, flags, ip.packed) + option
    pseudo = struct.pack("!16s16sIxxxB", ip.packed, _ALL_NODES, len(message), _ICMPV6)
    message = message[:2] + struct.pack("!H", _checksum(pseudo + message)) + message[4:]
    packet = struct.pack("!IHBB16s16s", 6 << 28, len(message), _ICMPV6, 255, ip.packed, _ALL_NODES) + message
    return (struct.pack("!6s6sH", _ALL_NODES_MAC, mac, _ETH_IPV6) + packet,)


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
