"""Plans the namespace of a service (DHCP, router): the changes from its actual to its desired state. Pure.

A namespace of ours is ours altogether: addresses of our devices, routes and rules that are not desired are removed, except
those that the kernel or a routing daemon (keepalived) has set, as their protocol field tells. What the kernel adds for
an address (subnet routes, link-local addresses) is never touched.

What is right is not touched, and additions precede removals: an address that replaces another one of its subnet, or a
route with a new next hop, leaves no gap.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Set
from types import MappingProxyType

from neutrino.dataplane.netlink.api import (
    DeleteDevice,
    DeleteItem,
    NetlinkChange,
    SetDevice,
    SetItem,
    SetSysctl,
    SetVeth,
)
from neutrino.dataplane.netlink.values import (
    HOST,
    OURS,
    Address,
    Device,
    NamespaceState,
    Neighbour,
    ProxyNeighbour,
    Route,
    RouteKey,
    Rule,
)
from neutrino.dataplane.nft.api import Table

REMOVABLE = frozenset({OURS, 0, 3, 4})
"""Protocols of routes and rules that no daemon maintains: ours, none, boot (by hand, or by earlier agents), static.

The routes of keepalived are static too (`others_routes`).
"""

PROMOTE = "net/ipv4/conf/all/promote_secondaries"
"""Without it, deleting an IPv4 address also deletes the later addresses of its subnet."""

IPV6_OFF = "net/ipv6/conf/all/disable_ipv6"

_INTERNAL = ("openvswitch", "tun")  # kinds of internal ports, on the kernel's and on the userspace datapath
_DELETABLE = ("veth", "bridge")  # other kinds are internal ports, which only the switch can remove


@dataclasses.dataclass(frozen=True)
class DesiredDevice:
    """A device.

    With a peer, one end of a veth pair that we create; without, another part plugs it. Empty values stay as they are.
    """

    name: str
    peer: str = ""
    peer_namespace: str = HOST
    mac: str = ""
    mtu: int = 0
    alias: str = ""
    up: bool = True
    tx_checksum: bool | None = None


# Packets of a namespace to its own addresses pass the loopback device.
LOOPBACK = DesiredDevice("lo")
SERVICE = "service"


@dataclasses.dataclass(frozen=True)
class Plug:
    """A port of a bridge for a device of the namespace: an internal port, or the other end of a veth pair."""

    bridge: str
    name: str  # of the device on the bridge
    port_id: str
    mac: str
    internal: bool = False  # ovs-vswitchd creates the device
    mark: str = SERVICE  # identifies the port as ours


@dataclasses.dataclass(frozen=True)
class DesiredNamespace:
    name: str
    devices: tuple[DesiredDevice, ...] = ()
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()
    proxies: frozenset[ProxyNeighbour] = frozenset()
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    initial_sysctls: frozenset[str] = frozenset()
    """Names of sysctls that are set only while there are no devices but lo: a change would make the kernel send packets."""
    device_prefixes: tuple[str, ...] = ()
    """Prefixes of our devices' names: such a device that is not desired is deleted."""
    others_addresses: frozenset[str] = frozenset()
    """Devices on which a daemon sets addresses, as keepalived does: undesired ones stay."""
    others_tables: frozenset[int] = frozenset()
    """Routing tables that a daemon fills, as charon does: their routes and rules stay."""
    others_routes: frozenset[int] = frozenset()
    """Protocols of routes that a daemon sets, as keepalived does: undesired ones stay."""
    plugs: tuple[Plug, ...] = ()
    keeps_devices: bool = False
    """A plugged device that exists stays what it is, a veth pair or an internal port: plugging it anew loses packets."""
    tables: tuple[Table, ...] = ()  # of nft; planned by themselves (`service_namespaces.plan_tables`)


@dataclasses.dataclass(frozen=True)
class NamespacePlan:
    namespace: str
    changes: tuple[NetlinkChange, ...] = ()
    missing: tuple[str, ...] = ()
    """Devices that another part has to plug; their addresses and routes are planned when they exist."""
    stale: tuple[str, ...] = ()
    """Devices that have to be unplugged from the switch."""

    def __bool__(self) -> bool:
        return bool(self.changes or self.missing or self.stale)

    def text(self) -> str:
        lines = [change.text() for change in self.changes]
        lines += [f"device {name} has to be plugged" for name in self.missing]
        lines += [f"device {name} has to be unplugged" for name in self.stale]
        return "\n".join(f"{self.namespace or 'host'} {line}" for line in lines)


def as_plugged(desired: DesiredNamespace, actual: NamespaceState) -> DesiredNamespace:
    """The namespace with those devices as internal ports that are internal ports, and as veth pairs that are such."""
    if not desired.keeps_devices:
        return desired
    plugs = {plug.name: plug for plug in desired.plugs}
    devices = {device.name: device for device in desired.devices}
    for device in desired.devices:
        plug, found = plugs.get(device.peer or device.name), actual.devices.get(device.name, Device(""))
        if plug is None:
            continue
        if not plug.internal and found.kind in _INTERNAL:
            devices[device.name] = dataclasses.replace(device, peer="", alias="", tx_checksum=None)
            plugs[plug.name] = dataclasses.replace(plug, name=device.name, internal=True)
        elif plug.internal and found.kind == "veth" and found.peer_namespace == HOST:
            devices[device.name] = dataclasses.replace(device, peer=found.peer)
            plugs[plug.name] = dataclasses.replace(plug, name=found.peer, internal=False)
    return dataclasses.replace(desired, devices=tuple(devices.values()), plugs=tuple(plugs.values()))


def sysctls_to_read(desired: DesiredNamespace) -> tuple[str, ...]:
    """The sysctls that `plan_namespace` needs in the actual state."""
    return tuple(sorted({*desired.sysctls, PROMOTE, IPV6_OFF}))


def plan_namespace(desired: DesiredNamespace, actual: NamespaceState, *, complete: bool = True) -> NamespacePlan:
    """`actual` was read with `sysctls_to_read`. On a host without IPv6 only the IPv4 part is planned.

    Not `complete`: desired state is from the cache of an agent that has not synced, and may be older than actual state.
    Nothing is removed or replaced.
    """
    desired = desired if _has_ipv6(desired, actual) else _without_ipv6(desired)
    wanted = sorted(desired.devices, key=lambda each: each.name)
    undesired = _undesired_devices(desired, actual)
    delete = {name for name in undesired if actual.devices[name].kind in _DELETABLE}
    create = [
        SetVeth(each.name, each.peer, each.peer_namespace, each.mac, each.mtu)
        for each in wanted
        if each.peer and (each.name not in actual.devices or each.name in delete)
    ]
    # A device that is deleted or re-created loses its addresses, routes and sysctls.
    present = {name: device for name, device in actual.devices.items() if name not in undesired}
    usable = present | {each.name: Device(each.name, mac=each.mac, mtu=each.mtu) for each in create}
    found = [(each, usable[each.name]) for each in wanted if each.name in usable]
    namespace_sysctls, device_sysctls = _plan_sysctls(desired, actual, present.keys(), usable.keys())
    changes = (
        *namespace_sysctls,
        *(DeleteDevice(name) for name in sorted(delete)),  # first: a pair that is created anew has the same name
        *create,
        *(change for pair in found if (change := _plan_attributes(*pair)) is not None),
        *device_sysctls,  # before the device is up: it would accept router advertisements, for example
        *(SetDevice(each.name, up=each.up) for each, device in found if each.up != device.up),
        *_plan_contents(desired, actual, present.keys(), usable.keys()),
    )
    missing = tuple(each.name for each in wanted if each.name not in usable)
    if not complete:
        return NamespacePlan(desired.name, _additions(changes, actual), missing)
    return NamespacePlan(desired.name, changes, missing, tuple(sorted(undesired - delete)))


def plan_outer_ends(desired: DesiredNamespace, actual: NamespaceState) -> list[SetDevice]:
    """The ends of veth pairs on the bridge, judged by the inner ends: reading the host's devices is slow."""
    return [
        SetDevice(device.peer, mtu=device.mtu, up=True)
        for device in desired.devices
        if device.peer and device.peer_namespace == HOST
        # An inner end has a carrier once the outer one is up.
        if not (inner := actual.devices.get(device.name, Device(""))).carrier or device.mtu not in (0, inner.mtu)
    ]


def _additions(changes: Iterable[NetlinkChange], actual: NamespaceState) -> tuple[NetlinkChange, ...]:
    """The changes that delete and replace nothing."""
    routes = {route.key for route in actual.routes}
    neighbours = {(each.device, each.address) for each in actual.neighbours}

    def adds(change: NetlinkChange) -> bool:
        match change:
            case DeleteItem() | DeleteDevice():
                return False
            case SetVeth():
                return change.name not in actual.devices
            case SetItem(Route() as route):  # a route with that key would be replaced
                return route.key not in routes
            case SetItem(Neighbour() as neighbour):
                return (neighbour.device, neighbour.address) not in neighbours
            case _:
                return True

    return tuple(filter(adds, changes))


# --- devices ---


def _undesired_devices(desired: DesiredNamespace, actual: NamespaceState) -> set[str]:
    """Devices of ours that are not desired, and those that are an end of another veth pair than the desired one."""
    ours = {name for name in actual.devices if name.startswith(desired.device_prefixes)}
    return (ours - {device.name for device in desired.devices}) | {
        device.name
        for device in desired.devices
        if device.peer and device.name in actual.devices and not _is_end(actual.devices[device.name], device)
    }


def _is_end(found: Device, wanted: DesiredDevice) -> bool:
    return found.kind == "veth" and (found.peer, found.peer_namespace) == (wanted.peer, wanted.peer_namespace)


def _plan_attributes(wanted: DesiredDevice, found: Device) -> SetDevice | None:
    change = SetDevice(
        wanted.name,
        mac=wanted.mac if wanted.mac.lower() != found.mac.lower() else "",
        mtu=wanted.mtu if wanted.mtu != found.mtu else 0,
        alias=wanted.alias if wanted.alias and wanted.alias != found.alias else None,
        tx_checksum=wanted.tx_checksum if wanted.tx_checksum != found.tx_checksum else None,
    )
    return change if change != SetDevice(wanted.name) else None


# --- sysctls and IPv6 ---


def _plan_sysctls(
    desired: DesiredNamespace, actual: NamespaceState, present: Set[str], usable: Set[str]
) -> tuple[list[SetSysctl], list[SetSysctl]]:
    """Plan sysctls of the namespace and of devices that exist by then; one that this kernel lacks is skipped."""
    of_namespace: list[SetSysctl] = []
    of_devices: list[SetSysctl] = []
    names = {each.name for each in desired.devices}
    for name, value in sorted({PROMOTE: "1", **desired.sysctls}.items()):
        # net/ipv4/conf/qr-1/rp_filter is of device qr-1.
        parts = name.split("/")
        device = parts[3] if len(parts) > 4 and parts[3] in names else ""
        if device and device not in usable:
            continue
        if name in desired.initial_sysctls and not present.isdisjoint(names - {LOOPBACK.name}):
            continue
        new = bool(device) and device not in present  # `actual` may have values of the device that it replaces
        if new or actual.sysctls.get(name, value) != value:
            (of_devices if device else of_namespace).append(SetSysctl(name, value))
    return of_namespace, of_devices


def _has_ipv6(desired: DesiredNamespace, actual: NamespaceState) -> bool:
    off = actual.sysctls.get(IPV6_OFF)  # None: a kernel without IPv6
    return off is not None and desired.sysctls.get(IPV6_OFF, off) != "1"


def _without_ipv6(desired: DesiredNamespace) -> DesiredNamespace:
    return dataclasses.replace(
        desired,
        addresses=frozenset(address for address in desired.addresses if address.version == 4),
        routes=frozenset(route for route in desired.routes if route.version == 4),
        rules=frozenset(rule for rule in desired.rules if rule.version == 4),
        neighbours=frozenset(neighbour for neighbour in desired.neighbours if ":" not in neighbour.address),
        proxies=frozenset(),
        sysctls={name: value for name, value in desired.sysctls.items() if not name.startswith("net/ipv6/")},
    )


# --- addresses, routes, rules, neighbours ---


def _plan_contents(
    desired: DesiredNamespace, actual: NamespaceState, present: Set[str], usable: Set[str]
) -> list[NetlinkChange]:
    """A routing table is filled before a rule leads to it, and emptied after the rule is gone."""
    ours = {device.name for device in desired.devices} & usable
    first, addresses, stale_addresses = _plan_addresses(desired, actual, ours, present)
    # These devices have no IPv4 address, for a moment or for good: the kernel drops their IPv4 routes and neighbours.
    unnumbered = {each.device for each in first}
    routes, stale_routes = _plan_routes(desired, actual, usable, present, unnumbered)
    stale_rules = (rule for rule in actual.rules - desired.rules if _is_removable(rule, desired))
    wanted = {
        (neighbour.device, neighbour.address): neighbour
        for neighbour in desired.neighbours
        if neighbour.device in usable
    }
    known = {
        neighbour
        for neighbour in actual.neighbours
        if neighbour.device in ours & present and (neighbour.device not in unnumbered or ":" in neighbour.address)
    }
    stale_neighbours = (each for each in known if (each.device, each.address) not in wanted)
    proxied = {proxy for proxy in actual.proxies if proxy.device in ours & present}
    proxies = {proxy for proxy in desired.proxies if proxy.device in usable}
    return [
        *map(DeleteItem, first),
        *map(SetItem, addresses),
        *map(SetItem, routes),
        *map(SetItem, sorted(desired.rules - actual.rules)),
        *map(SetItem, sorted(set(wanted.values()) - known)),
        *map(SetItem, sorted(proxies - proxied)),
        *map(DeleteItem, sorted(stale_rules)),
        *map(DeleteItem, stale_routes),
        *map(DeleteItem, sorted(stale_neighbours)),
        *map(DeleteItem, sorted(proxied - proxies)),
        *map(DeleteItem, stale_addresses),
    ]


def _plan_addresses(
    desired: DesiredNamespace, actual: NamespaceState, ours: Set[str], present: Set[str]
) -> tuple[list[Address], list[Address], list[Address]]:
    """Addresses to delete before anything is added, to add, and to delete at the end."""
    existing = {(address.device, address.address): address for address in actual.addresses if address.device in present}
    wanted = {
        (address.device, address.address): address for address in desired.addresses if address.device in ours | present
    }
    numbered = {each.device for each in wanted.values() if each.version == 4}
    stale = [
        each
        for key, each in sorted(existing.items())
        if key not in wanted and each.device in ours and not (each.by_kernel or each.device in desired.others_addresses)
    ]
    # With the device's last IPv4 address the kernel drops its IPv4 routes and neighbours: they are added after that.
    first = [each for each in stale if each.version == 4 and each.device not in numbered]
    # The kernel cannot change the scope of an address.
    first += [old for key, each in sorted(wanted.items()) if (old := existing.get(key, each)).scope != each.scope]
    add = [
        each
        for key, each in sorted(wanted.items())
        if (known := existing.get(key)) is None or (known != each and not known.by_kernel)  # the kernel's own serves
    ]
    return first, add, [each for each in stale if each not in first]


def _plan_routes(
    desired: DesiredNamespace, actual: NamespaceState, usable: Set[str], present: Set[str], unnumbered: Set[str]
) -> tuple[list[Route], list[Route]]:
    """Routes to add, and to delete after that."""
    existing: dict[RouteKey, list[Route]] = {}
    for route in sorted(actual.routes):
        # The kernel drops a route with its device; one over several next hops may stay, with those that are left.
        left = route.devices & present - (unnumbered if route.version == 4 else frozenset())
        if left or not route.devices:
            existing.setdefault(route.key, []).append(route)
    wanted = {each.key: each for each in desired.routes if _devices_of(each, desired) <= usable | {""}}
    add = [
        route
        # On-link routes first: the kernel refuses a route whose next hop is not reachable yet.
        for route in sorted(wanted.values(), key=lambda each: (bool(each.via or each.next_hops), each))
        if not any(_matches(found, route) for found in existing.get(route.key, ()))
    ]
    stale = (each for key, found in sorted(existing.items()) for each in _superfluous(found, wanted.get(key)))
    return add, [each for each in stale if _is_removable(each, desired) and each.protocol not in desired.others_routes]


def _is_removable(each: Route | Rule, desired: DesiredNamespace) -> bool:
    return each.protocol in REMOVABLE and each.table not in desired.others_tables


def _matches(found: Route, wanted: Route) -> bool:
    """A desired route without a device accepts the one that the kernel has chosen."""
    return found == (wanted if wanted.device else dataclasses.replace(wanted, device=found.device))


def _superfluous(found: Iterable[Route], wanted: Route | None) -> Iterator[Route]:
    """Yield, of several routes with one key, all but the desired one; without it, all but the first, which is replaced."""
    if wanted is None:
        yield from found
        return
    several = list(found)
    right = [route for route in several if _matches(route, wanted)]
    yield from (route for route in several[0 if right else 1 :] if route not in right)


def _devices_of(route: Route, desired: DesiredNamespace) -> frozenset[str]:
    """The devices that a route needs, as far as the desired addresses tell."""
    if route.devices or not route.via:
        return route.devices
    via = ipaddress.ip_address(route.via)
    reaching = (
        address.device for address in desired.addresses if via in ipaddress.ip_interface(address.address).network
    )
    return frozenset((next(reaching, ""),))
