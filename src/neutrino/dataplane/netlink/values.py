"""What is in a network namespace, as values.

Addresses are written as the kernel writes them, so that what is read compares with what was wanted: make values with
`address`, `route`, `rule` and `neighbour`.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Mapping
from types import MappingProxyType

from neutrino.dataplane.netlink.tc import TcItem

HOST = ""
"""The namespace that the agent itself is in."""

MAIN_TABLE = 254

OURS = 78
"""The protocol number of routes and rules that we make: by it they are known. Nobody else has registered it."""

KERNEL = 2
"""That of the routes which the kernel makes for addresses."""


@dataclasses.dataclass(frozen=True)
class Device:
    name: str
    kind: str = ""  # veth, bridge, tun, openvswitch…; empty for loopback and hardware
    mac: str = ""
    mtu: int = 0
    up: bool = False
    carrier: bool = False
    master: str = ""
    peer: str = ""  # the other end of a veth pair
    peer_namespace: str | None = None  # where that is; None: in none that has a name here
    alias: str = ""
    tx_checksum: bool = True  # read for veth alone; others say True
    index: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, order=True)
class Address:
    """Make it with `address`."""

    device: str
    address: str  # with its prefix length
    scope: str = "global"
    nodad: bool = False  # IPv6: usable at once, without asking whether somebody has it
    deprecated: bool = False  # preferred lifetime 0: for what is connected already, not for new connections
    by_kernel: bool = dataclasses.field(default=False, compare=False)  # such as a link-local one: nobody asked for it

    @property
    def version(self) -> int:
        return 6 if ":" in self.address else 4


RouteKey = tuple[int, str, int]


@dataclasses.dataclass(frozen=True, order=True)
class Route:
    """Make it with `route`. One with several next hops, which we never make, reads as one with neither via nor device."""

    destination: str
    device: str = ""
    via: str = ""
    table: int = MAIN_TABLE
    metric: int = 0  # 0: what the kernel takes by itself
    onlink: bool = False  # via is reached directly, though no address of ours says so
    source: str = ""
    protocol: int = dataclasses.field(default=OURS, compare=False)

    @property
    def key(self) -> RouteKey:
        """Of two routes with the same key the kernel keeps one."""
        return self.table, self.destination, self.metric

    @property
    def version(self) -> int:
        return 6 if ":" in self.destination else 4


@dataclasses.dataclass(frozen=True, order=True)
class Rule:
    """Which table packets look in. Make it with `rule`. Rules that do anything else are others', and not read."""

    priority: int
    version: int = 4
    source: str = ""
    destination: str = ""
    iif: str = ""
    mark: int = 0
    mask: int = 0  # of the mark
    table: int = MAIN_TABLE
    protocol: int = dataclasses.field(default=OURS, compare=False)


@dataclasses.dataclass(frozen=True, order=True)
class Neighbour:
    """Make it with `neighbour`."""

    device: str
    address: str
    mac: str


@dataclasses.dataclass(frozen=True)
class NamespaceState:
    """All of a namespace at about one moment. Routes are those that lead somewhere (no local, no broadcast ones)."""

    devices: Mapping[str, Device] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()  # the permanent ones: what was set, not what was found out
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))  # those asked for
    tc: frozenset[TcItem] = frozenset()  # qdiscs other than the kernel's defaults, with their classes and filters


# --- making values ---

_IPV6_METRIC = 1024  # what the kernel takes for 0


def address(device: str, text: str, *, scope: str = "global", nodad: bool = False, deprecated: bool = False) -> Address:
    """`text` with its prefix length. IPv6 addresses say themselves what their scope is; IPv4 knows no nodad."""
    interface = ipaddress.ip_interface(text)
    if interface.version == 6:
        scope = "link" if interface.ip.is_link_local else "host" if interface.ip.is_loopback else "global"
    return Address(device, str(interface), scope, nodad and interface.version == 6, deprecated)


def route(
    destination: str,
    device: str = "",
    via: str = "",
    *,
    table: int = MAIN_TABLE,
    metric: int = 0,
    onlink: bool = False,
    source: str = "",
    protocol: int = OURS,
) -> Route:
    network = ipaddress.ip_network(destination)
    if network.version == 6 and metric == _IPV6_METRIC:
        metric = 0
    return Route(
        destination=str(network),
        device=device,
        via=str(ipaddress.ip_address(via)) if via else "",
        table=table,
        metric=metric,
        onlink=onlink,
        source=str(ipaddress.ip_address(source)) if source else "",
        protocol=protocol,
    )


def rule(
    priority: int,
    *,
    version: int = 4,
    source: str = "",
    destination: str = "",
    iif: str = "",
    mark: int = 0,
    mask: int = 0,
    table: int = MAIN_TABLE,
    protocol: int = OURS,
) -> Rule:
    """`version` need only be given where no prefix tells it."""
    prefixes = [ipaddress.ip_network(text) for text in (source, destination) if text]
    versions: set[int] = {prefix.version for prefix in prefixes} or {version}
    if len(versions) > 1:
        raise ValueError(f"rule from {source} to {destination}: two IP versions")
    return Rule(
        priority=priority,
        version=versions.pop(),
        source=_prefix(source),
        destination=_prefix(destination),
        iif=iif,
        mark=mark,
        mask=mask or (0xFFFFFFFF if mark else 0),
        table=table,
        protocol=protocol,
    )


def neighbour(device: str, text: str, mac: str) -> Neighbour:
    return Neighbour(device, str(ipaddress.ip_address(text)), mac.lower())


def _prefix(text: str) -> str:
    """A prefix of length 0 matches everything, as none does."""
    network = ipaddress.ip_network(text) if text else None
    return str(network) if network is not None and network.prefixlen else ""
