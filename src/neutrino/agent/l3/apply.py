"""A router made so, or taken away: what is there is compared with what should be, and only what differs is changed.

Order matters twice. A router's translation is in force before its addresses: no packet leaves untranslated. And what goes
goes from the outside in: the bridge's ports, devices, the namespace.

A namespace is ours by its name and by a record under state_path: one that somebody else made is never touched.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from neutrino import private
from neutrino.agent.l3.names import EXTERNAL, plugged, router_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.devices import router_addresses
from neutrino.agent.l3.parts.ha import Moving, primary_address
from neutrino.agent.l3.parts.nat import ended_connections
from neutrino.agent.l3.router import DesiredRouter, render_router
from neutrino.agent.namespaces import NamespacePlan, additions, plan_namespace, sysctls_to_read
from neutrino.agent.plugging import SETTLE_SECONDS, plan_plugs, plan_unplugging
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError, ConntrackFlush
from neutrino.dataplane.netlink.announce import Announcer
from neutrino.dataplane.netlink.api import Netlink, NetlinkError
from neutrino.dataplane.netlink.changes import (
    DeleteAddress,
    DeleteDevice,
    MoveDevice,
    SetAddress,
    SetDevice,
    SetVeth,
)
from neutrino.dataplane.netlink.values import HOST, Address, NamespaceState
from neutrino.dataplane.nft.api import Nft, Table, TableState
from neutrino.dataplane.nft.plan import TablePlan, plan_table
from neutrino.dataplane.ovsdb.api import Ovsdb, SetBridge
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
RECORDS = "routers"
DEVICE_SECONDS = 5.0
INITIALIZED = {"l3-initialized": "True"}


class DeviceMissing(Exception):
    """The switch has not made a device that it was asked for."""


@dataclasses.dataclass(frozen=True)
class RouterPlan:
    """All that differs, as one look sees it."""

    namespace: NamespacePlan
    nat: TablePlan
    plugs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.namespace or self.nat or self.plugs)

    def text(self) -> str:
        lines = [self.namespace.text(), self.nat.text(), *self.plugs]
        return "\n".join(line for line in lines if line)


@dataclasses.dataclass(frozen=True)
class Applied:
    changes: int  # how many things were changed
    active: bool  # whether this host is the one that has an HA router's addresses


@dataclasses.dataclass(frozen=True)
class Made:
    """A namespace that is as it should be: how many changes it took, and from what."""

    changes: int
    before: NamespaceState
    difference: NamespacePlan


@dataclasses.dataclass(frozen=True)
class Drivers:
    netlink: Netlink
    nft: Nft
    ovsdb: Callable[[], Ovsdb]
    announcer: Announcer
    conntrack: Callable[[str], Conntrack]  # of a namespace


class RouterDataplane:
    """Blocking. Several routers may be worked on at once, each by one thread."""

    def __init__(self, drivers: Drivers, options: L3Options) -> None:
        self._drivers = drivers
        self._options = options
        self._records = Path(options.state_path) / RECORDS

    def known(self) -> frozenset[str]:
        """The routers that we have made here, by their records."""
        if not self._records.is_dir():
            return frozenset()
        return frozenset(path.name for path in self._records.iterdir())

    # --- making -----------------------------------------------------------------------------------------------------

    def apply(self, router: Router, *, keepalived: bool = True, complete: bool = True) -> Applied:
        """Make the router so. Without a keepalived that runs, what an earlier one has set is nobody's, and goes."""
        self.record(router)
        made = self.make(render_router(router, self._options), keepalived=keepalived, complete=complete)
        return Applied(made.changes, keepalived and has_primary(router, made.before.addresses))

    def make(self, desired: DesiredRouter, *, keepalived: bool = True, complete: bool = True) -> Made:
        """Make one namespace so. Where what is there may be newer than what we know, nothing is taken out or replaced."""
        name = desired.namespace.name
        if name not in self._drivers.netlink.namespaces():
            self._drivers.netlink.create_namespace(name)
        translated = self._drivers.nft.read(name, desired.nat.path)
        changed = self._apply_nat(name, desired, translated) if complete or translated is None else 0
        changed += self._apply_ipv6(name, desired.ipv6, complete)
        if not self._options.veth:
            self._bring_devices(desired)
        actual = self._read(desired)
        wanted = (
            desired.namespace if keepalived else dataclasses.replace(desired.namespace, others_addresses=frozenset())
        )
        difference = plan_namespace(wanted, actual)
        if not complete:
            difference = additions(difference, actual)
        self._drivers.netlink.apply(name, difference.changes)
        changed += len(difference.changes)
        changed += self._raise_ends(desired)
        gone = [change.name for change in difference.changes if isinstance(change, DeleteDevice)]
        made = [change.peer for change in difference.changes if isinstance(change, SetVeth)]
        changed += self._plug(desired, [*(plugged(each) for each in gone), *difference.stale], made)
        self._announce(name, difference)
        return Made(changed, actual, difference)

    def find(self, router: Router) -> RouterPlan:
        """What `apply` would change, changing nothing."""
        return self.look(render_router(router, self._options))

    def look(self, desired: DesiredRouter) -> RouterPlan:
        name = desired.namespace.name
        if name not in self._drivers.netlink.namespaces():
            return RouterPlan(NamespacePlan(name, missing=("namespace",)), TablePlan())
        nat = plan_table(desired.nat, self._drivers.nft.read(name, desired.nat.path))
        if not nat and desired.ipv6 is not None:
            nat = plan_table(desired.ipv6, self._drivers.nft.read(name, desired.ipv6.path))
        plugs = tuple(change.text() for change in plan_plugs(desired.plugs, self._drivers.ovsdb().read()))
        return RouterPlan(plan_namespace(desired.namespace, self._read(desired)), nat, plugs)

    def _read(self, desired: DesiredRouter) -> NamespaceState:
        return self._drivers.netlink.read(desired.namespace.name, sysctls_to_read(desired.namespace))

    def _apply_nat(self, name: str, desired: DesiredRouter, actual: TableState | None) -> int:
        nft, path = self._drivers.nft, desired.nat.path
        difference = plan_table(desired.nat, actual)
        if difference.table is not None:
            nft.replace(name, difference.table)
        else:
            nft.change_elements(name, path, difference.elements)
        if actual is not None:
            self._end_connections(name, ended_connections(desired.nat, actual.elements))
        return 1 if difference.table is not None else len(difference.elements)

    def _apply_ipv6(self, name: str, table: Table | None, complete: bool) -> int:
        if table is None:
            return 0
        there = self._drivers.nft.read(name, table.path)
        difference = plan_table(table, there)
        if difference.table is None or (there is not None and not complete):
            return 0
        self._drivers.nft.replace(name, difference.table)
        return 1

    def _end_connections(self, name: str, flushes: frozenset[ConntrackFlush]) -> None:
        if flushes:
            try:
                self._drivers.conntrack(name).flush(sorted(flushes))
            except ConntrackError as error:
                LOG.warning("%s: connections of floating IPs that went could not be ended: %s", name, error)

    def _plug(self, desired: DesiredRouter, gone: Iterable[str], made: Collection[str] = ()) -> int:
        """`made` are ends of new pairs: where the switch has one of that name, it holds the old one and sees no other."""
        ovsdb = self._drivers.ovsdb()
        snapshot = ovsdb.read()
        superfluous = [each for each in gone if each not in desired.switch_ports]
        off = plan_unplugging([*superfluous, *made], snapshot)
        if off:
            ovsdb.apply(off, settle=SETTLE_SECONDS if made else 0.0)
        changes = plan_plugs(desired.plugs, ovsdb.read() if off else snapshot)
        if changes:
            ovsdb.apply(changes)
        return len(off) + len(changes)

    def _raise_ends(self, desired: DesiredRouter) -> int:
        """The ends of pairs that are on the bridge: they pass nothing until they are up."""
        if not self._options.veth:
            return 0
        there = (self._drivers.netlink.read_device(HOST, name) for name in sorted(desired.switch_ports))
        down = [device.name for device in there if device is not None and not device.up]
        self._drivers.netlink.apply(HOST, [SetDevice(name, up=True) for name in down])
        return len(down)

    def _bring_devices(self, desired: DesiredRouter) -> None:
        """Devices that the switch makes appear beside the agent, and are moved where they belong."""
        netlink, name = self._drivers.netlink, desired.namespace.name
        there = netlink.read(name).devices
        missing = [plug.name for plug in desired.plugs if plug.name not in there]
        if not missing:
            return
        self._plug(desired, ())
        give_up = time.monotonic() + DEVICE_SECONDS
        while waiting := [each for each in missing if netlink.read_device(HOST, each) is None]:
            if time.monotonic() > give_up:
                raise DeviceMissing(f"the switch has not made {', '.join(waiting)}")
            time.sleep(0.01)
        netlink.apply(HOST, [MoveDevice(each, name) for each in missing])

    def _announce(self, name: str, difference: NamespacePlan) -> None:
        new = defaultdict(list)
        for change in difference.changes:
            if isinstance(change, SetAddress):
                new[change.address.device].append(change.address.address.partition("/")[0])
        for device, addresses in new.items():
            self._say(name, device, addresses)

    def announce(self, router: Router) -> None:
        """All of a router's addresses: whoever remembers another place for one of them learns where it is."""
        self._say_all(router_namespace(router.id), router_addresses(router))

    def announce_all(self, desired: DesiredRouter, moving: Moving | None = None) -> None:
        """What a namespace has, with what keepalived has put there."""
        moved = moving.addresses if moving is not None else ()
        self._say_all(desired.namespace.name, (*desired.namespace.addresses, *moved))

    def _say_all(self, name: str, several: Iterable[Address]) -> None:
        by_device = defaultdict(list)
        for address in several:
            by_device[address.device].append(address.address.partition("/")[0])
        for device, addresses in by_device.items():
            self._say(name, device, sorted(addresses))

    def _say(self, name: str, device: str, addresses: list[str]) -> None:
        try:
            self._drivers.announcer.announce(name, device, addresses, router=not device.startswith(EXTERNAL))
        except NetlinkError as error:
            LOG.info("%s", error)  # a device that has no carrier yet; it is said again

    def say_initialized(self) -> None:
        """On the integration bridge, as operators know it: every router that was told at the start is there."""
        ovsdb, bridge = self._drivers.ovsdb(), self._options.integration_bridge
        there = ovsdb.read().bridges.get(bridge)
        if there is not None and not INITIALIZED.items() <= there.external_ids.items():
            ovsdb.apply([SetBridge(bridge, external_ids=INITIALIZED)])

    # --- taking away ------------------------------------------------------------------------------------------------

    def remove(self, router_id: str) -> None:
        """Take away a router that we have made; nothing of it stays."""
        self.dismantle(router_namespace(router_id))
        (self._records / router_id).unlink(missing_ok=True)

    def dismantle(self, name: str) -> bool:
        """Take away a namespace of ours with all that is plugged into it; whether it was there."""
        netlink = self._drivers.netlink
        there = name in netlink.namespaces()
        if there:
            devices = [each for each in netlink.read(name).devices.values() if each.name != "lo"]
            ovsdb = self._drivers.ovsdb()
            names = [each.name for each in devices] + [plugged(each.name) for each in devices if each.kind == "veth"]
            changes = plan_unplugging(names, ovsdb.read())
            if changes:
                ovsdb.apply(changes)
            netlink.apply(name, [DeleteDevice(each.name) for each in devices if each.kind == "veth"])
            netlink.delete_namespace(name)
        return there

    def quieten(self, router_id: str) -> None:
        """Take all addresses from an HA router whose keepalived is gone: another host has them by now."""
        self.strip(router_namespace(router_id))

    def strip(self, name: str) -> None:
        netlink = self._drivers.netlink
        if name in netlink.namespaces():
            there = netlink.read(name).addresses
            netlink.apply(name, [DeleteAddress(each) for each in sorted(there) if each.device != "lo"])

    def is_active(self, router: Router) -> bool:
        """Whether this host is the one that has an HA router's addresses now."""
        return self.is_active_in(router_namespace(router.id), router)

    def is_active_in(self, name: str, router: Router) -> bool:
        if router.ha is None:
            return True
        if name not in self._drivers.netlink.namespaces():
            return False
        return has_primary(router, self._drivers.netlink.read(name).addresses)

    def record(self, router: Router) -> None:
        """That we have made this router, or are about to, and as what."""
        path, kind = self._records / router.id, _kind(router)
        if not path.exists() or path.read_text() != kind:
            private.own_directory(self._records)
            path.write_text(kind)

    def is_recast(self, router: Router) -> bool:
        """Whether what is here was made as the other kind, by its record; one that says nothing is of this kind."""
        path = self._records / router.id
        return path.exists() and path.read_text() not in ("", _kind(router))


def _kind(router: Router) -> str:
    return "distributed" if router.distributed else "centralized"


def has_primary(router: Router, addresses: Iterable[Address]) -> bool:
    """Whether a host with these addresses is the active one."""
    if router.ha is None:
        return True
    wanted = primary_address(router.ha)
    return any(each.address == wanted for each in addresses)
