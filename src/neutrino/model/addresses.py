"""Parses addresses and prefixes that others give: the one place where their text is judged. Pure.

Refused besides what is no address: a zone index, which is valid on one host only, and IPv4-mapped IPv6 (`::ffff:a.b.c.d`).
Such an address is IPv4 to a socket of the kernel, but IPv6 to every check: it would pass those for loopback addresses,
link-local addresses, the hosts' own, or a prefix.
"""

import ipaddress
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface
MAX_SHOWN: Final = 36  # characters of a wrong address in a message
MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")


def parse_address(text: str) -> Address:
    """ValueError if it is none."""
    _check_zone(text)
    address = ipaddress.ip_address(text)
    if address in MAPPED:
        raise ValueError(f"{text} is an IPv4-mapped address")
    return address


def parse_network(text: str) -> Network:
    """A prefix without its host bits; an address is one of full length. ValueError if it is none."""
    _check_zone(text)
    network = ipaddress.ip_network(text, strict=False)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(MAPPED):
        raise ValueError(f"{text} is a prefix of IPv4-mapped addresses")
    return network


def parse_interface(text: str) -> Interface:
    """An address with its prefix length. ValueError if it is none."""
    parse_network(text)
    return ipaddress.ip_interface(text)


def tunnel_address_fault(text: str | None) -> str:
    """What is wrong with a tunnel address, to which other hosts send; empty if nothing is, or there is none."""
    if not text:
        return ""
    try:
        address = parse_address(text)
    except ValueError:
        return f"{text[:MAX_SHOWN]!r} is no IP address of one host"
    if address.is_multicast or address.is_unspecified or address == ipaddress.IPv4Address(2**32 - 1):
        return f"{address} is not the address of one host"
    return ""


def _check_zone(text: str) -> None:
    if "%" in text:
        raise ValueError(f"{text} has a zone index")


def link_local(mac: str) -> ipaddress.IPv6Address:
    """The IPv6 address that a device derives from its MAC (EUI-64)."""
    octets = [int(part, 16) for part in mac.split(":")]
    # RFC 4291: the universal/local bit is inverted, and ff:fe inserted in the middle.
    interface = bytes([octets[0] ^ 2, *octets[1:3], 0xFF, 0xFE, *octets[3:]])
    return ipaddress.IPv6Address(b"\xfe\x80" + bytes(6) + interface)
