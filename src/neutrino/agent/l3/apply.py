"""Reconciles one namespace of a router: reads actual state, plans, applies only what differs; or removes it.

The order matters: nft tables are in force before addresses, so that no packet leaves untranslated. A removal goes from
the outside in: ports of the bridge, devices, the namespace.
"""

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from neutrino.agent.l3.extension_api import L3Extension
from neutrino.agent.l3.names import EXTERNAL
from neutrino.agent.l3.router import BUILT_IN, DesiredRouterNamespace
from neutrino.agent.namespaces import NamespacePlan, plan_namespace
from neutrino.agent.service_namespaces import ServiceNamespaces
from neutrino.dataplane.conntrack.api import Conntrack, ConntrackError
from neutrino.dataplane.netlink.api import DeleteItem, Netlink, NetlinkError, SetItem
from neutrino.dataplane.netlink.values import Address, NamespaceState
from neutrino.dataplane.nft.api import Nft, TableState
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
class Reconciled:
    changes: int  # how many were applied
    before: NamespaceState
    plan: NamespacePlan


@dataclasses.dataclass(frozen=True)
class RouterNamespaces:
    """Blocking. Several namespaces may be worked on at once, each by one thread."""

    drivers: Drivers
    extensions: Sequence[L3Extension] = ()  # besides the built-in ones

    @property
    def services(self) -> ServiceNamespaces:
        return ServiceNamespaces(self.drivers.netlink, self.drivers.ovsdb)

    def addresses(self, name: str) -> frozenset[Address]:
        return self.drivers.netlink.read(name).addresses if self.services.exists(name) else frozenset()

    def find(self, desired: DesiredRouterNamespace) -> list[str]:
        """What `reconcile` would change, as lines."""
        name = desired.namespace.name
        tables = plan_tables(desired.tables, self.drivers.nft.read(name)) if self.services.exists(name) else ()
        return [*self.services.find(desired.namespace), *(each.text() for each in tables)]

    def reconcile(
        self, desired: DesiredRouterNamespace, *, keepalived: bool = True, complete: bool = True
    ) -> Reconciled:
        """Without a running keepalived, addresses that an earlier one has set are removed.

        Not `complete`: desired state may be older than actual state, so nothing is removed or replaced.
        """
        namespace = desired.namespace
        if not keepalived:
            namespace = dataclasses.replace(namespace, others_addresses=frozenset())
        state = self.services.prepare(namespace)
        plan = plan_namespace(namespace, state, complete=complete)
        changed = self._apply_tables(desired, complete)  # before addresses: no packet leaves untranslated
        changed += self.services.apply(namespace, state, plan)
        items = (change.item for change in plan.changes if isinstance(change, SetItem))
        self.announce_all(namespace.name, (item for item in items if isinstance(item, Address)))
        return Reconciled(changed, state, plan)

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

    # --- nft tables -------------------------------------------------------------------------------------------------

    def _apply_tables(self, desired: DesiredRouterNamespace, complete: bool) -> int:
        name, changed = desired.namespace.name, 0
        actual = self.drivers.nft.read(name)
        plans = [each for each in plan_tables(desired.tables, actual) if complete or each.path not in actual]
        for plan in plans:
            self.drivers.nft.apply(name, plan)
            changed += len(plan.elements) or 1
        # After the tables: a connection that is set up in between is translated by the new ones already.
        if plans:
            self._flush_connections(name, desired, actual)
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
