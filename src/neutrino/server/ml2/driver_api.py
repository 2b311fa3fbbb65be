"""Contract between the ML2 core and its drivers. Third parties write drivers against this module alone.

Drivers are classes offered by entry point and named in the configuration; the server creates each with its `conf`.

**Type drivers** (`neutrino.ml2.type_drivers`, protocol `TypeDriver`): one segment type, what is valid and what is free.

**Mechanism drivers** (`neutrino.ml2.mechanism_drivers`) have a `name` and any of these methods; the core calls those it
finds, in the order of the configuration:

    bind_port(port: PortToBind) -> Bound | Continue | None      before the transaction
    {create,update,delete}_{network,subnet,port}_{precommit,postcommit}(context: DriverContext)
    {create,update,activate,delete}_port_binding_{precommit,postcommit}(context: DriverContext)

`update_port` is also called when the status of a port changes. A binding is one of the port bindings API, which live
migration uses: `activate` makes it the port's own. `context.port` is its port.

A driver whose agents pass the VLAN tags of instances on declares the network types on which they do, in attributes
`vlan_transparent_types` and `qinq_types` (frozensets). Without them, no network can be `vlan_transparent` or `qinq` while
the driver is configured.

A driver that needs the levels of bindings (`DriverContext.levels`), which take queries, has an attribute `reads_levels`.

A driver whose agents enforce QoS policies declares the types of rules in an attribute `qos: QosSupport`. One whose
agents report what they guarantee for Placement has an attribute `providers: ResourceProviders`.

A driver that may be not ready, as one whose equipment is away, has a method `not_ready() -> str`: why, or an empty text.
`neutrino status` shows it.

A precommit runs inside the transaction, must be quick and refuses the change by raising; it reads and writes the database
with `context.tx`. A postcommit runs after the commit and may call equipment. When a postcommit of a create raises, the
object is deleted again and the client gets an error; on update and delete the client gets the error and the change stays.
A status change has no client: a failed postcommit is only logged. After a crash of the server postcommits are replayed from
the journal, so they must be idempotent.

A driver for hierarchical binding allocates a segment for the lower level with `allocate_dynamic_segment`, answers
`Continue`, and releases the segment when the last port on it is deleted. Deleting the network releases those left.

**Extension drivers** (`neutrino.ml2.extension_drivers`) decide the values of attributes, and may add attributes:

    extensions: Sequence[Extension]                             aliases for the list of extensions
    extend_resources() -> Mapping[str, Sequence[Attribute]]     by resource: "network", "subnet" or "port"
    policy_rules: Mapping[str, str]                             optional: other rules than the default
    process_create_{network,subnet,port}(values, current, network) -> values of attributes
    process_update_{network,subnet,port}(values, current, network, before) -> values of attributes
    store_{create,update}_{network,subnet,port}(tx, current)    optional: further rows of the driver's own

`values` is the request, `current` the object so far, `network` the network (the object itself for a network). Added
attributes are validated, filtered (`filter=True`), shown, described in the OpenAPI document and stored by the server, as
JSON in `network_attributes`, `subnet_attributes` and `port_attributes`: a driver needs no tables for them. Without a
process method an attribute keeps the value of the request or its default. `guarded=True` reserves setting it for
administrators, by the rules `create_port:<name>` and `update_port:<name>`.

Drivers are created before the server forks its workers: open connections and start threads on first use.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from neutrino.model.objects import Values

VIF_UNBOUND, VIF_FAILED = "unbound", "binding_failed"
VIF_OVS, VIF_VHOSTUSER = "ovs", "vhostuser"
VIF_HW, VIF_HOSTDEV_PHYSICAL = "hw_veb", "hostdev_physical"  # a virtual function of a card, or a whole card


@dataclass(frozen=True, slots=True)
class Segment:
    """One layer-2 domain of a network."""

    network_type: str
    physical_network: str | None = None
    segmentation_id: int | None = None
    id: str = ""


@dataclass(frozen=True, slots=True)
class BoundLevel:
    """One level of a port's binding: the driver that serves it, and its segment."""

    driver: str
    segment: Segment


class SegmentsInUse(Protocol):
    """Which segments are in use, in the database and by the request so far."""

    @property
    def blind(self) -> bool:
        """A number of a large range may be guessed without a lookup: a wrong guess is refused and made again."""

    def among(self, identities: Sequence[str]) -> set[str]: ...

    def ids(self, network_type: str, physical_network: str | None) -> set[int]: ...


@dataclass(frozen=True)
class QosSupport:
    """The QoS rules that a mechanism driver's agents enforce, and the ports on which they do."""

    vnic_types: frozenset[str]  # of ports that are not bound yet
    vif_types: frozenset[str]  # of bound ports
    rules: Mapping[str, Mapping[str, range | Sequence[object]]]  # by type of rule, the values of each parameter


@dataclass(frozen=True)
class ResourceProviders:
    """What a driver's agents guarantee, as resource providers of Placement: a device has one, and so has an agent."""

    agent_type: str
    namespace: uuid.UUID  # of the providers' ids
    vnic_types: frozenset[str]
    mappings: str  # key of the agents' configurations: the devices of physical networks

    def of_agent(self, hypervisor: str) -> str:
        """The id of an agent's provider below that of a compute node."""
        return str(uuid.uuid5(self.namespace, hypervisor))

    def of_device(self, hypervisor: str, device: str) -> str:
        return str(uuid.uuid5(self.namespace, f"{hypervisor}:{device}"))


@runtime_checkable
class HasProviders(Protocol):
    """A mechanism driver whose agents report what they guarantee."""

    providers: ResourceProviders


@runtime_checkable
class EnforcesQos(Protocol):
    """A mechanism driver whose agents enforce QoS rules."""

    qos: QosSupport


class TypeDriver(Protocol):
    type: str

    def check(self, segment: Segment) -> None:
        """Refuse an invalid segment that an administrator asked for."""

    def identity(self, segment: Segment) -> str:
        """Uniqueness key of a segment."""

    def in_use(self, segment: Segment) -> Exception:
        """The refusal for a segment that another network has."""

    def allocate(self, in_use: SegmentsInUse, physical_network: str | None = None) -> Segment | None:
        """A free segment from the configured ranges, or None if there is none."""

    def mtu(self, physical_network: str | None) -> int:
        """The largest packet that networks of this type carry; 0 if unlimited."""


Range = tuple[int, int]  # the first and the last number


@runtime_checkable
class RangedTypeDriver(TypeDriver, Protocol):
    """A type driver of numbered segments. The core may give it other ranges than the configured ones.

    `ranges` are by physical network, with the key None for tunnels.
    """

    configured: Mapping[str | None, Sequence[Range]]
    limits: Range  # of its segmentation ids

    def check_within(self, segment: Segment, ranges: Mapping[str | None, Sequence[Range]]) -> None:
        """`check`, with these ranges."""

    def allocate_within(
        self, in_use: SegmentsInUse, ranges: Mapping[str | None, Sequence[Range]], physical_network: str | None = None
    ) -> Segment | None:
        """`allocate`, from these ranges."""


class DynamicSegments(Protocol):
    """Segments that drivers allocate for lower levels of a binding; the API does not show them."""

    def allocate(self, network_id: str, wanted: Segment, tx: Any) -> Segment: ...

    def release(self, segment_id: str, tx: Any) -> None: ...


@dataclass(frozen=True, kw_only=True)
class _WithDynamicSegments:
    network: Values = field(default_factory=dict)
    tx: Any = None  # the transaction, in a precommit
    dynamic_segments: DynamicSegments | None = field(default=None, repr=False, compare=False)

    def allocate_dynamic_segment(
        self, network_type: str, physical_network: str | None = None, segmentation_id: int | None = None
    ) -> Segment:
        """The network's dynamic segment of this type and physical network; allocated if there is none yet."""
        assert self.dynamic_segments is not None
        wanted = Segment(network_type, physical_network, segmentation_id)
        return self.dynamic_segments.allocate(self.network["id"], wanted, self.tx)

    def release_dynamic_segment(self, segment_id: str) -> None:
        assert self.dynamic_segments is not None
        self.dynamic_segments.release(segment_id, self.tx)


@dataclass(frozen=True)
class DriverContext(_WithDynamicSegments):
    """Argument of a precommit or postcommit: the object before and after, with its network and segments."""

    operation: str  # create, update or delete; activate for a binding
    kind: str  # network, subnet, port or port_binding
    current: Values  # as it is after the change; on a delete, as it was
    original: Values | None = None  # before an update
    segments: Sequence[Segment] = ()  # of the network, in their order
    port: Values | None = None  # of a port_binding
    # Of a port, from the outermost level on, for drivers with `reads_levels`; on a delete, as they were.
    levels: Sequence[BoundLevel] = ()
    original_levels: Sequence[BoundLevel] = ()


@dataclass(frozen=True)
class PortToBind(_WithDynamicSegments):
    """Argument of bind_port: a port, and the host to bind it to."""

    port: Values
    host: str
    vnic_type: str
    profile: Values
    segments: Sequence[Segment]  # those to bind: of the network, or of the level above
    agents: Sequence[Values]  # on the host, each with its configurations
    levels: Sequence[BoundLevel] = ()  # above this one, from the outermost on


@dataclass(frozen=True)
class Bound:
    """Result of bind_port: the port is bound to this segment, and plugged in this way."""

    segment: Segment
    vif_type: str
    vif_details: Values = field(default_factory=dict)
    agent_wires: bool = True  # the port is ACTIVE only after an agent has reported it wired
    components: Sequence[str] = ()  # the same for provisioning components that the driver completes itself
    is_active: bool = False  # the port is ACTIVE at once, whatever its provisioning components


@dataclass(frozen=True)
class Continue:
    """Result of bind_port: the driver serves this segment, and the next level is to be bound on these."""

    segment: Segment
    next_segments: Sequence[Segment]
