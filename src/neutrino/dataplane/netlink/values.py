"""The state of a network namespace, as values.

Addresses are written as the kernel writes them, so that actual state compares equal with desired state: construct values
with `address`, `route`, `rule`, `neighbour` and `proxy_neighbour`.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

HOST = ""
"""The agent's own namespace."""

MAIN_TABLE = 254

OURS = 78
"""The protocol number of our routes and rules, by which they are recognised. Nobody else has registered it."""


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    kind: str = ""  # veth, bridge, tun, openvswitch…; empty for loopback and hardware
    mac: str = ""
    mtu: int = 0
    up: bool = False
    carrier: bool = False
    peer: str = ""  # the other end of a veth pair
    peer_namespace: str | None = None  # of the other end; None: one without a name here
    alias: str = ""
    tx_checksum: bool = True  # read for devices that we plug: veth pairs and internal ports
    index: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, order=True)
class Address:
    device: str
    address: str  # with its prefix length
    scope: str = "global"
    nodad: bool = False  # IPv6: usable at once, without duplicate address detection
    by_kernel: bool = dataclasses.field(default=False, compare=False)  # such as a link-local one: the kernel added it

    @property
    def version(self) -> int:
        return 6 if ":" in self.address else 4


RouteKey = tuple[int, str, int]


@dataclasses.dataclass(frozen=True, order=True)
class NextHop:
    """One of several next hops of a route, all of the same weight."""

    device: str
    via: str = ""
    onlink: bool = False


@dataclasses.dataclass(frozen=True, order=True)
class Route:
    """Make it with `route`, or `multipath_route`: then it has next hops, and neither via nor device."""

    destination: str
    device: str = ""
    via: str = ""
    table: int = MAIN_TABLE
    metric: int = 0  # 0: the kernel's default
    onlink: bool = False  # via is on the link, though in no subnet of the device
    source: str = ""
    next_hops: tuple[NextHop, ...] = ()
    protocol: int = dataclasses.field(default=OURS, compare=False)

    @property
    def devices(self) -> frozenset[str]:
        """Those that it names."""
        return frozenset(name for name in (self.device, *(hop.device for hop in self.next_hops)) if name)

    @property
    def key(self) -> RouteKey:
        """The identity of a route: of two with the same key the kernel keeps one."""
        return self.table, self.destination, self.metric

    @property
    def version(self) -> int:
        return 6 if ":" in self.destination else 4


@dataclasses.dataclass(frozen=True, order=True)
class Rule:
    """A policy rule that selects a routing table; rules with other actions are not read."""

    priority: int
    version: int = 4
    source: str = ""
    destination: str = ""
    iif: str = ""
    mark: int = 0
    mask: int = 0  # of the mark
    table: int = MAIN_TABLE
    suppressed: int = -1  # routes of the table whose prefixes are this short or shorter are not used; -1: all are used
    protocol: int = dataclasses.field(default=OURS, compare=False)


@dataclasses.dataclass(frozen=True, order=True)
class Neighbour:
    device: str
    address: str
    mac: str


@dataclasses.dataclass(frozen=True, order=True)
class ProxyNeighbour:
    """An IPv6 address for which the kernel answers neighbour solicitations on a device, if its `proxy_ndp` is set."""

    device: str
    address: str


@dataclasses.dataclass(frozen=True)
class NamespaceState:
    """Routes are unicast ones only; neighbours the permanent ones; `sysctls` those that were asked for."""

    devices: Mapping[str, Device] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()
    proxies: frozenset[ProxyNeighbour] = frozenset()
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))


# --- canonical values: written as the kernel writes them ---

IPV6_METRIC = 1024  # what the kernel takes for 0


def address(device: str, text: str, *, scope: str = "global", nodad: bool = False) -> Address:
    """`text` with its prefix length. The scope of an IPv6 address follows from it; IPv4 has no DAD."""
    interface = ipaddress.ip_interface(text)
    if interface.version == 6:
        scope = "link" if interface.ip.is_link_local else "host" if interface.ip.is_loopback else "global"
    return Address(device, str(interface), scope, nodad and interface.version == 6)


def route(
    destination: str, device: str = "", via: str = "", *, metric: int = 0, source: str = "", **values: Any
) -> Route:
    """`values` are further fields of `Route`."""
    network = ipaddress.ip_network(destination)
    metric = 0 if network.version == 6 and metric == IPV6_METRIC else metric
    return Route(str(network), device, _ip(via), metric=metric, source=_ip(source), **values)


def multipath_route(destination: str, next_hops: Iterable[NextHop], **values: Any) -> Route:
    """A route over several next hops, or over one like any route. The kernel chooses one for each flow."""
    several = tuple(sorted(NextHop(next_hop.device, _ip(next_hop.via), next_hop.onlink) for next_hop in next_hops))
    if len(several) == 1:
        return route(destination, several[0].device, several[0].via, onlink=several[0].onlink, **values)
    return route(destination, next_hops=several, **values)


def rule(
    priority: int, *, version: int = 4, source: str = "", destination: str = "", mark: int = 0, **values: Any
) -> Rule:
    """`version` is needed only where no prefix determines it; `values` are further fields of `Rule`."""
    versions: set[int] = {ipaddress.ip_network(text).version for text in (source, destination) if text} or {version}
    if len(versions) > 1:
        raise ValueError(f"rule from {source} to {destination}: two IP versions")
    values.setdefault("mask", 0xFFFFFFFF if mark else 0)
    return Rule(priority, versions.pop(), _prefix(source), _prefix(destination), mark=mark, **values)


def neighbour(device: str, text: str, mac: str) -> Neighbour:
    return Neighbour(device, _ip(text), mac.lower())


def proxy_neighbour(device: str, text: str) -> ProxyNeighbour:
    return ProxyNeighbour(device, _ip(text))


def _ip(text: str) -> str:
    return str(ipaddress.ip_address(text)) if text else ""


def _prefix(text: str) -> str:
    """Empty for a prefix of length 0, which matches everything."""
    network = ipaddress.ip_network(text) if text else None
    return str(network) if network is not None and network.prefixlen else ""
