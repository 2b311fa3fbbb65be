"""What drivers are to the core. Third parties write theirs against this file alone and name them by entry point.

* A type driver (`neutrino.ml2.type_drivers`) knows one kind of segment: what a valid one is, which ids are free to give.
* A mechanism driver (`neutrino.ml2.mechanism_drivers`) makes networks real on some kind of equipment. It may have any of
  `{create,update,delete}_{network,subnet,port}_{precommit,postcommit}(change)` and `bind_port(port)`. A precommit runs in
  the transaction and may refuse by raising; a postcommit runs after it, may talk to equipment, and when it raises on a
  create the object is taken back. A postcommit may run twice (after a crash it is replayed), so it must bear that.
* An extension driver (`neutrino.ml2.extension_drivers`) adds attributes: `process_{create,update}_{network,subnet,port}`
  decides their values before the transaction, `store_…(tx, …)` may keep more in tables of its own.

All methods but the ones of a type driver are optional: the core calls those it finds.

A driver is made before the processes that serve are forked: whoever needs a connection or a thread opens it when it first
has something to do, not when it is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Object = Mapping[str, Any]

VIF_UNBOUND, VIF_FAILED = "unbound", "binding_failed"
VIF_OVS, VIF_VHOSTUSER, VIF_HW = "ovs", "vhostuser", "hw_veb"


@dataclass(frozen=True, slots=True)
class Segment:
    """One layer-2 domain of a network."""

    network_type: str
    physical_network: str | None = None
    segmentation_id: int | None = None
    id: str = ""


class Taken(Protocol):
    """Which of some segments are in use, and which ids of a type."""

    def among(self, identities: Sequence[str]) -> set[str]: ...

    def ids(self, network_type: str, physical_network: str | None) -> set[int]: ...


class TypeDriver(Protocol):
    type: str

    def check(self, segment: Segment) -> None:
        """Refuse a segment that an administrator asked for and that cannot be."""

    def identity(self, segment: Segment) -> str:
        """A text that two segments share exactly if they cannot both be."""

    def in_use(self, segment: Segment) -> Exception:
        """The refusal for a segment that another network has."""

    def allocate(self, taken: Taken, physical_network: str | None = None) -> Segment | None:
        """A free segment from the configured ranges, or None if there is none."""

    def mtu(self, physical_network: str | None) -> int:
        """The largest packet that networks of this type carry; 0 if there is no bound."""


@dataclass(frozen=True)
class DriverContext:
    """What a precommit or postcommit is told: the object before and after, and what it belongs to."""

    operation: str  # create, update or delete
    kind: str  # network, subnet or port
    current: Object
    original: Object | None = None
    network: Object = field(default_factory=dict)
    segments: Sequence[Segment] = ()
    tx: Any = None  # the transaction, in a precommit


@dataclass(frozen=True)
class PortToBind:
    """A port that some driver should bind on a host."""

    port: Object
    network: Object
    host: str
    vnic_type: str
    profile: Mapping[str, Any]
    segments: Sequence[Segment]
    agents: Sequence[Object]  # those on the host, each with its configurations


@dataclass(frozen=True)
class Bound:
    """A driver's answer: bound to this segment in this way."""

    segment: Segment
    vif_type: str
    vif_details: Mapping[str, Any] = field(default_factory=dict)
    agent_wires: bool = True  # an agent must report the port wired before it is ACTIVE


@dataclass(frozen=True)
class Continue:
    """A driver's answer: it serves this segment, and the next level is bound on these."""

    segment: Segment
    next_segments: Sequence[Segment]
