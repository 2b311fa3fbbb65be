"""Which connections a number of flushes describes. Pure; the drivers look at the connections, and ask here.

A group that lost its members gives a flush for each of them, and a tracker holds many connections: flushes that name one
remote address are found by that address, and only the others are tried one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, Connection, ConntrackFlush

Place = tuple[int, int, str]
"""Zone, family, direction."""


class Selection:
    def __init__(self, entries: Iterable[ConntrackFlush]) -> None:
        self._by_remote: defaultdict[tuple[Place, str], list[ConntrackFlush]] = defaultdict(list)
        self._others: defaultdict[Place, list[ConntrackFlush]] = defaultdict(list)
        zones = set()
        for entry in entries:
            zones.add(entry.zone)
            place = (entry.zone, entry.family, entry.direction)
            network = _network(entry.remote) if entry.remote else None
            if network is not None and network.prefixlen == network.max_prefixlen:
                self._by_remote[place, str(network.network_address)].append(entry)
            else:
                self._others[place].append(entry)
        self.zones = tuple(sorted(zones))

    def includes(self, connection: Connection) -> bool:
        return self._seen_as("ingress", connection.destination, connection.source, connection) or self._seen_as(
            "egress", connection.source, connection.destination, connection
        )

    def _seen_as(self, direction: str, local: str, remote: str, connection: Connection) -> bool:
        place = (connection.zone, connection.family, direction)
        named = self._by_remote.get((place, remote), ())
        return any(holds(entry.local, local) and _same_kind(entry, connection) for entry in named) or any(
            holds(entry.local, local) and holds(entry.remote, remote) and _same_kind(entry, connection)
            for entry in self._others.get(place, ())
        )


@lru_cache(maxsize=65536)
def holds(prefix: str, address: str) -> bool:
    """Whether an address is in a prefix, which may be of the other family; an empty prefix holds all."""
    return not prefix or ip_address(address) in _network(prefix)


@lru_cache(maxsize=65536)
def _network(prefix: str) -> IPv4Network | IPv6Network:
    return ip_network(prefix, strict=False)


def _same_kind(entry: ConntrackFlush, connection: Connection) -> bool:
    if entry.protocol < 0:
        return True
    return entry.protocol == connection.protocol and within(connection, entry.port_min, entry.port_max)


def within(connection: Connection, low: int, high: int) -> bool:
    """Whether a connection is to a port of a range, or an ICMP one of a type and code; -1 is any."""
    if connection.protocol in (ICMP, ICMPV6):
        return low in (-1, connection.icmp_type) and high in (-1, connection.icmp_code)
    return low < 0 or low <= connection.destination_port <= (high if high >= 0 else low)
