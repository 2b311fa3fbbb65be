"""Connections as values, the drivers of connection trackers, and the selection of connections to flush.

There are two trackers on a host: the switch's, for ports that it filters itself (with the kernel's datapath this is the
kernel's), and the kernel's, for ports that are filtered on a Linux bridge. Both identify a connection by its zone and by
the addresses and ports of its first packet.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Protocol

from neutrino.caches import cached

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132


class ConntrackError(Exception):
    """The connection tracker cannot be reached, or rejected a change."""


@dataclasses.dataclass(frozen=True, order=True)
class ConntrackFlush:
    """The connections of a zone between two addresses or prefixes; an empty address is any, and so is -1."""

    zone: int
    family: int
    direction: str  # of the connection's first packet, as the port sees it: of an ingress one the remote is the source
    local: str
    remote: str = ""
    protocol: int = -1
    port_min: int = -1  # of the first packet's destination; of ICMP, the type
    port_max: int = -1  # of ICMP, the code


@dataclasses.dataclass(frozen=True, order=True)
class Connection:
    """A connection by its first packet. Both ports are 0 for protocols without ports."""

    zone: int
    family: int
    protocol: int
    source: str
    destination: str
    source_port: int = 0  # of ICMP, the id of request and reply
    destination_port: int = 0
    icmp_type: int = -1
    icmp_code: int = -1
    mark: int = 0
    reply_destination: str = dataclasses.field(default="", compare=False)
    """Where replies go: the source, or the address that the source is translated to; empty: unknown."""

    @property
    def is_source_translated(self) -> bool:
        return self.reply_destination not in ("", self.source)


def parse_connection(
    first: Mapping[str, str], protocol: int, zone: str, mark: str, reply_destination: str = ""
) -> Connection:
    """Make a connection of the values of the first packet, under the names that conntrack and ovs-vswitchd print."""
    source = ip_address(first["src"])
    return Connection(
        zone=int(zone),
        family=source.version,
        protocol=protocol,
        source=str(source),
        destination=str(ip_address(first["dst"])),
        source_port=int(first.get("sport") or first.get("id") or first.get("srckey") or "0", 0),
        destination_port=int(first.get("dport") or first.get("dstkey") or "0", 0),
        icmp_type=int(first.get("type", "-1")),
        icmp_code=int(first.get("code", "-1")),
        mark=int(mark, 0),
        reply_destination=str(ip_address(reply_destination)) if reply_destination else "",
    )


class Conntrack(Protocol):
    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        """Remove the connections that any of the entries describes."""
        ...


class NatConntrack(Conntrack, Protocol):
    """The tracker of a namespace that translates addresses, in zone 0."""

    def flush_translated(self, kept: Collection[str]) -> int:
        """Remove connections whose source is translated to another address than these; gives their number."""
        ...


def translated_elsewhere(connections: Iterable[Connection], kept: Collection[str]) -> Iterator[Connection]:
    """Connections whose source is translated to none of these addresses.

    The kernel translates a connection as it did its first packet, whatever rules and addresses there are now.
    """
    return (
        connection
        for connection in connections
        if connection.is_source_translated and connection.reply_destination not in kept
    )


class MarkingConntrack(Conntrack, Protocol):
    """A tracker whose connections can be read and marked."""

    def read(self, zones: Iterable[int]) -> tuple[Connection, ...]: ...

    def mark(self, connections: Iterable[Connection], mark: int) -> None:
        """Mark connections; those that have ended meanwhile are skipped."""
        ...


class Selection:
    """The connections that a number of flushes describe.

    A group that loses its members gives a flush for each of them, and a tracker has many connections: flushes with a single
    remote address are found by that address, and only the others are tried one after the other.
    """

    def __init__(self, entries: Iterable[ConntrackFlush]) -> None:
        # By zone, family, direction and the single remote address, or an empty one.
        self._entries: defaultdict[tuple[int, int, str, str], list[ConntrackFlush]] = defaultdict(list)
        for entry in entries:
            network = _network(entry.remote) if entry.remote else None
            single = network is not None and network.prefixlen == network.max_prefixlen
            remote = str(network.network_address) if network and single else ""
            self._entries[entry.zone, entry.family, entry.direction, remote].append(entry)
        self.zones = tuple(sorted({zone for zone, *_ in self._entries}))

    def includes(self, connection: Connection) -> bool:
        source, destination = connection.source, connection.destination
        # The tracker does not know which end is the port: a connection may be an incoming one of its destination, or an
        # outgoing one of its source.
        return any(
            entry.protocol in (-1, connection.protocol)
            and within(connection, entry.port_min, entry.port_max)
            and holds(entry.local, local)
            and holds(entry.remote, remote)
            for direction, local, remote in (("ingress", destination, source), ("egress", source, destination))
            for key in (remote, "")
            for entry in self._entries.get((connection.zone, connection.family, direction, key), ())
        )


@cached(maxsize=65536)
def holds(prefix: str, address: str) -> bool:
    """Whether an address is in a prefix; an empty prefix has all addresses, one of the other family none."""
    return not prefix or ip_address(address) in _network(prefix)


@cached(maxsize=65536)
def _network(prefix: str) -> IPv4Network | IPv6Network:
    return ip_network(prefix, strict=False)


def within(connection: Connection, low: int, high: int) -> bool:
    """Whether a connection's destination port is in a range, or its ICMP type and code are these; -1 is any."""
    if connection.protocol in (ICMP, ICMPV6):
        return low in (-1, connection.icmp_type) and high in (-1, connection.icmp_code)
    return low < 0 or low <= connection.destination_port <= (high if high >= 0 else low)
