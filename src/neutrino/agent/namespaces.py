"""Plans a namespace: the changes from its actual to its desired state. Pure.

A namespace of ours is ours altogether: addresses of our devices, routes and rules that are not desired are removed, except
those that the kernel or a routing daemon (keepalived) has set, as their protocol field tells. What the kernel adds for
an address (subnet routes, link-local addresses) is never touched.

What is right is not touched, and additions precede removals: an address that replaces another one of its subnet, or a
route with a new next hop, leaves no gap.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from neutrino.agent.delta import diff
from neutrino.dataplane.netlink.api import (
    Change,
    DeleteDevice,
    DeleteItem,
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
    Route,
    RouteKey,
    Rule,
)

REMOVABLE = frozenset({OURS, 0, 3, 4})
"""Protocols of routes and rules that no daemon maintains: ours, none, boot (by hand, or by earlier agents), static."""

PROMOTE = "net/ipv4/conf/all/promote_secondaries"
"""Without it, deleting an IPv4 address also deletes the later addresses of its subnet."""

IPV6_OFF = "net/ipv6/conf/all/disable_ipv6"

_DELETABLE = ("veth", "bridge")  # other kinds are internal ports, which only the switch can remove


@dataclasses.dataclass(frozen=True)
class DesiredDevice:
    """With a peer: one end of a veth pair that we create. Without: another part plugs it. Empty values stay as they are."""

    name: str
    peer: str = ""
    peer_namespace: str = HOST
    mac: str = ""
    mtu: int = 0
    alias: str = ""
    up: bool = True
    tx_checksum: bool | None = None


@dataclasses.dataclass(frozen=True)
class DesiredNamespace:
    name: str
    devices: tuple[DesiredDevice, ...] = ()
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[Route] = frozenset()
    rules: frozenset[Rule] = frozenset()
    neighbours: frozenset[Neighbour] = frozenset()
    sysctls: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    device_prefixes: tuple[str, ...] = ()
    """Prefixes of our devices' names: such a device that is not desired is deleted."""
    others_addresses: frozenset[str] = frozenset()
    """Devices on which a daemon sets addresses, as keepalived does: undesired ones stay."""


@dataclasses.dataclass(frozen=True)
class NamespacePlan:
    namespace: str
    changes: tuple[Change, ...] = ()
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


def sysctls_to_read(desired: DesiredNamespace) -> tuple[str, ...]:
    """The sysctls that `plan_namespace` needs in the actual state."""
    return tuple(sorted({*desired.sysctls, PROMOTE, IPV6_OFF}))


def plan_namespace(desired: DesiredNamespace, actual: NamespaceState) -> NamespacePlan:
    """`actual` was read with `sysctls_to_read`. On a host without IPv6 only the IPv4 part is planned."""
    desired = desired if _has_ipv6(desired, actual) else _without_ipv6(desired)
    devices = _plan_devices(desired, actual)
    # A device that is deleted or re-created loses its addresses, routes and sysctls.
    present = {name for name in actual.devices if name not in devices.gone}
    usable = present | {change.name for change in devices.create}
    namespace_sysctls, device_sysctls = _plan_sysctls(desired, actual, present, usable)
    add, remove = _plan_contents(desired, actual, present, usable)
    changes = (
        *namespace_sysctls,
        *(DeleteDevice(name) for name in devices.delete),
        *devices.create,
        *devices.attributes,
        *device_sysctls,  # before the device is up: it would accept router advertisements, for example
        *devices.state,
        *add,
        *remove,
    )
    return NamespacePlan(desired.name, changes, devices.missing, devices.stale)


def additions(plan: NamespacePlan, actual: NamespaceState) -> NamespacePlan:
    """The part of a plan that deletes and replaces nothing, for an agent that has not synced: its cache may be older."""
    routes = {route.key for route in actual.routes}
    neighbours = {(each.device, each.address) for each in actual.neighbours}

    def adds(change: Change) -> bool:
        match change:
            case DeleteItem() | DeleteDevice():
                return False
            case SetVeth():
                return change.name not in actual.devices
            case SetItem(Route() as route):
                return route.key not in routes
            case SetItem(Neighbour() as neighbour):
                return (neighbour.device, neighbour.address) not in neighbours
            case _:
                return True

    return dataclasses.replace(plan, changes=tuple(filter(adds, plan.changes)), stale=())


# --- devices ---


@dataclasses.dataclass
class _Devices:
    delete: list[str] = dataclasses.field(default_factory=list)
    create: list[SetVeth] = dataclasses.field(default_factory=list)
    attributes: list[SetDevice] = dataclasses.field(default_factory=list)
    state: list[SetDevice] = dataclasses.field(default_factory=list)
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def gone(self) -> set[str]:
        return {*self.delete, *self.stale}


def _plan_devices(desired: DesiredNamespace, actual: NamespaceState) -> _Devices:
    plan = _Devices()
    undesired = {name for name in actual.devices if name.startswith(desired.device_prefixes)}
    undesired -= {wanted.name for wanted in desired.devices}
    missing: list[str] = []
    for wanted in sorted(desired.devices, key=lambda each: each.name):
        found = actual.devices.get(wanted.name)
        if found is not None and wanted.peer and not _is_end(found, wanted):
            undesired.add(wanted.name)
        if found is not None and wanted.name not in undesired:
            _plan_device(plan, wanted, found)
        elif wanted.peer and (found is None or found.kind in _DELETABLE):
            plan.create.append(SetVeth(wanted.name, wanted.peer, wanted.peer_namespace, wanted.mac, wanted.mtu))
            _plan_device(plan, wanted, Device(wanted.name, mac=wanted.mac, mtu=wanted.mtu))
        else:
            missing.append(wanted.name)
    plan.delete = sorted(name for name in undesired if actual.devices[name].kind in _DELETABLE)
    plan.stale = tuple(sorted(undesired.difference(plan.delete)))
    plan.missing = tuple(missing)
    return plan


def _is_end(found: Device, wanted: DesiredDevice) -> bool:
    return found.kind == "veth" and (found.peer, found.peer_namespace) == (wanted.peer, wanted.peer_namespace)


def _plan_device(plan: _Devices, wanted: DesiredDevice, found: Device) -> None:
    change = SetDevice(
        wanted.name,
        mac=wanted.mac if wanted.mac.lower() != found.mac.lower() else "",
        mtu=wanted.mtu if wanted.mtu != found.mtu else 0,
        alias=wanted.alias if wanted.alias and wanted.alias != found.alias else None,
        tx_checksum=wanted.tx_checksum if wanted.tx_checksum != found.tx_checksum else None,
    )
    if change != SetDevice(wanted.name):
        plan.attributes.append(change)
    if wanted.up != found.up:
        plan.state.append(SetDevice(wanted.name, up=wanted.up))


# --- sysctls and IPv6 ---


def _plan_sysctls(
    desired: DesiredNamespace, actual: NamespaceState, present: set[str], usable: set[str]
) -> tuple[list[SetSysctl], list[SetSysctl]]:
    """Of the namespace, and of devices that exist by then. One that this kernel lacks is skipped."""
    of_namespace: list[SetSysctl] = []
    of_devices: list[SetSysctl] = []
    names = {each.name for each in desired.devices}
    for name, value in sorted({PROMOTE: "1", **desired.sysctls}.items()):
        # net/ipv4/conf/qr-1/rp_filter is of device qr-1.
        parts = name.split("/")
        device = parts[3] if len(parts) > 4 and parts[3] in names else ""
        if device and device not in usable:
            continue
        new = bool(device) and device not in present
        if new or actual.sysctls.get(name, value) != value:
            (of_devices if device else of_namespace).append(SetSysctl(name, value))
    return of_namespace, of_devices


def _has_ipv6(desired: DesiredNamespace, actual: NamespaceState) -> bool:
    off = actual.sysctls.get(IPV6_OFF)
    return off is not None and desired.sysctls.get(IPV6_OFF, off) != "1"


def _without_ipv6(desired: DesiredNamespace) -> DesiredNamespace:
    return dataclasses.replace(
        desired,
        addresses=frozenset(each for each in desired.addresses if each.version == 4),
        routes=frozenset(each for each in desired.routes if each.version == 4),
        rules=frozenset(each for each in desired.rules if each.version == 4),
        neighbours=frozenset(each for each in desired.neighbours if ":" not in each.address),
        sysctls={name: value for name, value in desired.sysctls.items() if not name.startswith("net/ipv6/")},
    )


# --- addresses, routes, rules, neighbours ---


def _plan_contents(
    desired: DesiredNamespace, actual: NamespaceState, present: set[str], usable: set[str]
) -> tuple[list[Change], list[Change]]:
    """Additions and removals. A routing table is filled before a rule leads to it, and emptied after the rule is gone."""
    ours = {each.name for each in desired.devices} & usable
    addresses = _plan_addresses(desired, actual, ours, present)
    routes = _plan_routes(desired, actual, usable, present, addresses.unnumbered)
    rules = diff(
        dict.fromkeys(desired.rules),
        dict.fromkeys(each for each in actual.rules if each.protocol in REMOVABLE or each in desired.rules),
    )
    kept = (each for each in actual.neighbours if each.device not in addresses.unnumbered or ":" in each.address)
    neighbours = diff(
        {(each.device, each.address): each for each in desired.neighbours if each.device in usable},
        {(each.device, each.address): each for each in kept if each.device in ours & present},
    )
    add: list[Change] = [*addresses.add, *routes.add]
    add += [SetItem(each) for each in sorted(rules.add)]
    add += [SetItem(each) for each in sorted(neighbours.add.values())]
    add += [SetItem(each) for _, each in sorted(neighbours.change.values())]
    remove: list[Change] = [DeleteItem(each) for each in sorted(rules.remove)]
    remove += [*routes.remove, *(DeleteItem(each) for each in sorted(neighbours.remove.values()))]
    remove += addresses.remove
    return add, remove


@dataclasses.dataclass
class _Changes:
    add: list[Change] = dataclasses.field(default_factory=list)
    remove: list[Change] = dataclasses.field(default_factory=list)
    unnumbered: set[str] = dataclasses.field(default_factory=set)
    """Devices without IPv4 addresses, for a moment or for good: the kernel drops their IPv4 routes and neighbours."""


def _plan_addresses(desired: DesiredNamespace, actual: NamespaceState, ours: set[str], present: set[str]) -> _Changes:
    plan = _Changes()
    existing = {(each.device, each.address): each for each in actual.addresses if each.device in present}
    wanted = {(each.device, each.address): each for each in desired.addresses if each.device in ours | present}
    numbered = {each.device for each in wanted.values() if each.version == 4}
    for key, found in sorted(existing.items()):
        kept = found.by_kernel or found.device in desired.others_addresses
        if key not in wanted and found.device in ours and not kept:
            # Before the additions: with the device's last IPv4 address the kernel drops its IPv4 routes and neighbours.
            last = found.version == 4 and found.device not in numbered
            (plan.add if last else plan.remove).append(DeleteItem(found))
            plan.unnumbered |= {found.device} if last else set()
    for key, address in sorted(wanted.items()):
        old = existing.get(key)
        if old is not None and old.scope != address.scope:
            plan.add.append(DeleteItem(old))  # the kernel cannot change the scope of an address
            plan.unnumbered.add(address.device)
        if old is None or (old != address and not old.by_kernel):
            plan.add.append(SetItem(address))
    return plan


def _plan_routes(
    desired: DesiredNamespace, actual: NamespaceState, usable: set[str], present: set[str], unnumbered: set[str]
) -> _Changes:
    plan = _Changes()
    existing: dict[RouteKey, list[Route]] = {}
    for route in sorted(actual.routes):
        if (route.device in present or not route.device) and not (route.version == 4 and route.device in unnumbered):
            existing.setdefault(route.key, []).append(route)
    wanted = {each.key: each for each in desired.routes if _device_of(each, desired) in usable | {""}}
    # On-link routes first: the kernel refuses a route whose next hop is not reachable yet.
    for route in sorted(wanted.values(), key=lambda each: (bool(each.via), each)):
        if not any(_matches(found, route) for found in existing.get(route.key, ())):
            plan.add.append(SetItem(route))
    for key, found in sorted(existing.items()):
        plan.remove += [DeleteItem(each) for each in _superfluous(found, wanted.get(key)) if each.protocol in REMOVABLE]
    return plan


def _matches(found: Route, wanted: Route) -> bool:
    """A desired route without a device accepts the one that the kernel has chosen."""
    return found == (wanted if wanted.device else dataclasses.replace(wanted, device=found.device))


def _superfluous(found: Iterable[Route], wanted: Route | None) -> Iterator[Route]:
    """Of several routes with one key, all but the desired one; without it, all but the first, which is replaced."""
    if wanted is None:
        yield from found
        return
    several = list(found)
    right = [route for route in several if _matches(route, wanted)]
    yield from (route for route in several[0 if right else 1 :] if route not in right)


def _device_of(route: Route, desired: DesiredNamespace) -> str:
    """The device that a route needs, as far as the desired addresses tell."""
    if route.device or not route.via:
        return route.device
    via = ipaddress.ip_address(route.via)
    reaching = (each.device for each in desired.addresses if via in ipaddress.ip_interface(each.address).network)
    return next(reaching, "")
