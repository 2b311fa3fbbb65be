"""Addresses for ports: which subnets a request means, and a free address there without a list of the free ones.

An address is taken by its row in `ip_allocations`, whose key lets it be there once. So choosing may be a guess: a few
random addresses of the pools are looked up, and the first that is free is taken. Only where the guesses are all taken,
in a pool that is nearly full, are the taken ones read and the gaps looked for. Two ports that guess alike are told
apart by the key: one of them decides anew.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address, parse_pools, usable

Object = Mapping[str, Any]
GUESSES = (4, 60)
LARGE = 16_384  # addresses of a pool that is seldom so full that a blind guess is worse than a look
ROUTER_OWNERS = (
    "network:router_interface",
    "network:ha_router_replicated_interface",
    "network:router_interface_distributed",
    "network:router_centralized_snat",
)
DHCP_OWNER = "network:dhcp"
_a = t.ip_allocations.c


@dataclass(frozen=True, slots=True)
class Fixed:
    """One address of a port."""

    subnet_id: str
    ip_address: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """An address to find: in the first of these subnets that has one free, or this very one."""

    subnets: tuple[Object, ...]
    ip_address: str | None = None


class Allocator:
    """Finds addresses for the ports of one request; remembers what it gave out, so that none is given twice."""

    def __init__(self, connection: Connection, blind: bool = False) -> None:
        """`blind`: in a large pool, guess without looking: the key tells if it was wrong."""
        self._connection = connection
        self._blind = blind
        self._given: set[tuple[str, str]] = set()

    def allocate(self, wanted: Sequence[Wanted], network_id: str, keep: frozenset[Fixed] = frozenset()) -> list[Fixed]:
        """`keep`: addresses that the port has already and may keep."""
        return [self._one(one, network_id, keep) for one in wanted]

    def _one(self, wanted: Wanted, network_id: str, keep: frozenset[Fixed]) -> Fixed:
        if wanted.ip_address is not None:
            fixed = Fixed(wanted.subnets[0]["id"], wanted.ip_address)
            if fixed not in keep and self._taken(fixed.subnet_id, [fixed.ip_address]):
                raise errors.IpAddressAlreadyAllocated(ip=fixed.ip_address, subnet_id=fixed.subnet_id)
            self._given.add((fixed.subnet_id, fixed.ip_address))
            return fixed
        for subnet in wanted.subnets:
            address = self._free(subnet)
            if address is not None:
                self._given.add((subnet["id"], address))
                return Fixed(subnet["id"], address)
        raise errors.IpAddressGenerationFailure(net_id=network_id)

    def _taken(self, subnet_id: str, addresses: Sequence[str]) -> set[str]:
        rows = self._connection.execute(_AMONG, {"subnet": subnet_id, "addresses": list(addresses)})
        return {*rows.scalars(), *(a for a in addresses if (subnet_id, a) in self._given)}

    def _free(self, subnet: Object) -> str | None:
        pools = [(int(start), int(end)) for start, end in parse_pools(subnet["allocation_pools"])]
        total = sum(end - start + 1 for start, end in pools)
        make = ipaddress.IPv4Address if subnet["ip_version"] == 4 else ipaddress.IPv6Address
        if not total:
            return None
        if self._blind and total >= LARGE:
            return str(make(_nth(pools, random.randrange(total))))
        for count in GUESSES:
            guesses = list(dict.fromkeys(str(make(_nth(pools, random.randrange(total)))) for _ in range(count)))
            taken = self._taken(subnet["id"], guesses)
            for guess in guesses:
                if guess not in taken:
                    return guess
        rows = self._connection.execute(sa.select(_a.ip_address).where(_a.subnet_id == subnet["id"])).scalars()
        used = {int(ipaddress.ip_address(a)) for a in rows}
        used |= {int(ipaddress.ip_address(a)) for s, a in self._given if s == subnet["id"]}
        return next((str(make(i)) for i in _gaps(pools, used)), None)


_AMONG = sa.select(_a.ip_address).where(
    _a.subnet_id == sa.bindparam("subnet"), _a.ip_address.in_(sa.bindparam("addresses", expanding=True))
)


def _nth(pools: Sequence[tuple[int, int]], n: int) -> int:
    for start, end in pools:
        if n <= end - start:
            return start + n
        n -= end - start + 1
    raise IndexError(n)


def _gaps(pools: Sequence[tuple[int, int]], used: set[int]) -> Any:
    for start, end in pools:
        i = start
        while i <= end:
            if i not in used:
                yield i
            i += 1


# --- which subnets ---------------------------------------------------------------------------------------------------


def wanted_by_default(subnets: Sequence[Object], mac: str, device_owner: str) -> list[Wanted]:
    """Without a wish: one IPv4 and one IPv6 address, and one on each subnet where hosts form their own."""
    usable_here = _for_owner(subnets, device_owner)
    if subnets and not usable_here:
        raise errors.IpAddressGenerationFailure(net_id=subnets[0]["network_id"])
    wanted = []
    for version in (4, 6):
        managed = tuple(s for s in usable_here if s["ip_version"] == version and not is_auto_address(s))
        if managed:
            wanted.append(Wanted(managed))
    return wanted + _automatic(usable_here, mac, device_owner)


def wanted_by_request(
    fixed_ips: Sequence[Object], subnets: Sequence[Object], mac: str, device_owner: str, known: Mapping[str, bool]
) -> list[Wanted]:
    """What a port asked for; `known` tells of every subnet named whether it exists anywhere."""
    wanted = []
    for fixed in fixed_ips:
        wanted.append(_wish(fixed, subnets, mac, device_owner, known))
    named = {w.subnets[0]["id"] for w in wanted if len(w.subnets) == 1}
    if fixed_ips:
        more = _automatic([s for s in _for_owner(subnets, device_owner) if s["id"] not in named], mac, device_owner)
        wanted += more
    return wanted


def _wish(fixed: Object, subnets: Sequence[Object], mac: str, device_owner: str, known: Mapping[str, bool]) -> Wanted:
    subnet_id, address = fixed.get("subnet_id"), fixed.get("ip_address")
    if subnet_id is None and address is None:
        raise errors.InvalidInput("Invalid input for fixed_ips: a fixed IP needs a subnet_id or an ip_address.")
    if subnet_id is None:
        assert address is not None
        subnet = next((s for s in subnets if _is_host_address(address, s)), None)
        if subnet is None:
            raise errors.InvalidIpForNetwork(ip_address=address)
    else:
        subnet = next((s for s in subnets if s["id"] == subnet_id), None)
        if subnet is None:
            if not known.get(subnet_id):
                raise errors.SubnetNotFound(id=subnet_id)
            raise errors.InvalidInput(
                f"Invalid input for fixed_ips: subnet {subnet_id} is not one of the port's network."
            )
        if address is not None and not _is_host_address(address, subnet):
            raise errors.InvalidIpForSubnet(ip_address=address)
    if is_auto_address(subnet) and device_owner not in ROUTER_OWNERS:
        own = eui64(subnet["cidr"], mac)
        if address is not None and address != own:
            raise errors.AllocationOnAutoAddressSubnet(ip=address, subnet_id=subnet["id"])
        return Wanted((subnet,), own)
    return Wanted((subnet,), address)


def _is_host_address(address: str, subnet: Object) -> bool:
    ip, network = ipaddress.ip_address(address), ipaddress.ip_network(subnet["cidr"])
    if ip not in network:
        return False
    first, last = usable(network)
    # An IPv6 router may have the prefix itself as its address.
    return bool(first <= ip <= last or (network.version == 6 and ip == network.network_address))  # type: ignore[operator]


def _automatic(subnets: Sequence[Object], mac: str, device_owner: str) -> list[Wanted]:
    if device_owner in ROUTER_OWNERS:  # a router is told its addresses
        return []
    return [Wanted((s,), eui64(s["cidr"], mac)) for s in subnets if is_auto_address(s)]


def _for_owner(subnets: Sequence[Object], device_owner: str) -> list[Object]:
    """Subnets kept for a service serve that service alone, which takes them first."""
    if device_owner == DHCP_OWNER:
        return list(subnets)
    matching = [s for s in subnets if device_owner and device_owner in s["service_types"]]
    return matching + [s for s in subnets if not s["service_types"]]
