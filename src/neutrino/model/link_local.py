"""The IPv6 link-local address that a device derives from its MAC (EUI-64)."""

from ipaddress import IPv6Address


def link_local(mac: str) -> IPv6Address:
    octets = [int(part, 16) for part in mac.split(":")]
    # RFC 4291: the universal/local bit is inverted, and ff:fe inserted in the middle.
    interface = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return IPv6Address(b"\xfe\x80" + bytes(6) + interface)
