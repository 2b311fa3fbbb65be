"""Connection trackers in memory: that of the fake switch, and one that stands for the kernel's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address

from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, Connection, ConntrackFlush, Selection
from tests.fakes import openflow_conntrack as fake_conntrack

_IPV4 = 0x0800


class FakeOvsConntrack:
    """Implements `Conntrack` on the connections that packets have made in a fake switch."""

    def __init__(self, tracker: fake_conntrack.FakeConntrack) -> None:
        self._tracker = tracker
        self.flushed: list[ConntrackFlush] = []

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        given = tuple(entries)
        self.flushed += given
        selection = Selection(given)
        self._tracker.connections = [
            entry for entry in self._tracker.connections if not selection.includes(connection_of(entry))
        ]


def connection_of(entry: fake_conntrack.Connection) -> Connection:
    family, protocol, source, destination, *rest = entry.original
    address = IPv4Address if family == _IPV4 else IPv6Address
    ports = tuple(rest) if len(rest) == 2 else (0, 0)
    kind = -1
    if protocol in (ICMP, ICMPV6) and len(rest) == 1:
        kind = rest[0]
    return Connection(
        zone=entry.zone,
        family=4 if family == _IPV4 else 6,
        protocol=protocol,
        source=str(address(source)),
        destination=str(address(destination)),
        source_port=ports[0],
        destination_port=ports[1],
        icmp_type=kind,
        icmp_code=0 if kind >= 0 else -1,
        mark=entry.mark,
    )


class FakeKernelConntrack:
    """Implements `MarkingConntrack`; tests put connections into `connections`."""

    def __init__(self, *connections: Connection) -> None:
        self.connections = set(connections)

    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        selection = Selection(entries)
        self.connections = {entry for entry in self.connections if not selection.includes(entry)}

    def read(self, zones: Iterable[int]) -> tuple[Connection, ...]:
        wanted = set(zones)
        return tuple(sorted(entry for entry in self.connections if entry.zone in wanted))

    def mark(self, connections: Iterable[Connection], mark: int) -> None:
        for entry in connections:
            if entry in self.connections:
                self.connections.remove(entry)
                self.connections.add(dataclasses.replace(entry, mark=mark))
