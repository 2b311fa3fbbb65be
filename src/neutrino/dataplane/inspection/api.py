"""Questions to the dataplane of a host about one packet, as values. Read-only.

The other drivers read state to compare it with desired state; this one asks the switch and the kernel for their own
decision: a trace through the flow tables, a route as a packet of a device gets it, a resolved neighbour, a translated
connection. All calls block for milliseconds, may be made from any thread, and raise InspectionError.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from neutrino.dataplane.iptables.api import SavedRules
from neutrino.dataplane.openflow.trace import SwitchPort
from neutrino.model.objects import Values


class InspectionError(Exception):
    """The switch or the kernel does not answer."""


@dataclasses.dataclass(frozen=True)
class Route:
    """The route of a packet that comes in by a device; without a device if there is none."""

    device: str = ""
    via: str = ""
    local: bool = False  # the packet is for this namespace
    mtu: int = 0  # of the route itself; 0: that of the device
    table: int = 0
    refused: str = ""  # why there is no route, in the kernel's words
    spoofed: bool = False  # the source would be routed by another device (rp_filter), or is not a valid one


class Tuple5(NamedTuple):
    """One direction of a connection. Ports are 0 for protocols without; of ICMP both are."""

    protocol: int
    source: str
    destination: str
    source_port: int = 0
    destination_port: int = 0

    def reversed(self) -> "Tuple5":
        return Tuple5(self.protocol, self.destination, self.source, self.destination_port, self.source_port)


@dataclasses.dataclass(frozen=True)
class TrackedConnection:
    """A connection with both directions: where they differ, it is translated."""

    original: Tuple5
    reply: Tuple5
    mark: int = 0
    zone: int = 0

    @property
    def destination_translated(self) -> bool:
        return (self.reply.source, self.reply.source_port) != (
            self.original.destination,
            self.original.destination_port,
        )

    @property
    def source_translated(self) -> bool:
        return (self.reply.destination, self.reply.destination_port) != (
            self.original.source,
            self.original.source_port,
        )


Ruleset = Sequence[Values]
"""Objects of `nft -j list ruleset`, each under its type."""


class Inspection(Protocol):
    def ports(self) -> tuple[SwitchPort, ...]:
        """All ports of the switch's bridges."""
        ...

    def trace(self, bridge: str, flow: str) -> str:
        """The switch's trace of a packet that comes in as the flow says."""
        ...

    def trace_from(self, bridge: str, flow: str, table: int) -> str:
        """The same, from a table on: the flow has registers and connection state."""
        ...

    def route(self, namespace: str, packet: Tuple5, device: str, mark: int = 0) -> Route:
        """The route of a packet that comes in by the device; of one that the namespace itself sends, if it is empty."""
        ...

    def neighbours(self, namespace: str, device: str) -> Mapping[str, str]:
        """MACs by address, as resolved now; an empty one: it did not answer."""
        ...

    def ruleset(self, namespace: str) -> Ruleset:
        """All nft tables of the namespace, those of others included."""
        ...

    def iptables(self, namespace: str, family: int) -> tuple[SavedRules, ...]:
        """The rules of both variants of iptables in the namespace; without a variant that has none."""
        ...

    def connections(self, namespace: str, packet: Tuple5) -> tuple[TrackedConnection, ...]:
        """The kernel's connections that a packet belongs to, in either direction."""
        ...
