"""Reconciles one namespace of a router: reads actual state, plans, applies only what differs; or removes it.

The order matters: nft tables are in force before addresses, so that no packet leaves untranslated. A removal goes from
the outside in: ports of the bridge, devices, the namespace.
"""

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import L3Extension
from neutrino.agent.l3.names import EXTERNAL, plugged
from neutrino.agent.l3.router import BUILT_IN, DesiredRouterNamespace
from neutrino.agent.namespaces import NamespacePlan, additions, plan_namespace, sysctls_to_read
from neutrino.agent.plugging import Plugging, plan_plugs
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError
from neutrino.dataplane.netlink.api import (
    Change,
    DeleteDevice,
    DeleteItem,
    Netlink,
    NetlinkError,
    SetDevice,
    SetItem,
    SetVeth,
)
from neutrino.dataplane.netlink.tc import plan_tc
from neutrino.dataplane.netlink.values import HOST, Address, NamespaceState
from neutrino.dataplane.nft.api import Nft, TablePlan, TableState
from neutrino.dataplane.nft.plan import plan_tables
from neutrino.dataplane.ovsdb.api import Ovsdb

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Drivers:
    netlink: Netlink
    nft: Nft
    ovsdb: Callable[[], Ovsdb]
    conntrack: Callable[[str], Conntrack]  # of a namespace


@dataclasses.dataclass(frozen=True)
class NamespacePlans:
    """All that differs between desired and actual state of a namespace."""

    namespace: NamespacePlan
    tables: tuple[TablePlan, ...] = ()
    plugs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.namespace or self.tables or self.plugs)

    def text(self) -> str:
        lines = [self.namespace.text(), *(each.text() for each in self.tables), *self.plugs]
        return "\n".join(line for line in lines if line)


@dataclasses.dataclass(frozen=True)
class Reconciled:
    changes: int  # how many were applied
    before: NamespaceState
    plan: NamespacePlans


def plan_router_namespace(
    desired: DesiredRouterNamespace,
    state: NamespaceState,
    tables: Mapping[str, TableState],
    *,
    complete: bool = True,
) -> NamespacePlans:
    """Pure. Not `complete`: desired state may be older than actual state, so nothing is removed or replaced."""
    plan = plan_namespace(desired.namespace, state)
    table_plans = plan_tables(desired.tables, tables)
    # A device that is deleted or recreated takes its qdiscs along; one that is missing gets them when it is there.
    gone = {change.name for change in plan.changes if isinstance(change, DeleteDevice)}
    delete, new = plan_tc(
        (each for each in desired.tc if each.device not in plan.missing),
        (each for each in state.tc if each.device not in gone),
    )
    if not complete:
        known = {each.key for each in state.tc}
        delete, new = (), tuple(each for each in new if each.key not in known)
        plan, table_plans = additions(plan, state), tuple(each for each in table_plans if each.path not in tables)
    tc: tuple[Change, ...] = (*map(DeleteItem, delete), *map(SetItem, new))
    return NamespacePlans(dataclasses.replace(plan, changes=(*plan.changes, *tc)), table_plans)


@dataclasses.dataclass(frozen=True)
class RouterNamespaces:
    """Blocking. Several namespaces may be worked on at once, each by one thread."""

    drivers: Drivers
    options: L3Options
    extensions: Sequence[L3Extension] = ()  # besides the built-in ones

    @property
    def _plugging(self) -> Plugging:
        return Plugging(self.drivers.netlink, self.drivers.ovsdb)

    def exists(self, name: str) -> bool:
        return name in self.drivers.netlink.namespaces()

    def create(self, name: str) -> None:
        if not self.exists(name):
            self.drivers.netlink.create_namespace(name)

    def addresses(self, name: str) -> frozenset[Address]:
        return self.drivers.netlink.read(name).addresses if self.exists(name) else frozenset()

    def plan(self, desired: DesiredRouterNamespace) -> NamespacePlans:
        """What `reconcile` would change."""
        name = desired.namespace.name
        if not self.exists(name):
            return NamespacePlans(NamespacePlan(name, missing=("namespace",)))
        plugs = tuple(change.text() for change in plan_plugs(desired.plugs, self.drivers.ovsdb().read()))
        plan = plan_router_namespace(desired, self._read(desired), self.drivers.nft.read(name))
        return dataclasses.replace(plan, plugs=plugs)

    def reconcile(
        self, desired: DesiredRouterNamespace, *, keepalived: bool = True, complete: bool = True
    ) -> Reconciled:
        """Without a running keepalived, addresses that an earlier one has set are removed."""
        name = desired.namespace.name
        self.create(name)
        if not self.options.veth:
            self._plugging.bring_devices(desired.plugs, name, self.drivers.netlink.read(name).devices)
        if not keepalived:
            kept = dataclasses.replace(desired.namespace, others_addresses=frozenset())
            desired = dataclasses.replace(desired, namespace=kept)
        # Read after internal ports were moved here: their addresses can be planned in the same round.
        tables, state = self.drivers.nft.read(name), self._read(desired)
        plan = plan_router_namespace(desired, state, tables, complete=complete)
        changed = self._apply_tables(name, plan.tables)
        # After the tables: a connection that is set up in between is translated by the new ones already.
        if plan.tables:
            self._flush_connections(name, desired, tables)
        changes = plan.namespace.changes
        self.drivers.netlink.apply(name, changes)
        changed += len(changes) + self._raise_ends(desired)
        # With its inner end, a veth pair's end on the bridge is deleted by the kernel; its port in OVSDB is not.
        gone = [change.name for change in changes if isinstance(change, DeleteDevice)]
        new = [change.peer for change in changes if isinstance(change, SetVeth)]
        unplug = [*(plugged(each) for each in gone), *plan.namespace.stale]
        changed += self._plugging.plug(desired.plugs, unplug=unplug, recreated=new)
        items = (change.item for change in changes if isinstance(change, SetItem))
        self.announce_all(name, (item for item in items if isinstance(item, Address)))
        return Reconciled(changed, state, plan)

    def remove(self, name: str) -> bool:
        """The namespace with all that is plugged into it; whether it existed."""
        netlink = self.drivers.netlink
        if not self.exists(name):
            return False
        devices = [each for each in netlink.read(name).devices.values() if each.name != "lo"]
        names = [each.name for each in devices] + [plugged(each.name) for each in devices if each.kind == "veth"]
        self._plugging.plug([], unplug=names)
        netlink.apply(name, [DeleteDevice(each.name) for each in devices if each.kind == "veth"])
        netlink.delete_namespace(name)
        return True

    def remove_addresses(self, name: str) -> None:
        there = sorted(self.addresses(name))
        self.drivers.netlink.apply(name, [DeleteItem(each) for each in there if each.device != "lo"])

    def announce_all(self, name: str, addresses: Iterable[Address]) -> None:
        by_device = defaultdict(list)
        for address in addresses:
            by_device[address.device].append(address.address.partition("/")[0])
        for device, several in by_device.items():
            self.announce(name, device, sorted(several))

    def announce(self, name: str, device: str, addresses: list[str]) -> None:
        """By gratuitous ARP and unsolicited neighbour advertisements."""
        router = not device.startswith(EXTERNAL)
        try:
            self.drivers.netlink.announce(name, device, addresses, router=router)
        except NetlinkError as error:
            # Normal for a new port, which has no carrier before it is wired: announcements are repeated.
            LOG.info("%s: addresses are not announced yet: %s", name, error)

    # --- steps of `reconcile` ---------------------------------------------------------------------------------------

    def _read(self, desired: DesiredRouterNamespace) -> NamespaceState:
        return self.drivers.netlink.read(desired.namespace.name, sysctls_to_read(desired.namespace))

    def _apply_tables(self, name: str, plans: Iterable[TablePlan]) -> int:
        changed = 0
        for plan in plans:
            self.drivers.nft.apply(name, plan)
            changed += len(plan.elements) or 1
        return changed

    def _flush_connections(self, name: str, desired: DesiredRouterNamespace, actual: Mapping[str, TableState]) -> None:
        source = desired.rendered_from
        if source is None:
            return
        tables = {each.path: each for each in desired.tables}
        flushes = {
            flush for each in (*BUILT_IN, *self.extensions) for flush in each.stale_connections(source, tables, actual)
        }
        if flushes:
            try:
                self.drivers.conntrack(name).flush(sorted(flushes))
            except ConntrackError as error:
                LOG.warning("%s: stale connections are not flushed, and go on until they end: %s", name, error)

    def _raise_ends(self, desired: DesiredRouterNamespace) -> int:
        """Sets up the ends of veth pairs that are on the bridge."""
        if not self.options.veth:
            return 0
        names = sorted(plug.name for plug in desired.plugs)
        there = (self.drivers.netlink.read_device(HOST, name) for name in names)
        down = [device.name for device in there if device is not None and not device.up]
        self.drivers.netlink.apply(HOST, [SetDevice(name, up=True) for name in down])
        return len(down)
