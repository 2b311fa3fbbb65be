"""Changes of a namespace, as values: each names the state to reach, so applying it twice changes nothing."""

from __future__ import annotations

import dataclasses

from neutrino.dataplane.netlink.tc import TcItem
from neutrino.dataplane.netlink.values import HOST, MAIN_TABLE, Address, Neighbour, Route, Rule


@dataclasses.dataclass(frozen=True)
class SetVeth:
    """A veth pair, one end here and the other in `peer_namespace`; created unless the first end exists."""

    name: str
    peer: str
    peer_namespace: str = HOST
    mac: str = ""
    mtu: int = 0  # of both ends; 0: the kernel's

    def text(self) -> str:
        where = f" in {self.peer_namespace}" if self.peer_namespace else ""
        return f"set veth {self.name} peer={self.peer}{where}{_words(mac=self.mac, mtu=self.mtu)}"


@dataclasses.dataclass(frozen=True)
class SetBridge:
    """A Linux bridge; created unless it exists."""

    name: str

    def text(self) -> str:
        return f"set bridge {self.name}"


@dataclasses.dataclass(frozen=True)
class SetDevice:
    """Attributes of an existing device. Those not given are left; an empty master or alias removes it."""

    name: str
    mac: str = ""
    mtu: int = 0
    up: bool | None = None
    master: str | None = None
    alias: str | None = None
    tx_checksum: bool | None = None

    def text(self) -> str:
        words = _words(mac=self.mac, mtu=self.mtu)
        flags = {"up": self.up, "tx_checksum": self.tx_checksum}
        words += "".join(f" {name}={'on' if on else 'off'}" for name, on in flags.items() if on is not None)
        texts = {"master": self.master, "alias": self.alias}
        return f"set device {self.name}{words}" + "".join(f" {k}={v!r}" for k, v in texts.items() if v is not None)


@dataclasses.dataclass(frozen=True)
class RenameDevice:
    name: str
    new_name: str

    def text(self) -> str:
        return f"rename device {self.name} to {self.new_name}"


@dataclasses.dataclass(frozen=True)
class MoveDevice:
    """To another namespace, where the device arrives down and without addresses."""

    name: str
    to: str

    def text(self) -> str:
        return f"move device {self.name} to {self.to or 'the host'}"


@dataclasses.dataclass(frozen=True)
class DeleteDevice:
    """With its addresses and routes; of a veth pair, both ends."""

    name: str

    def text(self) -> str:
        return f"delete device {self.name}"


@dataclasses.dataclass(frozen=True)
class SetAddress:
    address: Address

    def text(self) -> str:
        flags = (name for name in ("nodad", "deprecated") if getattr(self.address, name))
        scope = (f"scope={self.address.scope}",) if self.address.scope != "global" else ()
        return " ".join(("set address", self.address.device, self.address.address, *scope, *flags))


@dataclasses.dataclass(frozen=True)
class DeleteAddress:
    address: Address

    def text(self) -> str:
        return f"delete address {self.address.device} {self.address.address}"


@dataclasses.dataclass(frozen=True)
class SetRoute:
    """Replaces the route with the same key, if there is one."""

    route: Route

    def text(self) -> str:
        return f"set route {_route_words(self.route)}"


@dataclasses.dataclass(frozen=True)
class DeleteRoute:
    route: Route

    def text(self) -> str:
        return f"delete route {_route_words(self.route)}"


@dataclasses.dataclass(frozen=True)
class SetRule:
    rule: Rule

    def text(self) -> str:
        return f"set rule {_rule_words(self.rule)}"


@dataclasses.dataclass(frozen=True)
class DeleteRule:
    rule: Rule

    def text(self) -> str:
        return f"delete rule {_rule_words(self.rule)}"


@dataclasses.dataclass(frozen=True)
class SetNeighbour:
    """Permanent: the kernel never resolves the address by ARP or ND."""

    neighbour: Neighbour

    def text(self) -> str:
        return f"set neighbour {self.neighbour.device} {self.neighbour.address} mac={self.neighbour.mac}"


@dataclasses.dataclass(frozen=True)
class DeleteNeighbour:
    neighbour: Neighbour

    def text(self) -> str:
        return f"delete neighbour {self.neighbour.device} {self.neighbour.address}"


@dataclasses.dataclass(frozen=True)
class SetSysctl:
    """`name` is the path under /proc/sys, such as net/ipv4/ip_forward: names of devices may hold dots."""

    name: str
    value: str

    def text(self) -> str:
        return f"set sysctl {self.name}={self.value}"


@dataclasses.dataclass(frozen=True)
class SetTc:
    """A qdisc, class or filter; parameters of one that exists are changed in place."""

    item: TcItem

    def text(self) -> str:
        return f"set {self.item.text()}"


@dataclasses.dataclass(frozen=True)
class DeleteTc:
    """A qdisc goes with its classes and filters."""

    item: TcItem

    def text(self) -> str:
        return f"delete {self.item.text()}"


SocketChange = (  # those that are rtnetlink requests
    SetVeth
    | SetBridge
    | SetDevice
    | RenameDevice
    | MoveDevice
    | DeleteDevice
    | SetAddress
    | DeleteAddress
    | SetRoute
    | DeleteRoute
    | SetRule
    | DeleteRule
    | SetNeighbour
    | DeleteNeighbour
    | SetTc
    | DeleteTc
)
Change = SocketChange | SetSysctl


def _words(**values: object) -> str:
    """` name=value` for each value that is set."""
    return "".join(f" {name}={value}" for name, value in values.items() if value)


def _route_words(route: Route) -> str:
    table = route.table if route.table != MAIN_TABLE else 0
    words = _words(via=route.via, device=route.device, table=table, metric=route.metric, source=route.source)
    return f"{route.destination}{words}{' onlink' if route.onlink else ''}"


def _rule_words(rule: Rule) -> str:
    mark = f"{rule.mark:#x}/{rule.mask:#x}" if rule.mark else ""
    words = _words(source=rule.source, destination=rule.destination, iif=rule.iif, mark=mark, table=rule.table)
    return f"{rule.priority} IPv{rule.version}{words}"
