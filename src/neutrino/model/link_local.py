"""The IPv6 address that a device gives itself from its MAC."""

from __future__ import annotations

from ipaddress import IPv6Address


def link_local(mac: str) -> IPv6Address:
    octets = [int(part, 16) for part in mac.split(":")]
    interface = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return IPv6Address(b"\xfe\x80" + bytes(6) + interface)
