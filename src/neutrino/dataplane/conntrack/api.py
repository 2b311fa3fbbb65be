"""Connections as values, and what can be done with them.

There are two trackers on a host: the switch's, for ports that it filters itself (with the kernel's datapath this is the
kernel's), and the kernel's, for ports that are filtered on a Linux bridge. Both tell connections apart by zone and by
the addresses and ports of the first packet.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Protocol

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132


class ConntrackError(Exception):
    """The connection tracker could not be asked, or refused a change."""


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

    def text(self) -> str:
        """A line of a plan."""
        protocol = "any protocol" if self.protocol < 0 else f"protocol {self.protocol}"
        ports = "" if self.port_min < 0 else f" {self.port_min}:{self.port_max}"
        return f"flush zone {self.zone} {self.direction} {self.local or 'any'} {self.remote or 'any'} {protocol}{ports}"


@dataclasses.dataclass(frozen=True, order=True)
class Connection:
    """A connection by its first packet. Of protocols without ports, both are 0."""

    zone: int
    family: int
    protocol: int
    source: str
    destination: str
    source_port: int = 0  # of ICMP, the number that question and answer share
    destination_port: int = 0
    icmp_type: int = -1
    icmp_code: int = -1
    mark: int = 0


class Conntrack(Protocol):
    def flush(self, entries: Iterable[ConntrackFlush]) -> None:
        """Forget the connections that any of the entries describes."""
        ...


class MarkingConntrack(Conntrack, Protocol):
    """A tracker whose connections can be looked at and marked."""

    def read(self, zones: Iterable[int]) -> tuple[Connection, ...]: ...

    def mark(self, connections: Iterable[Connection], mark: int) -> None:
        """Mark connections; those that have ended meanwhile are left out."""
        ...
