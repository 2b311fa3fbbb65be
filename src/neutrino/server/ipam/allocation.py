"""Addresses of ports: which subnets a request means, and a free address on each, decided in one pass.

An address is allocated by its row in `ip_allocations`; a free one is guessed (`ipam/ranges.py`). Two ports that choose the
same address collide on the key, and the loser is decided again (`Database.retrying`).
"""

import ipaddress
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model.device_owners import INTERFACES, SNAT
from neutrino.model.objects import Object, Values
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists
from neutrino.server.db.reads import Lookup, read, scalars
from neutrino.server.ipam.ranges import LARGE, pick_free, random_number, size
from neutrino.server.ipam.subnet_rules import eui64, is_auto_address, usable

FixedIp = Object  # subnet_id and ip_address, as the API shows an address of a port
ROUTER_OWNERS = (*INTERFACES, SNAT)
DHCP_OWNER = "network:dhcp"
_ALLOCATED = sa.select(t.ip_allocations.c.ip_address).where(t.ip_allocations.c.subnet_id == sa.bindparam("subnet"))
_ALLOCATED_AMONG = _ALLOCATED.where(t.ip_allocations.c.ip_address.in_(sa.bindparam("addresses", expanding=True)))
_FEW = 4  # addresses, as guessed at first: statements for each number up to this are kept


@cache
def _allocated_among(count: int) -> Lookup[list[str]]:
    among = [sa.bindparam(f"address_{i}", type_=t.ip_allocations.c.ip_address.type) for i in range(count)]
    return Lookup(_ALLOCATED.where(t.ip_allocations.c.ip_address.in_(among)), scalars)


def _read_allocated(connection: Connection, subnet_id: str, addresses: Sequence[str]) -> Iterable[str]:
    """Those of these addresses that are taken."""
    if 0 < len(addresses) <= _FEW:
        named = {f"address_{i}": address for i, address in enumerate(addresses)}
        return read(connection, _allocated_among(len(addresses))(subnet=subnet_id, **named))
    return connection.execute(_ALLOCATED_AMONG, {"subnet": subnet_id, "addresses": list(addresses)}).scalars()


class _Wanted(NamedTuple):
    """An address to allocate: this one, or any of the first of these subnets that has a free one."""

    subnets: Sequence[Values]
    ip_address: str | None = None


@dataclass(frozen=True)
class Allocator:
    """Chooses addresses for the ports of one request; remembers its choices, so that no two ports get the same."""

    connection: Connection
    blind: bool = False  # guess in large pools without a lookup; a collision shows when the row is inserted
    free: Sequence[FixedIp] = ()  # found free already, and then not looked up again
    _chosen: set[tuple[str, str]] = field(default_factory=set, init=False)

    def for_new_port(
        self, port: Values, requested: Sequence[Values] | None, subnets: Sequence[Values]
    ) -> list[FixedIp]:
        """`subnets`: all of the port's network. Without a request: one address per IP version, and SLAAC's."""
        mac, owner = port["mac_address"], port["device_owner"]
        if requested is None:
            wanted = _wanted_by_default(subnets, mac, owner)
        else:
            wanted = self._wanted_by_request(requested, subnets, mac, owner)
        return [self._allocate(one, port["network_id"]) for one in wanted]

    def for_updated_port(
        self, before: Values, after: Values, requested: Sequence[Values] | None, subnets: Sequence[Values]
    ) -> list[FixedIp]:
        """The port keeps addresses that are still asked for; SLAAC's follow the MAC. None: only the MAC has changed."""
        mac, owner = after["mac_address"], after["device_owner"]
        slaac = {s["id"] for s in subnets if is_auto_address(s) and owner not in ROUTER_OWNERS}
        kept = [fixed for fixed in before["fixed_ips"] if fixed["subnet_id"] not in slaac]
        if requested is None:
            requested = [f if f in kept else {"subnet_id": f["subnet_id"]} for f in before["fixed_ips"]]
        # A port may stay where it is, also if its owner has changed since.
        held = {fixed["subnet_id"] for fixed in before["fixed_ips"]}
        wanted = self._wanted_by_request(_reuse(requested, kept), subnets, mac, owner, held)
        return [self._allocate(one, before["network_id"], before["fixed_ips"]) for one in wanted]

    def any_of(self, subnet: Values) -> FixedIp:
        """Any free address of a subnet."""
        return self._allocate(_Wanted((subnet,)), subnet["network_id"])

    # --- which subnets ----------------------------------------------------------------------------------------------

    def _wanted_by_request(
        self,
        fixed_ips: Sequence[Values],
        subnets: Sequence[Values],
        mac: str,
        device_owner: str,
        held: Collection[str] = (),
    ) -> list[_Wanted]:
        """`held`: subnets that the port has addresses of already."""
        for_owner = _for_owner(subnets, device_owner)
        possible = {s["id"] for s in for_owner} | {*held}
        allowed = [s for s in subnets if s["id"] in possible]
        wanted = [self._requested(fixed, subnets, allowed, mac, device_owner) for fixed in fixed_ips]
        if not fixed_ips:
            return wanted
        # A port with any address also gets one on each SLAAC subnet: its guest forms that address unasked.
        named = {one.subnets[0]["id"] for one in wanted}
        others = [s for s in for_owner if s["id"] not in named]
        return wanted + _slaac(others, mac, device_owner)

    def _requested(
        self, fixed: Values, subnets: Sequence[Values], allowed: Sequence[Values], mac: str, device_owner: str
    ) -> _Wanted:
        """`allowed`: those of the network's subnets whose service types allow this port."""
        subnet_id, address = fixed.get("subnet_id"), fixed.get("ip_address")
        if subnet_id is not None:
            subnet = next((s for s in subnets if s["id"] == subnet_id), None)
            if subnet is None:
                raise self._not_on_network(subnet_id)
            if subnet not in allowed:
                raise errors.InvalidInput(
                    f"Invalid input for fixed_ips: the service_types of subnet {subnet_id} exclude ports with the "
                    f"device_owner '{device_owner}'."
                )
            if address is not None and not _is_host_address(address, subnet):
                raise errors.InvalidIpForSubnet(ip_address=address)
        elif address is not None:
            subnet = next((s for s in allowed if _is_host_address(address, s)), None)
            if subnet is None:
                raise errors.InvalidIpForNetwork(ip_address=address)
        else:
            raise errors.InvalidInput("Invalid input for fixed_ips: a fixed IP needs a subnet_id or an ip_address.")
        if is_auto_address(subnet) and device_owner not in ROUTER_OWNERS:
            own = eui64(subnet["cidr"], mac)
            if address is not None and address != own:
                raise errors.AllocationOnAutoAddressSubnet(ip=address, subnet_id=subnet["id"])
            return _Wanted((subnet,), own)
        return _Wanted((subnet,), address)

    def _not_on_network(self, subnet_id: str) -> errors.ApiError:
        """Clients distinguish a subnet that does not exist from one of another network."""
        if not exists(self.connection, t.subnets.c.id == subnet_id):
            return errors.SubnetNotFound(id=subnet_id)
        return errors.InvalidInput(f"Invalid input for fixed_ips: subnet {subnet_id} is not one of the port's network.")

    # --- which address ----------------------------------------------------------------------------------------------

    def _allocate(self, wanted: _Wanted, network_id: str, owned: Sequence[FixedIp] = ()) -> FixedIp:
        """`owned`: addresses that the port has already and may keep."""
        for subnet in wanted.subnets:
            address = wanted.ip_address or self._free(subnet)
            if address is None:
                continue
            fixed = {"subnet_id": subnet["id"], "ip_address": address}
            is_asked_for = wanted.ip_address is not None and fixed not in owned and fixed not in self.free
            if is_asked_for and self._allocated(subnet["id"], [address]):
                raise errors.IpAddressAlreadyAllocated(ip=address, subnet_id=subnet["id"])
            self._chosen.add((subnet["id"], address))
            return fixed
        raise errors.IpAddressGenerationFailure(net_id=network_id)

    def _allocated(self, subnet_id: str, addresses: Sequence[str]) -> set[str]:
        return {
            *_read_allocated(self.connection, subnet_id, addresses),
            *(a for a in addresses if (subnet_id, a) in self._chosen),
        }

    def _free(self, subnet: Values) -> str | None:
        subnet_id = subnet["id"]
        pools = [(_number(pool["start"]), _number(pool["end"])) for pool in subnet["allocation_pools"]]
        make = ipaddress.IPv4Address if subnet["ip_version"] == 4 else ipaddress.IPv6Address
        if self.blind and size(pools) >= LARGE:
            return str(make(random_number(pools)))

        def taken_among(numbers: Sequence[int]) -> set[int]:
            addresses = {str(make(number)): number for number in numbers}
            return {addresses[address] for address in self._allocated(subnet_id, list(addresses))}

        def all_taken() -> set[int]:
            rows = self.connection.execute(
                sa.select(t.ip_allocations.c.ip_address).where(t.ip_allocations.c.subnet_id == subnet_id)
            ).scalars()
            chosen = (address for of_subnet, address in self._chosen if of_subnet == subnet_id)
            return {int(ipaddress.ip_address(address)) for address in (*rows, *chosen)}

        free = pick_free(pools, taken_among, all_taken)
        return None if free is None else str(make(free))


@lru_cache(1000)
def _number(address: str) -> int:
    """Cached: each port of a subnet needs those of its pools, and parsing takes as long as choosing the address."""
    return int(ipaddress.ip_address(address))


def _wanted_by_default(subnets: Sequence[Values], mac: str, device_owner: str) -> list[_Wanted]:
    usable_here = _for_owner(subnets, device_owner)
    if subnets and not usable_here:
        raise errors.IpAddressGenerationFailure(net_id=subnets[0]["network_id"])
    managed = {version: [s for s in usable_here if s["ip_version"] == version] for version in (4, 6)}
    managed[6] = [s for s in managed[6] if not is_auto_address(s)]
    return [_Wanted(some) for some in managed.values() if some] + _slaac(usable_here, mac, device_owner)


def _slaac(subnets: Sequence[Values], mac: str, device_owner: str) -> list[_Wanted]:
    if device_owner in ROUTER_OWNERS:  # addresses of a router are assigned, it does not form them
        return []
    return [_Wanted((s,), eui64(s["cidr"], mac)) for s in subnets if is_auto_address(s)]


def _for_owner(subnets: Sequence[Values], device_owner: str) -> list[Values]:
    """Subnets that ports of this owner may use; those whose service_types name the owner come first."""
    if device_owner == DHCP_OWNER:  # it serves every subnet, whatever service types these are for
        return list(subnets)
    matching = [s for s in subnets if device_owner and device_owner in s["service_types"]]
    return matching + [s for s in subnets if not s["service_types"]]


def _is_host_address(address: str, subnet: Values) -> bool:
    ip, network = ipaddress.ip_address(address), ipaddress.ip_network(subnet["cidr"])
    if ip not in network:
        return False
    first, last = usable(network)
    # An IPv6 router may have the prefix itself as its address.
    return bool(first <= ip <= last or (network.version == 6 and ip == network.network_address))  # type: ignore[operator]


def _reuse(requested: Sequence[Values], owned: Sequence[FixedIp]) -> list[Values]:
    """A request for any address of a subnet is met by one that the port already has there."""
    free = [fixed for fixed in owned if fixed not in requested]
    out: list[Values] = []
    for fixed in requested:
        if "subnet_id" in fixed and "ip_address" not in fixed:
            same = next((f for f in free if f["subnet_id"] == fixed["subnet_id"]), None)
            if same is not None:
                free.remove(same)
                fixed = same
        out.append(fixed)
    return out
