"""The walk of one packet: what has happened to it so far. Steps are appended in order; a drop ends the walk.

Mutable, and local to one call of `path.py`: from outside, the path is a pure function of snapshot and packet.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import NoReturn

import msgspec

from neutrino.model.routing import RouterInterface
from neutrino.model.trace import Cause, Packet, Point
from neutrino.server.trace.values import (
    CHANGE,
    DROP,
    INFO,
    NOTHING,
    PASS,
    Hop,
    Passed,
    Snapshot,
    Step,
    TracedPort,
    TracedRouter,
    Translation,
)

_WORDS = {"floatingip": "floating IP"}


class Dropped(Exception):
    """The packet is dropped: the last step has the cause."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The object of the API that a step is about."""

    type: str = ""
    id: str = ""
    name: str = ""
    project_id: str = ""
    word: str = ""  # for its type, if that reads differently

    def __str__(self) -> str:
        return f"{self.word or _WORDS.get(self.type) or self.type.replace('_', ' ')} {self.name or self.id}"

    @property
    def title(self) -> str:
        """The name as the beginning of a sentence."""
        text = str(self)
        return text[:1].upper() + text[1:]


@dataclass
class Walk:
    snapshot: Snapshot
    packet: Packet
    before: Passed = NOTHING  # of a reply: what the packet that it answers has left behind
    steps: list[Step] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    host: str = ""  # where the packet is; empty: outside
    project_id: str | None = None  # of a member: at external networks, its path ends before other projects' objects
    tracked: set[str] = field(default_factory=set)
    allowed: set[tuple[str, str]] = field(default_factory=set)
    translations: list[Translation] = field(default_factory=list)
    doubts: list[Cause] = field(default_factory=list)  # why the verdict is not certain
    led_to: str = ""  # the port that the switch forwards the packet to, in place of the owner of its destination
    chosen: frozenset[str] = frozenset()  # of several gateways with equal default routes: those that hosts have chosen
    oversized: bool = False  # hosts have answered that their devices take it, whatever the MTU of networks is
    sender_id: str = ""
    towards: str = ""  # the port that it is for, if the request names one
    end_port_id: str = ""
    end_network_id: str = ""
    end_router_id: str = ""

    @property
    def version(self) -> int:
        return 6 if ":" in self.packet.source else 4

    # --- steps ----------------------------------------------------------------------------------------------------

    def passes(self, kind: str, subject: Subject, text: str, public: str = "") -> None:
        self._add(kind, subject, PASS, text, public)

    def informs(self, kind: str, subject: Subject, text: str, public: str = "") -> None:
        self._add(kind, subject, INFO, text, public)

    def changes(
        self, kind: str, subject: Subject, text: str, public: str = "", *, hides: bool = False, **fields: object
    ) -> None:
        """A step that rewrites the packet; with `hides`, to addresses that members see of their own project alone."""
        self.packet = msgspec.structs.replace(self.packet, **fields)
        self._add(kind, subject, CHANGE, text, public)
        self.steps[-1] = msgspec.structs.replace(self.steps[-1], hides=hides)

    def drops(self, kind: str, subject: Subject, cause: Cause, text: str, public: str = "") -> NoReturn:
        self._add(kind, subject, DROP, text, public, cause)
        raise Dropped

    def doubts_host(self, kind: str, subject: Subject, cause: Cause, text: str, public: str = "") -> None:
        """A step that leaves open what happens: the verdict is unknown unless a later step drops the packet."""
        self.doubts.append(cause)
        self._add(kind, subject, INFO, text, public)

    def _add(self, kind: str, subject: Subject, result: str, text: str, public: str, cause: Cause = Cause.NONE) -> None:
        self.steps.append(
            Step(
                kind=kind,
                result=result,
                text=text,
                public=public,
                host=self.host,
                resource_type=subject.type,
                resource_id=subject.id,
                resource_name=subject.name,
                project_id=subject.project_id,
                packet=self.packet,
                cause=cause,
            )
        )

    # --- hosts ----------------------------------------------------------------------------------------------------

    def enters(self, host: str, point: Point | None, *, resumes: bool = False) -> None:
        self.host = host
        self.hops.append(Hop(host=host, packet=self.packet, entry=point, resumes=resumes))

    def leaves(self, point: Point | None) -> None:
        if self.hops:
            self.hops[-1] = msgspec.structs.replace(self.hops[-1], exit=point)
        self.host = ""

    @property
    def passed(self) -> Passed:
        return Passed(
            tracked=frozenset(self.tracked),
            allowed=frozenset(self.allowed),
            translations=tuple(self.translations),
            sender_id=self.sender_id,
        )


# --- subjects ---------------------------------------------------------------------------------------------------------


def of_port(port: TracedPort) -> Subject:
    return Subject("port", port.id, port.name, port.project_id)


def of_interface(walk: Walk, interface: RouterInterface) -> Subject:
    port = walk.snapshot.ports.get(interface.id)
    return of_port(port) if port is not None else Subject("port", interface.id)


def of_router(router: TracedRouter) -> Subject:
    return Subject("router", router.id, router.router.name, router.router.project_id)


def of_network(walk: Walk, network_id: str) -> Subject:
    network = walk.snapshot.networks.get(network_id)
    return Subject("network", network_id, network.name, network.project_id) if network else Subject("network")


def of_subnet(walk: Walk, subnet_id: str) -> Subject:
    named = walk.snapshot.name(subnet_id)
    return Subject("subnet", subnet_id, named.name, named.project_id)


def named(walk: Walk, kind: str, object_id: str) -> Subject:
    found = walk.snapshot.name(object_id)
    return Subject(kind, object_id, found.name, found.project_id)


# --- addresses --------------------------------------------------------------------------------------------------------


def contains(prefix: str, address: str) -> bool:
    network, one = ip_network(prefix, strict=False), ip_address(address)
    return network.version == one.version and one in network


def same(one: str, other: str) -> bool:
    return bool(one) and bool(other) and ip_address(one) == ip_address(other)
