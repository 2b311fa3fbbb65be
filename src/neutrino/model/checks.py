"""Validation of feed objects beyond their types: every value that a role parses or puts into a name. Pure.

An invalid object is a problem of that object alone: if it got into the state, rendering would fail for all others too.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import ConntrackHelper, Delegation
from neutrino.model.state import AddressGroup, AddressPair, Member, Object, Port, Rule

MAX_NAME: Final = 255
MAX_SHOWN: Final = 60
MAC: Final = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}\Z", re.IGNORECASE)
ADDRESS_MODES: Final = (None, "slaac", "dhcpv6-stateful", "dhcpv6-stateless")
Check = Callable[[Any], bool]


@lru_cache(maxsize=65536)
def _address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return "%" not in value


@lru_cache(maxsize=65536)
def _prefix(value: str) -> bool:
    try:
        ipaddress.ip_network(value, strict=False)
    except ValueError:
        return False
    return "%" not in value


def _mac(value: str) -> bool:
    return MAC.match(value) is not None


def _path_name(value: str) -> bool:
    """Files, devices and namespaces are named after it: a slash would leave the directory."""
    return _word(value) and "/" not in value and value not in (".", "..")


def _word(value: str) -> bool:
    return 0 < len(value) <= MAX_NAME and value.isprintable()


def _optional(check: Check) -> Check:
    return lambda value: value is None or value == "" or check(value)


def _all(check: Check) -> Check:
    return lambda values: all(map(check, values))


def _within(least: int, most: int) -> Check:
    return lambda value: value is None or least <= value <= most


def _one_of(*known: object) -> Check:
    return lambda value: value in known


_NUMBER, _L4_PORT = _within(0, 2**63 - 1), _within(0, 65535)
_BY_NAME: Final[Mapping[str, Check]] = {
    "id": _path_name,
    "revision": _NUMBER,
    "network_id": _path_name,
    "mac_address": _mac,
    "ip_address": _address,
    "ip_addresses": _all(_address),
    "floating_ip_address": _address,
    "fixed_ip_address": _address,
    "external_ip_address": _address,
    "internal_ip_address": _address,
    "nexthop": _address,
    "gateway_ip": _optional(_address),
    "tunneling_ip": _optional(_address),
    "dns_nameservers": _all(_address),
    "cidr": _prefix,
    "destination": _prefix,
    "other_subnets": _all(_prefix),
    "remote_ip_prefix": _optional(_prefix),
    "host_routes": _all(lambda route: _prefix(route[0]) and _address(route[1])),
    "ip_version": _one_of(4, 6),
    "mtu": _within(0, 65536),
    "network_type": _word,
    "tunnel_types": _all(_word),
    "physical_network": _optional(_word),
    "segmentation_id": _within(0, 2**32 - 1),
    "ra_mode": _one_of(*ADDRESS_MODES),
    "ipv6_ra_mode": _one_of(*ADDRESS_MODES),
    "ipv6_address_mode": _one_of(*ADDRESS_MODES),
    "direction": _one_of("ingress", "egress"),
    "ethertype": _one_of("IPv4", "IPv6"),
    "port_min": _L4_PORT,
    "port_max": _L4_PORT,
    "external_port_first": _L4_PORT,
    "external_port_last": _L4_PORT,
    "internal_port_first": _L4_PORT,
    "internal_port_last": _L4_PORT,
    "vr_id": _within(1, 255),
    "priority": _within(1, 255),
}
_BY_CLASS: Final[Mapping[tuple[type, str], Check]] = {
    (AddressPair, "mac_address"): _optional(_mac),
    (AddressPair, "ip_address"): _prefix,
    (Member, "mac_address"): _optional(_mac),
    (Member, "ip_address"): _prefix,
    (AddressGroup, "addresses"): _all(_prefix),
    (Rule, "id"): _optional(_word),
    (Delegation, "subnet_id"): _path_name,
    (Delegation, "prefix"): _optional(_prefix),
    (ConntrackHelper, "port"): _L4_PORT,
    (ConntrackHelper, "protocol"): _word,
    (ConntrackHelper, "helper"): _word,
    (Port, "host"): _optional(_word),
    (DhcpPort, "host"): _optional(_word),
}
_PROTOCOL = _within(0, 255)


def fault(value: Object) -> str:
    """What is wrong with an object, with the field's name; empty if nothing is."""
    return _struct_fault(value, "")


def member_fault(value: Member) -> str:
    return _struct_fault(value, "members.")


def _struct_fault(value: msgspec.Struct, where: str) -> str:
    cls = type(value)
    for name in cls.__struct_fields__:
        given = getattr(value, name)
        check = _BY_CLASS.get((cls, name)) or _BY_NAME.get(name)
        if name == "protocol" and (given is None or isinstance(given, int)):
            check = _PROTOCOL
        if check is not None and not check(given):
            return f"{where}{name}: {_shown(given)} is not valid"
        if found := _inside(given, f"{where}{name}."):
            return found
    return ""


def _inside(given: object, where: str) -> str:
    if isinstance(given, msgspec.Struct):
        return _struct_fault(given, where)
    if isinstance(given, tuple | frozenset):
        for each in given:
            if isinstance(each, msgspec.Struct) and (found := _struct_fault(each, where)):
                return found
    return ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
