"""The netlink driver: errors, changes and the protocol.

Actual state is read as `values`; changes are values too, so that a plan can be printed before it is applied. A change names
the state to reach, so applying it twice changes nothing. The kernel has no transaction over several of them: they are
applied in order, and the first that is refused ends it.

The namespace `""` is the agent's own.
"""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, Protocol

from neutrino.dataplane.netlink.values import (
    HOST,
    Address,
    Device,
    NamespaceState,
    Neighbour,
    ProxyNeighbour,
    Route,
    Rule,
)


class NetlinkError(Exception):
    """The kernel refused a request. Of several changes, those before it are in force."""


# --- changes ---

Item = Address | Route | Rule | Neighbour | ProxyNeighbour


class NetlinkChange:
    """Base class of changes."""

    def text(self) -> str:
        """A line of a plan, such as `set route 0.0.0.0/0 device=qg-1 via=203.0.113.1`."""
        verb, noun = re.findall("[A-Z][a-z]+", type(self).__name__)
        subject: Any = self
        if isinstance(self, SetItem | DeleteItem):
            subject, noun = self.item, type(self.item).__name__
        first, *others = dataclasses.fields(subject)
        values = ((other, getattr(subject, other.name)) for other in others if other.compare)
        words = (f"{each.name}={value}" for each, value in values if value != each.default)
        return " ".join((verb.lower(), noun.lower(), str(getattr(subject, first.name)), *words))


@dataclasses.dataclass(frozen=True)
class SetItem(NetlinkChange):
    """Create an address, route, policy rule, permanent or proxy neighbour, or change it in place.

    A route replaces the one with the same key.
    """

    item: Item


@dataclasses.dataclass(frozen=True)
class DeleteItem(NetlinkChange):
    item: Item


@dataclasses.dataclass(frozen=True)
class SetVeth(NetlinkChange):
    """A veth pair, one end here and the other in `peer_namespace`; created unless the first end exists."""

    name: str
    peer: str
    peer_namespace: str = HOST
    mac: str = ""
    mtu: int = 0  # of both ends; 0: the kernel's default


@dataclasses.dataclass(frozen=True)
class SetDevice(NetlinkChange):
    """Attributes of an existing device. Those not given are left; an empty alias removes it."""

    name: str
    mac: str = ""
    mtu: int = 0
    up: bool | None = None
    alias: str | None = None
    tx_checksum: bool | None = None


@dataclasses.dataclass(frozen=True)
class MoveDevice(NetlinkChange):
    """Moves a device to another namespace, where the device arrives down and without addresses."""

    name: str
    to: str


@dataclasses.dataclass(frozen=True)
class DeleteDevice(NetlinkChange):
    """Deletes a device with its addresses and routes; of a veth pair, both ends."""

    name: str


@dataclasses.dataclass(frozen=True)
class SetSysctl(NetlinkChange):
    """`name` is the path under /proc/sys, such as net/ipv4/ip_forward: names of devices may hold dots."""

    name: str
    value: str


# --- the driver ---


class Netlink(Protocol):
    """All calls may block for some milliseconds, and may be made from any thread."""

    def namespaces(self) -> frozenset[str]: ...

    def has_namespace(self, name: str) -> bool:
        """Whether it exists; takes the same time however many there are."""
        ...

    def create_namespace(self, name: str) -> None:
        """No error if it exists."""
        ...

    def delete_namespace(self, name: str) -> None:
        """Removes the name; the kernel destroys the namespace when no process is in it any more."""
        ...

    def read(self, namespace: str, sysctls: Iterable[str] = ()) -> NamespaceState:
        """`sysctls` that this kernel does not have are missing from the result."""
        ...

    def read_device(self, namespace: str, name: str) -> Device | None:
        """One device alone: reading all of the host's takes long where it has many."""
        ...

    def apply(self, namespace: str, changes: Iterable[NetlinkChange]) -> None: ...

    def announce(self, namespace: str, device: str, addresses: Iterable[str], *, router: bool = False) -> None:
        """Announce addresses (without prefix length) to others on the link, once; an error if the device is not up.

        `router` sets the router flag of neighbour advertisements.
        """
        ...


def check_sysctl(name: str) -> str:
    """The name, if it is a path such as net/ipv4/ip_forward; ValueError otherwise."""
    parts = name.split("/")
    if parts[0] != "net" or len(parts) < 3 or any(part in ("", ".", "..") for part in parts):  # below net/
        raise ValueError(f"{name}: not a path such as net/ipv4/ip_forward")
    return name
