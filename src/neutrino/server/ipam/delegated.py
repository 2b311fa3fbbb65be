"""Subnets with a delegated prefix (prefix delegation, PD): checks of requests, and addresses on a changing prefix. Pure.

Until the prefix is delegated, the subnet has the provisional prefix ::/64, which hosts never use. When the prefix changes,
every address keeps its interface identifier, because guests form their addresses in the same way.
"""

import ipaddress
from typing import Final

from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.ipam.subnet_rules import SLAAC, STATELESS, default_pools

POOL: Final = "prefix_delegation"  # the subnetpool_id of such a subnet, as in Neutron
PROVISIONAL: Final = "::/64"
_PROVISIONAL: Final = ipaddress.IPv6Network(PROVISIONAL)
_HOST_BITS: Final = 64  # SLAAC needs a /64
_MODES: Final = (SLAAC, STATELESS)
_DERIVED: Final = ("gateway_ip", "allocation_pools")  # from the prefix


def is_delegated(subnet: Values) -> bool:
    return bool(subnet["subnetpool_id"] == POOL)


def is_provisional(cidr: str) -> bool:
    return cidr == PROVISIONAL


def in_provisional(address: str) -> bool:
    """Whether an address is on a subnet without a prefix yet. The text is compared first: this is called per address."""
    return address.startswith("::") and ipaddress.ip_address(address) in _PROVISIONAL


def asks_for_delegation(values: Values, by_default: bool) -> bool:
    """Whether a request asks for delegation: by pool, or (`by_default`) by asking for the default pool of IPv6."""
    if values.get("cidr"):
        return False
    pool = values.get("subnetpool_id")
    if pool is None:
        return bool(by_default and values.get("use_default_subnetpool") and values["ip_version"] == 6)
    return bool(pool == POOL)


def check_request(values: Values) -> None:
    if values["ip_version"] != 6:
        raise _refused("ip_version", "only IPv6 prefixes are delegated")
    for name in ("ipv6_ra_mode", "ipv6_address_mode"):
        if values.get(name) not in _MODES:
            raise _refused(name, f"must be {' or '.join(_MODES)} where the prefix is delegated")
    if values.get("prefixlen", _HOST_BITS) != _HOST_BITS:
        raise _refused("prefixlen", f"must be {_HOST_BITS} where the prefix is delegated")
    for name in _DERIVED:
        if name in values:
            raise _refused(name, "comes with the delegated prefix and cannot be given")


def check_update(subnet: Values, values: Values) -> None:
    for name in _DERIVED if is_delegated(subnet) else ():
        if name in values and values[name] != subnet[name]:
            raise _refused(name, "comes with the delegated prefix and cannot be changed")


def _refused(name: str, why: str) -> errors.BadRequest:
    return errors.BadRequest(resource="subnets", msg=f"{name}: {why}")


def addressing(cidr: str) -> Object:
    """Attributes derived from the prefix: the router has its first address, the others are for hosts."""
    prefix = ipaddress.IPv6Network(cidr)
    gateway = str(prefix.network_address + 1)
    return {"cidr": cidr, "gateway_ip": gateway, "allocation_pools": default_pools(prefix, gateway)}


def renumbered(address: str, cidr: str) -> str:
    """The address with the same interface identifier on another prefix."""
    identifier = int(ipaddress.IPv6Address(address)) % 2**_HOST_BITS
    return str(ipaddress.IPv6Network(cidr).network_address + identifier)


def is_on(address: str, cidr: str) -> bool:
    return ipaddress.IPv6Address(address) in ipaddress.IPv6Network(cidr)


def usable_prefix(text: str) -> str | None:
    """The canonical form of a prefix that a host reports; None for one that no subnet can have."""
    try:
        prefix = ipaddress.IPv6Network(text)
    except ValueError:
        return None
    if prefix == _PROVISIONAL:
        return PROVISIONAL
    bad = prefix.is_multicast or prefix.is_link_local or prefix.is_loopback or prefix.overlaps(_PROVISIONAL)
    return str(prefix) if prefix.prefixlen == _HOST_BITS and not bad else None
