"""The configuration of Open vSwitch as values: snapshots, changes and events.

A change describes the desired state of a row, not a command: applied twice, the second time changes nothing. Keys of maps
that a change does not name stay as they are. As changes are values, a plan can be printed before it is applied.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Literal, Protocol

NO_TAG = 0
"""As the tag of a change: remove the tag."""
MARK = "neutrino"
"""The key in `external_ids` that marks a row as ours; its value is the purpose of the row."""
OWNER = "neutrino-owner"
"""The key in `external_ids` with the state path of the agent whose port it is: a host may have several agents."""
NAMESPACE = "neutrino-namespace"
"""The key in `external_ids` with the namespace that the port's device is in: the port is found by it without a device."""
EXTENSION = "extension"
"""The mark of rows that extensions contribute."""
COLUMNS_KEY = "neutrino-columns"
"""The key in an interface's `external_ids` that lists the columns set by `PortSettings`."""
NO_CONTROLLER = "tcp:127.0.0.1:1"
"""An OpenFlow controller that never answers, in place of one that must not control the bridge any more.

The switch deletes all flows of a bridge that gets its first controller or loses its last one, but not if one replaces
another. Only root could serve this port.
"""
PASSIVE = ("ptcp:", "pssl:", "punix:")
"""Controllers that connect to the switch, such as for debugging: these do not count."""

Strings = Mapping[str, str]


def _empty() -> Strings:
    return MappingProxyType({})


class OvsdbError(Exception):
    """The database rejected a transaction or cannot be reached; nothing of the transaction is in force."""


@dataclasses.dataclass(frozen=True)
class ClientFiles:
    """The files of a client that connects to the database with TLS (`ssl:`), as paths of PEM files.

    The name of the server is not checked, as by all clients of Open vSwitch: whoever has a certificate of this authority is
    taken for the database.
    """

    key: str
    certificate: str
    authority: str


@dataclasses.dataclass(frozen=True)
class Interface:
    name: str
    type: str = ""
    ofport: int | None = None  # None while the switch has not given one; -1 where it could not
    options: Strings = dataclasses.field(default_factory=_empty)
    external_ids: Strings = dataclasses.field(default_factory=_empty)


@dataclasses.dataclass(frozen=True)
class Queue:
    other_config: Strings = dataclasses.field(default_factory=_empty)  # such as max-rate
    dscp: int | None = None


@dataclasses.dataclass(frozen=True)
class Qos:
    """The traffic shaping of a port: packets that leave the switch through it."""

    type: str  # such as linux-htb
    other_config: Strings = dataclasses.field(default_factory=_empty)
    queues: Mapping[int, Queue] = dataclasses.field(default_factory=lambda: MappingProxyType({}))


SETTABLE = (
    *("ingress_policing_rate", "ingress_policing_burst"),
    *("ingress_policing_kpkts_rate", "ingress_policing_kpkts_burst"),
)
"""Columns of an interface that PortSettings may have, besides keys of its `other_config`."""


@dataclasses.dataclass(frozen=True)
class PortSettings:
    """The settings of a port and its interface that are ours; those that others made are not seen or changed.

    A column is one of SETTABLE, or `other_config:<key>`. The settings carry a mark (the interface's `external_ids` list the
    columns, QoS and Queue rows have one of their own), so that they are removed when nobody wants them any more.

    What Neutron's agent has set counts as ours, and is so replaced or removed: QoS rows by its ids, and the policing of
    interfaces that are API ports, which nobody else polices.
    """

    columns: Strings = dataclasses.field(default_factory=_empty)
    qos: Qos | None = None

    def text(self) -> str:
        words = [f"{column}={value}" for column, value in sorted(self.columns.items())]
        if self.qos is not None:
            words.append(f"qos={self.qos.type} {_words(self.qos, 'other_config')}".strip())
            for number, queue in sorted(self.qos.queues.items()):
                words.append(f"queue {number} {_words(queue, 'other_config', 'dscp')}".strip())
        return " ".join(words) or "none"


@dataclasses.dataclass(frozen=True)
class Port:
    name: str
    tag: int | None = None
    other_config: Strings = dataclasses.field(default_factory=_empty)
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    interfaces: tuple[Interface, ...] = ()  # more than one for a bond
    settings: PortSettings = dataclasses.field(default_factory=PortSettings)
    foreign_qos: bool = False  # it has a QoS row that is not ours
    trunks: tuple[int, ...] = ()  # the VLANs that pass a port without a tag; empty: all


@dataclasses.dataclass(frozen=True)
class Bridge:
    name: str
    datapath_type: str = ""
    fail_mode: str = ""
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    ports: Mapping[str, Port] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    controllers: frozenset[str] = frozenset()  # addresses of OpenFlow controllers
    other_config: Strings = dataclasses.field(default_factory=_empty)  # such as mac-table-size


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The whole configuration at one moment."""

    bridges: Mapping[str, Bridge] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    managers: frozenset[str] = frozenset()  # addresses where the database is served, or connects to
    unused: frozenset[str] = (
        frozenset()
    )  # QoS and Queue rows of ours or Neutron's that no port uses: nothing collects them
    datapath_types: tuple[str, ...] = ()  # that the switch supports; empty while it has not been started
    interface_types: tuple[str, ...] = ()
    vlan_limit: int = 1  # of VLAN tags in a packet that the switch looks at; 0: as many as it can

    def interfaces(self) -> dict[str, tuple[str, Port, Interface]]:
        """Every interface by name, with its bridge and its port."""
        return {
            interface.name: (bridge.name, port, interface)
            for bridge in self.bridges.values()
            for port in bridge.ports.values()
            for interface in port.interfaces
        }


# --- changes ---


@dataclasses.dataclass(frozen=True)
class SetBridge:
    """A bridge, created if missing. Empty values are left as they are."""

    name: str
    datapath_type: str = ""
    fail_mode: str = ""
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    other_config: Strings = dataclasses.field(default_factory=_empty)

    def text(self) -> str:
        names = ("datapath_type", "fail_mode", "external_ids", "other_config")
        return f"set bridge {self.name} {_words(self, *names)}".strip()


@dataclasses.dataclass(frozen=True)
class DeleteBridge:
    name: str

    def text(self) -> str:
        return f"delete bridge {self.name}"


@dataclasses.dataclass(frozen=True)
class SetPort:
    """A port with one interface of the same name, created if missing unless `make` is false.

    `external_ids` and `options` are the interface's; `tag` and `other_config` the port's. Without a tag, the tag stays.
    """

    bridge: str
    name: str
    type: str = ""
    tag: int | None = None
    options: Strings = dataclasses.field(default_factory=_empty)
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    other_config: Strings = dataclasses.field(default_factory=_empty)
    make: bool = True  # False: a port that was unplugged meanwhile is not created again
    trunks: tuple[int, ...] = ()  # the VLANs that pass, 0 for packets without a tag; empty: as they are

    def text(self) -> str:
        names = ("type", "tag", "trunks", "options", "external_ids", "other_config")
        return f"set port {self.bridge} {self.name} {_words(self, *names)}".strip()


@dataclasses.dataclass(frozen=True)
class DeletePort:
    bridge: str
    name: str

    def text(self) -> str:
        return f"delete port {self.bridge} {self.name}"


@dataclasses.dataclass(frozen=True)
class SetControllers:
    """The OpenFlow controllers of a bridge become exactly these; the change is applied if the bridge exists."""

    bridge: str
    targets: frozenset[str]

    def text(self) -> str:
        return f"set controllers of {self.bridge} {' '.join(sorted(self.targets))}"


@dataclasses.dataclass(frozen=True)
class SetManager:
    """An address at which the database is served, such as ptcp:6640:127.0.0.1; others stay."""

    target: str

    def text(self) -> str:
        return f"set manager {self.target}"


@dataclasses.dataclass(frozen=True)
class SetVlanLimit:
    """How many VLAN tags of a packet the switch looks at, on all its bridges; 0: as many as it can, which are two."""

    limit: int

    def text(self) -> str:
        return f"set vlan-limit={self.limit}"


@dataclasses.dataclass(frozen=True)
class ConfigurePort:
    """A port's settings become exactly these; of a port that is gone, nothing is done. QoS and queues change in place."""

    name: str
    settings: PortSettings

    def text(self) -> str:
        return f"configure port {self.name} {self.settings.text()}"


@dataclasses.dataclass(frozen=True)
class DeleteUnused:
    """Delete QoS and Queue rows of ours that no port uses any more."""

    rows: frozenset[str]

    def text(self) -> str:
        return f"delete {len(self.rows)} unused QoS and Queue rows"


Change = (
    SetBridge
    | DeleteBridge
    | SetPort
    | DeletePort
    | SetControllers
    | SetManager
    | SetVlanLimit
    | ConfigurePort
    | DeleteUnused
)


def _words(change: object, *names: str) -> str:
    words = []
    for name in names:
        value = getattr(change, name)
        if isinstance(value, Mapping):
            words += [f"{name}:{key}={value[key]}" for key in sorted(value)]
        elif value or (value == NO_TAG and name == "tag"):
            words.append(f"{name}={value}")
    return " ".join(words)


# --- events ---


@dataclasses.dataclass(frozen=True)
class InterfaceEvent:
    """An interface was added, removed or changed, such as when it got its ofport or its port another tag.

    Other controllers of a bridge are a change of the interface that has the bridge's name.
    """

    what: Literal["added", "changed", "removed"]
    bridge: str
    port: Port
    interface: Interface


Listener = Callable[[tuple[InterfaceEvent, ...]], None]


def compare(before: Snapshot, after: Snapshot) -> tuple[InterfaceEvent, ...]:
    """The events between two snapshots; a removed interface is shown as it last was."""
    old, new = before.interfaces(), after.interfaces()
    events = [InterfaceEvent("removed", *old[name]) for name in sorted(old) if name not in new]
    for name in sorted(new):
        if name not in old:
            events.append(InterfaceEvent("added", *new[name]))
        elif old[name] != new[name] or _controllers(before, name) != _controllers(after, name):
            events.append(InterfaceEvent("changed", *new[name]))
    return tuple(events)


def _controllers(snapshot: Snapshot, name: str) -> frozenset[str]:
    return snapshot.bridges[name].controllers if name in snapshot.bridges else frozenset()


class Ovsdb(Protocol):
    def read(self) -> Snapshot: ...

    def apply(self, changes: Iterable[Change], *, wait: float = 0.0) -> None:
        """Commit all changes in one transaction. The ofport of a new port may come later, with an event.

        `wait`: seconds to wait for the switch to apply them; a timeout is no error. Deleting a port and creating it again
        needs it: a switch that sees both at once keeps the old device.
        """
        ...

    def subscribe(self, listener: Listener) -> None:
        """Notify of all later events, in the driver's thread: a listener must return at once."""
        ...

    def close(self) -> None: ...
