"""The configuration of Open vSwitch as values: what is there, what to change, and what has changed.

Changes are values too, so that a plan can be printed before it is carried out, and each says how things should be, not
what to do: applied twice, the second time changes nothing. Keys of maps that a change does not name stay as they are.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Protocol

NO_TAG = 0
"""As the tag of a change: take the tag away."""

Strings = Mapping[str, str]


def _empty() -> Strings:
    return MappingProxyType({})


class OvsdbError(Exception):
    """The database refused a change or could not be reached; nothing of the change is in force."""


@dataclasses.dataclass(frozen=True)
class Interface:
    name: str
    type: str = ""
    ofport: int | None = None  # None while the switch has not given one; -1 where it could not
    mac: str = ""
    error: str = ""
    options: Strings = dataclasses.field(default_factory=_empty)
    external_ids: Strings = dataclasses.field(default_factory=_empty)


@dataclasses.dataclass(frozen=True)
class Port:
    name: str
    tag: int | None = None
    other_config: Strings = dataclasses.field(default_factory=_empty)
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    interfaces: tuple[Interface, ...] = ()  # more than one for a bond


@dataclasses.dataclass(frozen=True)
class Bridge:
    name: str
    datapath_type: str = ""
    fail_mode: str = ""
    protocols: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    ports: Mapping[str, Port] = dataclasses.field(default_factory=lambda: MappingProxyType({}))


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """All that is configured, at one moment."""

    bridges: Mapping[str, Bridge] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    managers: frozenset[str] = frozenset()  # where the database is served to others, or goes to them

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
    """A bridge, made if it is not there. Empty values are left as they are; a controller is none of ours to have."""

    name: str
    datapath_type: str = ""
    fail_mode: str = ""
    protocols: tuple[str, ...] = ()
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    no_controllers: bool = False

    def text(self) -> str:
        return (
            f"set bridge {self.name} {_words(self, 'datapath_type', 'fail_mode', 'protocols', 'external_ids')}".strip()
        )


@dataclasses.dataclass(frozen=True)
class DeleteBridge:
    name: str

    def text(self) -> str:
        return f"delete bridge {self.name}"


@dataclasses.dataclass(frozen=True)
class SetPort:
    """A port with one interface of the same name, made if it is not there, unless `make` says otherwise.

    `external_ids` and `options` are the interface's; `tag` and `other_config` the port's. No tag given leaves it.
    """

    bridge: str
    name: str
    type: str = ""
    tag: int | None = None
    options: Strings = dataclasses.field(default_factory=_empty)
    external_ids: Strings = dataclasses.field(default_factory=_empty)
    other_config: Strings = dataclasses.field(default_factory=_empty)
    ofport_request: int | None = None
    make: bool = True  # False: one that is gone by now stays so

    def text(self) -> str:
        names = ("type", "tag", "options", "external_ids", "other_config")
        return f"set port {self.bridge} {self.name} {_words(self, *names)}".strip()


@dataclasses.dataclass(frozen=True)
class DeletePort:
    bridge: str
    name: str

    def text(self) -> str:
        return f"delete port {self.bridge} {self.name}"


@dataclasses.dataclass(frozen=True)
class SetManager:
    """The database is served at this address, such as ptcp:6640:127.0.0.1, beside others."""

    target: str

    def text(self) -> str:
        return f"set manager {self.target}"


Change = SetBridge | DeleteBridge | SetPort | DeletePort | SetManager


def _words(change: object, *names: str) -> str:
    words = []
    for name in names:
        value = getattr(change, name)
        if isinstance(value, Mapping):
            words += [f"{name}:{key}={value[key]}" for key in sorted(value)]
        elif value or (value == NO_TAG and name == "tag"):
            words.append(f"{name}={','.join(value) if isinstance(value, tuple) else value}")
    return " ".join(words)


# --- events ---


class What(enum.Enum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclasses.dataclass(frozen=True)
class InterfaceEvent:
    """An interface came, went, or is another than before, such as when it got its ofport, or its port another tag."""

    what: What
    bridge: str
    port: Port
    interface: Interface


Listener = Callable[[tuple[InterfaceEvent, ...]], None]


def compare(before: Snapshot, after: Snapshot) -> tuple[InterfaceEvent, ...]:
    """What has happened to interfaces between two moments; what is gone shows as it last was."""
    old, new = before.interfaces(), after.interfaces()
    events = [InterfaceEvent(What.REMOVED, *old[name]) for name in sorted(old) if name not in new]
    for name in sorted(new):
        if name not in old:
            events.append(InterfaceEvent(What.ADDED, *new[name]))
        elif old[name] != new[name]:
            events.append(InterfaceEvent(What.CHANGED, *new[name]))
    return tuple(events)


class Ovsdb(Protocol):
    def read(self) -> Snapshot: ...

    def apply(self, changes: Iterable[Change], *, settle: float = 0.0) -> None:
        """All changes in one transaction. The number of a new port may come later, with an event.

        `settle` is how many seconds to wait for the switch to have carried them out, and no error if it has not. A port
        that is deleted and made again needs it: a switch that sees both at once keeps the device that it had.
        """
        ...

    def subscribe(self, listener: Listener) -> None:
        """Tell of every later event, from the driver's own thread: a listener notes it and returns."""
        ...

    def close(self) -> None: ...
