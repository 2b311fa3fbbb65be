"""Changes of a namespace, as values: each names the state to reach, so applying it twice changes nothing."""

import dataclasses
import re

from neutrino.dataplane.netlink.tc import TcItem
from neutrino.dataplane.netlink.values import HOST, Address, Neighbour, Route, Rule


class Change:
    """Base class. A change has either the attributes of a device, or one value that is set or deleted."""

    def text(self) -> str:
        """A line of a plan, such as `set route 0.0.0.0/0 device=qg-1 via=203.0.113.1`."""
        verb, noun = re.findall("[A-Z][a-z]+", type(self).__name__)
        value = getattr(self, dataclasses.fields(self)[0].name)  # type: ignore[arg-type]
        subject = value if dataclasses.is_dataclass(value) else self
        noun = noun if noun != "Tc" else type(subject).__name__
        first, *others = dataclasses.fields(subject)  # type: ignore[arg-type]
        given = ((each.name, getattr(subject, each.name)) for each in others if each.compare)
        defaults = {each.name: each.default for each in others}
        words = (f"{name}={value}" for name, value in given if value != defaults[name])
        return " ".join((verb.lower(), noun.lower(), str(getattr(subject, first.name)), *words))


@dataclasses.dataclass(frozen=True)
class SetVeth(Change):
    """A veth pair, one end here and the other in `peer_namespace`; created unless the first end exists."""

    name: str
    peer: str
    peer_namespace: str = HOST
    mac: str = ""
    mtu: int = 0  # of both ends; 0: the kernel's default


@dataclasses.dataclass(frozen=True)
class SetDevice(Change):
    """Attributes of an existing device. Those not given are left; an empty alias removes it."""

    name: str
    mac: str = ""
    mtu: int = 0
    up: bool | None = None
    alias: str | None = None
    tx_checksum: bool | None = None


@dataclasses.dataclass(frozen=True)
class MoveDevice(Change):
    """To another namespace, where the device arrives down and without addresses."""

    name: str
    to: str


@dataclasses.dataclass(frozen=True)
class DeleteDevice(Change):
    """With its addresses and routes; of a veth pair, both ends."""

    name: str


@dataclasses.dataclass(frozen=True)
class SetAddress(Change):
    address: Address


@dataclasses.dataclass(frozen=True)
class DeleteAddress(Change):
    address: Address


@dataclasses.dataclass(frozen=True)
class SetRoute(Change):
    """Replaces the route with the same key, if there is one."""

    route: Route


@dataclasses.dataclass(frozen=True)
class DeleteRoute(Change):
    route: Route


@dataclasses.dataclass(frozen=True)
class SetRule(Change):
    rule: Rule


@dataclasses.dataclass(frozen=True)
class DeleteRule(Change):
    rule: Rule


@dataclasses.dataclass(frozen=True)
class SetNeighbour(Change):
    """Permanent: the kernel never resolves the address by ARP or ND."""

    neighbour: Neighbour


@dataclasses.dataclass(frozen=True)
class DeleteNeighbour(Change):
    neighbour: Neighbour


@dataclasses.dataclass(frozen=True)
class SetTc(Change):
    """A qdisc, class or filter; parameters of one that exists are changed in place."""

    item: TcItem


@dataclasses.dataclass(frozen=True)
class DeleteTc(Change):
    """A qdisc goes with its classes and filters."""

    item: TcItem


@dataclasses.dataclass(frozen=True)
class SetSysctl(Change):
    """`name` is the path under /proc/sys, such as net/ipv4/ip_forward: names of devices may hold dots."""

    name: str
    value: str
