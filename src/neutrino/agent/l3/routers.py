"""The routers of this host in the dataplane: each kind is a list of namespaces to reconcile.

A router is ours by the names of its namespaces and by a record under state_path, written before the first namespace is
created. Namespaces without a record, of a Neutron agent or of a lost state_path, are recognised by what is in them
(`agent/leftovers`): one of a router that is served here is taken over as it is, others are removed.
"""

import dataclasses
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from neutrino import private
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import L3Extension
from neutrino.agent.l3.extensions import BUILT_IN
from neutrino.agent.l3.fip import FipNamespaces
from neutrino.agent.l3.names import (
    EXTERNAL,
    PLUGGED,
    ROUTER_KIND,
    SNAT_KIND,
    gateway_namespace,
    router_namespace,
    snat_namespace,
)
from neutrino.agent.l3.router import DesiredRouterNamespace, DesiredRouters, own_addresses, render, router_namespaces
from neutrino.agent.l3.services.keepalived.render import Failover, has_primary
from neutrino.agent.l3.services.radvd.render import render_radvd
from neutrino.agent.leftovers.host import Leftovers, ignored
from neutrino.agent.runtime.namespaces import SERVICE
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces, Tables
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.dataplane.conntrack.api import ConntrackError, NatConntrack
from neutrino.dataplane.netlink.api import DeleteItem, NetlinkError, SetItem
from neutrino.dataplane.netlink.values import Address, ProxyNeighbour, address
from neutrino.dataplane.ovsdb.api import SetBridge
from neutrino.dataplane.process.api import ForeignProcess
from neutrino.model.agents import FOREIGN
from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
RECORDS = "routers"
RADVD, KEEPALIVED, HAPROXY = "radvd", "keepalived", "haproxy"
INITIALIZED = {"l3-initialized": "True"}


@dataclasses.dataclass(frozen=True)
class Applied:
    changes: int
    active: bool  # whether this host has an HA router's addresses
    failover: Failover | None
    taken_over: tuple[str, ...] = ()  # namespaces of another agent: `complete_takeover` follows when our daemons run


@dataclasses.dataclass
class Routers:
    """Blocking. Several routers may be worked on at once, each by one thread."""

    services: ServiceNamespaces
    conntrack: Callable[[str], NatConntrack]  # of a namespace
    options: L3Options
    desired: DesiredRouters
    extensions: Sequence[L3Extension] = ()
    leftovers: Leftovers | None = None
    lost_next_hops: Callable[[Router], frozenset[tuple[str, str]]] = lambda router: frozenset()

    def __post_init__(self) -> None:
        self._leftovers = self.leftovers or ignored(self.services)
        self._fips = FipNamespaces(self.services, self.options, self.desired, self._announce, self._leftovers)
        self._records = Path(self.options.state_path) / RECORDS
        # The addresses for which stale connections were flushed, by namespace.
        self._own: dict[str, frozenset[str]] = {}

    def known(self) -> frozenset[str]:
        """The routers that this host has: by their records, and leftovers without one."""
        recorded = frozenset(list_directory(self._records))
        others = recorded | {each.id for each in self.desired.all()}
        return recorded.union(*(self._leftovers.find(kind, others) for kind in (ROUTER_KIND, SNAT_KIND)))

    def find_leftovers(self) -> list[str]:
        """What `remove_leftovers` would remove, as lines."""
        lines = [f"{name} has to be removed" for name in self._fips.stale()]
        return [*lines, *(f"unplug {name}: it is a port of no router" for name in self._stale_ports())]

    def remove_leftovers(self) -> None:
        """Leftovers that are of no single router: `fip-…`, and ports of the switch whose devices are gone."""
        self._fips.adopt()
        self._fips.reconcile()
        ports = self._stale_ports()
        if ports:
            self.services.unplug(ports)
            LOG.info("ports of the switch that no router has are removed: %s", ", ".join(ports))

    def _stale_ports(self) -> list[str]:
        def desired() -> frozenset[str]:
            return frozenset[str]().union(*(each.port_ids for each in self.desired.served()))

        return self._leftovers.ports(PLUGGED, {SERVICE}, desired)

    def apply(self, router: Router, *, keepalived: bool = True, complete: bool = True) -> Applied:
        """Not `complete`: the router is from the cache, so nothing is removed or replaced.

        `fip-…` is prepared before `qrouter-…`, whose veth pair has its other end there, and reconciled after it,
        when the pair exists.
        """
        others = self._without_record(router)
        if not others:
            self._record(router)  # first: an agent that is killed now finds by it what to remove
        for name in others if complete else ():
            # Its radvd is replaced when ours runs, and its haproxy by the metadata role, when that listens. Its keepalived
            # is adopted, if the router is still HA.
            has_keepalived = router.ha is not None and name == gateway_namespace(router)
            self._leftovers.end_processes(name, but=(RADVD, HAPROXY, *((KEEPALIVED,) if has_keepalived else ())))
            self._leftovers.end_monitors(name)
            self._leftovers.flush_scopes(name)
        if router.distributed:
            self._fips.prepare(router, complete=complete)
        changes, active, failover = 0, True, None
        for desired in self._render(router, keepalived=keepalived):
            namespace, fails_over = desired.namespace, desired.failover is not None
            if fails_over and not keepalived:  # addresses that an earlier one has set are removed
                namespace = dataclasses.replace(namespace, others_addresses=frozenset(), others_routes=frozenset())
            flush = partial(self._flush_connections, desired)
            result = self.services.reconcile(namespace, complete=complete, on_tables=flush)
            changes += result.changes
            if complete:
                self._flush_translated(desired)
            added = [change.item for change in result.applied if isinstance(change, SetItem)]
            self._announce(namespace.name, (item for item in added if isinstance(item, Address)))
            self._announce(namespace.name, map(_proxied, (item for item in added if isinstance(item, ProxyNeighbour))))
            if fails_over:
                failover, active = desired.failover, keepalived and has_primary(router, result.before.addresses)
        if others and complete:
            for name in others:
                self._leftovers.remove_rules(name)
        if router.distributed:
            # The SNAT may have moved to another host, or the gateway is gone.
            if complete:
                changes += sum(self.services.remove(name) for name in self._stale(router))
            changes += self._fips.reconcile()  # after `qrouter-…`, which has created the veth pair
            if complete and self._fips.link(router) is None:
                self._fips.links.release(router.id)
        return Applied(changes, active, failover, tuple(others) if complete else ())

    def complete_takeover(self, router: Router, names: Iterable[str]) -> None:
        """After `apply` has taken over these namespaces, and our services run there.

        Where RAs are sent for the router, here or by its active host, the other agent's radvd is killed, as it would
        withdraw the default route of all instances when it is stopped.
        """
        advertised = bool(render_radvd(router, self.options))
        for name in names:
            self._leftovers.end_replaced(name, RADVD, kill=advertised)
        self._record(router)  # last: a takeover that failed is repeated, and known by the namespaces until then

    def other_keepalived(self, router: Router) -> tuple[bool, ForeignProcess | None]:
        """Whether the router's namespaces are another agent's, and its keepalived there."""
        name = gateway_namespace(router)
        is_others = name in self._without_record(router)
        return is_others, self._leftovers.daemon(name, KEEPALIVED) if is_others else None

    def end_other_keepaliveds(self, namespace: str) -> None:
        self._leftovers.end_replaced(namespace, KEEPALIVED, kill=True)

    def find(self, router: Router) -> list[str]:
        """What `apply` would change, a line for each change."""
        lines = [line for each in self._render(router) for line in self.services.find(each.namespace)]
        if router.distributed:
            lines += [f"{name} has to be removed" for name in self._stale(router)]
            lines += self._fips.find(router)
        return lines

    def foreign_tables(self, router: Router) -> dict[str, str]:
        """Tables of others in the router's namespaces that drop packets, as problems. They are left alone."""
        nft, found = self.services.nft, dict[str, str]()
        for each in self._render(router) if nft is not None else ():
            name = each.namespace.name
            if nft is not None and self.services.exists(name) and (tables := nft.foreign_drops(name)):
                what = f"tables that are not this agent's, and drop packets: {', '.join(tables)}"
                found[f"{FOREIGN}tables in {name}"] = what
        return found

    def remove(self, router_id: str) -> None:
        """All of a router that this host has, whatever its kind was."""
        kind, names = self._kind(router_id), (snat_namespace(router_id), router_namespace(router_id))
        for name in names if not kind else ():
            self._leftovers.end_processes(name)  # of another agent: they would keep the namespace alive
            self._leftovers.end_monitors(name)
        distributed = kind != "centralized"
        if distributed:
            self.services.remove(snat_namespace(router_id))
        self.services.remove(router_namespace(router_id))
        if distributed:
            self._fips.reconcile()
            self._fips.links.release(router_id)
        for name in names:
            self._own.pop(name, None)
        (self._records / router_id).unlink(missing_ok=True)  # last: a removal that failed, or was killed, is repeated

    def announce(self, router: Router) -> None:
        """All addresses that the router has on this host."""
        for each in self._render(router):
            self._announce(each.namespace.name, map(_proxied, each.namespace.proxies))
            if each.failover is None:
                self._announce(each.namespace.name, each.namespace.addresses)
            elif not router.distributed or self.is_active(router):
                self._announce(each.namespace.name, each.failover.addresses)
        if router.distributed:
            self._fips.announce(router)

    def failover(self, router: Router) -> Failover | None:
        """What keepalived sets on the active host; None for a router without HA."""
        return next((each.failover for each in self._render(router) if each.failover is not None), None)

    def is_active(self, router: Router) -> bool:
        """Whether this host has an HA router's addresses now."""
        return router.ha is None or has_primary(router, self._addresses(gateway_namespace(router)))

    def deactivate(self, router_id: str) -> None:
        """Removes the addresses of an HA router whose keepalived has died: another host has them by now."""
        # Of a distributed router only `snat-…` fails over. The router is not known yet: nothing is synced.
        snat = snat_namespace(router_id)
        name = snat if self.services.exists(snat) else router_namespace(router_id)
        there = (each for each in sorted(self._addresses(name)) if each.device != "lo")
        self.services.netlink.apply(name, map(DeleteItem, there))

    def has_other_kind(self, router: Router) -> bool:
        """Whether the router was last applied as the other kind, centralized or distributed."""
        return self._kind(router.id) not in ("", _kind(router))

    def report_initialized(self) -> None:
        """Sets external_ids:l3-initialized of the integration bridge: every router of the first snapshot is applied."""
        ovsdb, bridge = self.services.ovsdb(), self.options.integration_bridge
        there = ovsdb.read().bridges.get(bridge)
        if there is not None and not INITIALIZED.items() <= there.external_ids.items():
            ovsdb.apply([SetBridge(bridge, external_ids=INITIALIZED)])

    def _addresses(self, name: str) -> frozenset[Address]:
        return self.services.netlink.read(name).addresses if self.services.exists(name) else frozenset()

    def _announce(self, name: str, addresses: Iterable[Address]) -> None:
        """Announce addresses by gratuitous ARP and unsolicited neighbour advertisements."""
        by_device = defaultdict(list)
        for each in addresses:
            by_device[each.device].append(each.address.partition("/")[0])
        for device, several in by_device.items():
            is_router = not device.startswith(EXTERNAL)
            try:
                self.services.netlink.announce(name, device, sorted(several), router=is_router)
            except NetlinkError as error:
                # Normal for a new port, which has no carrier before it is wired: announcements are repeated.
                LOG.info("%s: addresses are not announced yet: %s", name, error)

    def _flush_connections(self, desired: DesiredRouterNamespace, before: Tables) -> None:
        """After the tables: a connection that is set up in between is translated by the new ones already."""
        name, tables = desired.namespace.name, {table.path: table for table in desired.namespace.tables}
        source, extensions = desired.rendered_from, (*BUILT_IN, *self.extensions)
        flushes = {flush for extension in extensions for flush in extension.stale_connections(source, tables, before)}
        if flushes:
            try:
                self.conntrack(name).flush(sorted(flushes))
            except ConntrackError as error:
                LOG.warning("%s: stale connections are not flushed, and go on until they end: %s", name, error)

    def _flush_translated(self, desired: DesiredRouterNamespace) -> None:
        """Connections that leave under an address that the router has lost.

        By what is there, not by what has changed: the address may have changed while no agent was running.
        """
        name, failover = desired.namespace.name, desired.failover
        set_here = (*desired.namespace.addresses, *(failover.addresses if failover is not None else ()))
        own = own_addresses(desired.rendered_from, set_here)
        known = self._own.get(name)
        if known is None or not known <= own:
            try:
                flushed = self.conntrack(name).flush_translated(own)
            except ConntrackError as error:
                LOG.warning("%s: connections under former addresses are not flushed: %s", name, error)
                return  # repeated by the next round
            if flushed:
                LOG.info("%s: %d connections under addresses that the router has lost are flushed", name, flushed)
        self._own[name] = own

    def _render(self, router: Router, *, keepalived: bool = True) -> Iterator[DesiredRouterNamespace]:
        link = self._fips.link(router) if router.distributed else None
        # Routers without keepalived are spared the reading.
        active = router.ha is None or (keepalived and self.is_active(router))
        lost = self.lost_next_hops(router)
        for each in router_namespaces(router, self.options, self.desired.objects(), link):
            yield render(dataclasses.replace(each, lost_next_hops=lost), self.extensions, active=active)

    def _stale(self, router: Router) -> list[str]:
        """A `snat-…` that a distributed router has here no longer."""
        name = snat_namespace(router.id)
        wanted = {each.name for each in router_namespaces(router, self.options)}
        return [name] if name not in wanted and self.services.exists(name) else []

    def _without_record(self, router: Router) -> list[str]:
        """The router's namespaces of another agent: they are taken over, though not before the first `synced`."""
        names = (router_namespace(router.id), snat_namespace(router.id))
        return [name for name in names if self.services.exists(name)] if not self._kind(router.id) else []

    def _record(self, router: Router) -> None:
        kind = _kind(router)
        if self._kind(router.id) != kind:
            private.own_directory(self._records)
            (self._records / router.id).write_text(kind)

    def _kind(self, router_id: str) -> str:
        path = self._records / router_id
        return path.read_text() if path.exists() else ""


def _proxied(proxy: ProxyNeighbour) -> Address:
    """A proxied address as one of its device, to be announced there."""
    return address(proxy.device, f"{proxy.address}/128")


def _kind(router: Router) -> str:
    return "distributed" if router.distributed else "centralized"
