"""What a namespace of ours should hold against what it holds: the changes that are missing. Pure.

A namespace of ours is ours altogether: addresses on our devices that nobody wants go, and so do routes and rules, but for
those that the kernel or a routing daemon such as keepalived has made, which say so themselves. What the kernel makes for an
address (routes of the subnet, link-local addresses) is never touched. In a namespace that others use too, such as the
host's own, only what carries our mark is removed; addresses and neighbours carry none, and stay.

Nothing that is right is touched, and what is new comes before what is old goes: an address that takes over from another in
its subnet, or a route that leads elsewhere now, leaves no gap.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from neutrino.agent.delta import diff
from neutrino.dataplane.netlink.changes import (
    Change,
    DeleteAddress,
    DeleteDevice,
    DeleteNeighbour,
    DeleteRoute,
    DeleteRule,
    SetAddress,
    SetDevice,
    SetNeighbour,
    SetRoute,
    SetRule,
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

ANYBODYS = frozenset({OURS, 0, 3, 4})
"""Marks of routes and rules behind which no daemon stands: ours, none, boot (by hand, or by agents before us), static."""

PROMOTE = "net/ipv4/conf/all/promote_secondaries"
"""Without it, an IPv4 address that goes takes along those that came after it in the same subnet."""

IPV6_OFF = "net/ipv6/conf/all/disable_ipv6"

_DELETABLE = ("veth", "bridge")  # what is not, somebody else must unplug


@dataclasses.dataclass(frozen=True)
class DesiredDevice:
    """With a peer it is one end of a veth pair that we make; without, another part plugs it. Empty values are left."""

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
    """How devices of ours are called here: such a device that is not wanted goes."""
    others_addresses: frozenset[str] = frozenset()
    """Devices on which a daemon sets addresses, as keepalived does: those that are not wanted stay."""
    shared: bool = False
    """Others use the namespace too: what does not carry our mark stays."""


@dataclasses.dataclass(frozen=True)
class NamespacePlan:
    namespace: str
    changes: tuple[Change, ...] = ()
    missing: tuple[str, ...] = ()
    """Devices that another part has yet to plug; what belongs on them is planned when they are there."""
    stale: tuple[str, ...] = ()
    """Devices that have to be unplugged by the part that plugged them."""

    def __bool__(self) -> bool:
        return bool(self.changes or self.missing or self.stale)

    def text(self) -> str:
        lines = [change.text() for change in self.changes]
        lines += [f"device {name} has to be plugged" for name in self.missing]
        lines += [f"device {name} has to be unplugged" for name in self.stale]
        return "\n".join(f"{self.namespace or 'host'} {line}" for line in lines)


def sysctls_to_read(desired: DesiredNamespace) -> tuple[str, ...]:
    """What `plan_namespace` wants to be told, beside what is always read."""
    return tuple(sorted({*desired.sysctls, PROMOTE, IPV6_OFF}))


def plan_namespace(desired: DesiredNamespace, actual: NamespaceState) -> NamespacePlan:
    """`actual` must have been read with `sysctls_to_read`. A host without IPv6 gets the IPv4 part."""
    desired = desired if _has_ipv6(desired, actual) else _without_ipv6(desired)
    devices = _plan_devices(desired, actual)
    # What goes, or is made anew, takes along what was on it.
    present = {name for name in actual.devices if name not in devices.gone}
    usable = present | {change.name for change in devices.make}
    settings = _plan_settings(desired, actual, present, usable)
    add, remove = _plan_contents(desired, actual, present, usable)
    changes = (
        *settings.of_all,
        *(DeleteDevice(name) for name in devices.delete),
        *devices.make,
        *devices.attributes,
        *settings.of_devices,
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
            case DeleteAddress() | DeleteDevice() | DeleteNeighbour() | DeleteRoute() | DeleteRule():
                return False
            case SetVeth():
                return change.name not in actual.devices
            case SetRoute():
                return change.route.key not in routes
            case SetNeighbour():
                return (change.neighbour.device, change.neighbour.address) not in neighbours
            case _:
                return True

    return dataclasses.replace(plan, changes=tuple(filter(adds, plan.changes)), stale=())


# --- devices ---


@dataclasses.dataclass
class _Devices:
    delete: list[str] = dataclasses.field(default_factory=list)
    make: list[SetVeth] = dataclasses.field(default_factory=list)
    attributes: list[SetDevice] = dataclasses.field(default_factory=list)
    state: list[SetDevice] = dataclasses.field(default_factory=list)
    missing: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def gone(self) -> set[str]:
        return {*self.delete, *self.stale}


def _plan_devices(desired: DesiredNamespace, actual: NamespaceState) -> _Devices:
    plan = _Devices()
    unwanted = {name for name in actual.devices if name.startswith(desired.device_prefixes)}
    unwanted -= {wanted.name for wanted in desired.devices}
    missing: list[str] = []
    for wanted in sorted(desired.devices, key=lambda each: each.name):
        found = actual.devices.get(wanted.name)
        if found is not None and wanted.peer and not _is_end(found, wanted):
            unwanted.add(wanted.name)
        if found is not None and wanted.name not in unwanted:
            _plan_device(plan, wanted, found)
        elif wanted.peer and (found is None or found.kind in _DELETABLE):
            plan.make.append(SetVeth(wanted.name, wanted.peer, wanted.peer_namespace, wanted.mac, wanted.mtu))
            _plan_device(plan, wanted, Device(wanted.name, mac=wanted.mac, mtu=wanted.mtu))
        else:
            missing.append(wanted.name)
    plan.delete = sorted(name for name in unwanted if actual.devices[name].kind in _DELETABLE)
    plan.stale = tuple(sorted(unwanted.difference(plan.delete)))
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
    # Settings of the device come in between: up, it would listen to router advertisements, say.
    if wanted.up != found.up:
        plan.state.append(SetDevice(wanted.name, up=wanted.up))


# --- settings of the kernel ---


@dataclasses.dataclass
class _Settings:
    of_all: list[SetSysctl] = dataclasses.field(default_factory=list)
    of_devices: list[SetSysctl] = dataclasses.field(default_factory=list)


def _plan_settings(desired: DesiredNamespace, actual: NamespaceState, present: set[str], usable: set[str]) -> _Settings:
    """Those of devices come when the devices are there. One that this kernel does not have is nothing to be done about."""
    plan = _Settings()
    wanted = {**desired.sysctls} if desired.shared else {PROMOTE: "1", **desired.sysctls}
    for name, value in sorted(wanted.items()):
        device = _device_in(name, {each.name for each in desired.devices})
        if device and device not in usable:
            continue
        new = bool(device) and device not in present
        if new or actual.sysctls.get(name, value) != value:
            (plan.of_devices if device else plan.of_all).append(SetSysctl(name, value))
    return plan


def _device_in(name: str, devices: set[str]) -> str:
    """The device that a setting such as net/ipv4/conf/qr-1/rp_filter is of, if it is one of these."""
    parts = name.split("/")
    return parts[3] if len(parts) > 4 and parts[3] in devices else ""


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


# --- what is on devices ---


def _plan_contents(
    desired: DesiredNamespace, actual: NamespaceState, present: set[str], usable: set[str]
) -> tuple[list[Change], list[Change]]:
    """What to add, then what to remove. A table is filled before a rule leads to it, and emptied after none does."""
    ours = {each.name for each in desired.devices} & usable
    addresses = _plan_addresses(desired, actual, ours, present)
    routes = _plan_routes(desired, actual, usable, present, addresses.bare)
    marks = frozenset({OURS}) if desired.shared else ANYBODYS
    rules = diff(
        dict.fromkeys(desired.rules),
        dict.fromkeys(each for each in actual.rules if each.protocol in marks or each in desired.rules),
    )
    kept = (each for each in actual.neighbours if each.device not in addresses.bare or ":" in each.address)
    neighbours = diff(
        {(each.device, each.address): each for each in desired.neighbours if each.device in usable},
        {(each.device, each.address): each for each in kept if each.device in ours & present},
    )
    no_marks = {} if desired.shared else neighbours.remove
    add: list[Change] = [*addresses.add, *routes.add]
    add += [SetRule(each) for each in sorted(rules.add)]
    add += [SetNeighbour(each) for each in sorted(neighbours.add.values())]
    add += [SetNeighbour(each) for _, each in sorted(neighbours.change.values())]
    remove: list[Change] = [DeleteRule(each) for each in sorted(rules.remove)]
    remove += [*routes.remove, *(DeleteNeighbour(each) for each in sorted(no_marks.values()))]
    remove += addresses.remove
    return add, remove


@dataclasses.dataclass
class _Changes:
    add: list[Change] = dataclasses.field(default_factory=list)
    remove: list[Change] = dataclasses.field(default_factory=list)
    bare: set[str] = dataclasses.field(default_factory=set)
    """Devices without IPv4 addresses, for a moment or from now on: the kernel drops their IPv4 routes and neighbours."""


def _plan_addresses(desired: DesiredNamespace, actual: NamespaceState, ours: set[str], present: set[str]) -> _Changes:
    plan = _Changes()
    there = {(each.device, each.address): each for each in actual.addresses if each.device in present}
    wanted = {(each.device, each.address): each for each in desired.addresses if each.device in ours | present}
    numbered = {each.device for each in wanted.values() if each.version == 4}
    for key, found in sorted(there.items()):
        kept = found.by_kernel or desired.shared or found.device in desired.others_addresses
        if key not in wanted and found.device in ours and not kept:
            bare = found.version == 4 and found.device not in numbered
            (plan.add if bare else plan.remove).append(DeleteAddress(found))
            plan.bare |= {found.device} if bare else set()
    for key, address in sorted(wanted.items()):
        old = there.get(key)
        if old is not None and old.scope != address.scope:
            plan.add.append(DeleteAddress(old))  # the kernel does not change it
            plan.bare.add(address.device)
        if old is None or (old != address and not old.by_kernel):
            plan.add.append(SetAddress(address))
    return plan


def _plan_routes(
    desired: DesiredNamespace, actual: NamespaceState, usable: set[str], present: set[str], bare: set[str]
) -> _Changes:
    plan = _Changes()
    there: dict[RouteKey, list[Route]] = {}
    for route in sorted(actual.routes):
        if (route.device in present or not route.device) and not (route.version == 4 and route.device in bare):
            there.setdefault(route.key, []).append(route)
    wanted = {each.key: each for each in desired.routes if _device_of(each, desired) in usable | {""}}
    for route in sorted(wanted.values(), key=lambda each: (bool(each.via), each)):
        if not any(_serves(found, route) for found in there.get(route.key, ())):
            plan.add.append(SetRoute(route))
    marks = frozenset({OURS}) if desired.shared else ANYBODYS
    for key, found in sorted(there.items()):
        for route in _superfluous(found, wanted.get(key)):
            if route.protocol in marks:
                plan.remove.append(DeleteRoute(route))
    return plan


def _serves(found: Route, wanted: Route) -> bool:
    """A route that names no device is content with the one that the kernel has chosen."""
    return found == (wanted if wanted.device else dataclasses.replace(wanted, device=found.device))


def _superfluous(found: Iterable[Route], wanted: Route | None) -> Iterator[Route]:
    """Of several routes with one key, which others made, the wanted one stays; where none is it, the first is replaced."""
    if wanted is None:
        yield from found
        return
    several = list(found)
    right = [route for route in several if _serves(route, wanted)]
    yield from (route for route in several[0 if right else 1 :] if route not in right)


def _device_of(route: Route, desired: DesiredNamespace) -> str:
    """The device that a route needs, as far as can be told from the addresses that should be there."""
    if route.device or not route.via:
        return route.device
    via = ipaddress.ip_address(route.via)
    reaching = (each.device for each in desired.addresses if via in ipaddress.ip_interface(each.address).network)
    return next(reaching, "")
