"""What a feature adds to a trace: values that are read with the snapshot, and steps at places of the path."""

from __future__ import annotations

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from neutrino.model.routing import FloatingIp, PortForwarding, RouterInterface

if TYPE_CHECKING:
    from neutrino.model.state import Rule
    from neutrino.server.trace.steps.parts import Part
    from neutrino.server.trace.steps.walk import Subject, Walk
    from neutrino.server.trace.values import Snapshot, TracedPort

Translator = FloatingIp | PortForwarding | None  # None: the gateway


@dataclass(frozen=True)
class Taken:
    """A packet that a router takes instead of routing it, as into a tunnel to a peer."""

    peer: str  # the address of the peer, which may be a router of this cloud
    subject: Subject  # by what it is taken


@dataclass(frozen=True)
class Reached:
    """What a trace may reach, as far as it is known before ports are read."""

    networks: Set[str]  # without external ones
    addresses: Set[str]
    hosts: Callable[[], Set[str]]  # that may send the packet; a query


class TracePart:
    """The part of one feature in one trace; immutable. Each method is a place that the packet passes."""

    @property
    def port_ids(self) -> Collection[str]:
        """Ports that the packet may be led to: they are read too."""
        return ()

    def with_rules(self, connection: Connection, snapshot: Snapshot) -> TracePart:
        """The part with what it needs of the ports, networks and routers of the trace, once these are read."""
        return self

    def sent_by_port(self, walk: Walk, port: TracedPort) -> None:
        """On the switch, before the filters of the sending port."""

    def filters_sender(self, walk: Walk, port: TracedPort) -> None:
        """On the switch, before the security groups of the sending port: a filter of the feature."""

    def sent_past_filters(self, walk: Walk, port: TracedPort) -> None:
        """On the switch, after the filters of the sending port."""

    def sent_by_router(self, walk: Walk, network_id: str) -> None:
        """On the switch, from a router to a network."""

    def received_by_router(self, walk: Walk, network_id: str) -> None:
        """On the switch, where the packet reaches a router."""

    def taken_by_router(self, walk: Walk, part: Part) -> Taken | None:
        """In a router, from inside: to whom it takes the packet instead of routing it; None: it routes it."""
        return None

    def translated_by_router(self, walk: Walk, part: Part, by: Translator, direction: str) -> None:
        """In a router, before it translates the destination of a packet from outside (ingress), or the source of others."""

    def leaves_centrally(self, walk: Walk, part: Part) -> str:
        """In a distributed router: what the packets are, this one among them, that leave by its central part; or empty."""
        return ""

    def filters_routed(self, walk: Walk, came: RouterInterface | None, leaves: RouterInterface) -> None:
        """In a router, between two interfaces, before the source is translated: a filter of the feature."""

    def is_remote(self, rule: Rule, address: str) -> bool:
        """Whether a rule of a security group that refers to an object of the feature is for traffic with the address."""
        return False

    def reaches_port(self, walk: Walk, port: TracedPort) -> None:
        """Before the packet is switched to a port's host, which the port may not have."""

    def filters_receiver(self, walk: Walk, port: TracedPort) -> None:
        """On the switch, after the security groups of the receiving port: a filter of the feature."""

    def received_by_port(self, walk: Walk, port: TracedPort) -> None:
        """On the switch, after the filters of the receiving port."""


ReadTracePart = Callable[[Connection, Reached], TracePart]
