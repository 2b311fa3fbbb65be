"""Routers of every kind made so, or taken away: a distributed one in its several namespaces, others in their one.

A host's floating IPs on one network outside share a namespace. Whoever works on a router makes that namespace right for all
routers together, one at a time; it goes with the last of them. As long as the server has not told everything, nothing is
taken out of it: routers of which we have yet to hear may be joined to it.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from neutrino import private
from neutrino.agent.l3.apply import Applied, Drivers, RouterDataplane, RouterPlan, has_primary
from neutrino.agent.l3.dvr.central import moving_central, render_central
from neutrino.agent.l3.dvr.floating import Share, gateway_device, render_floating
from neutrino.agent.l3.dvr.link_locals import LinkLocals
from neutrino.agent.l3.dvr.local import local_floating_ips, render_local
from neutrino.agent.l3.names import fip_namespace, snat_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.router import DesiredRouter
from neutrino.agent.namespaces import NamespacePlan
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.changes import SetRoute
from neutrino.dataplane.nft.plan import TablePlan
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router, RouterInterface

RECORDS = "fips"


@dataclasses.dataclass(frozen=True)
class Told:
    """What the server has told, as it is now."""

    routers: Callable[[], Iterable[Router]]  # those that this host is to have
    ports: Callable[[frozenset[str]], Iterable[DhcpPort]]  # all ports of some networks
    is_complete: Callable[[], bool] = lambda: True


@dataclasses.dataclass(frozen=True)
class Plans:
    """What differs in each of a router's namespaces."""

    several: tuple[RouterPlan, ...]

    def __bool__(self) -> bool:
        return any(self.several)

    def text(self) -> str:
        return "\n".join(text for each in self.several if (text := each.text()))


class AnyDataplane:
    """Blocking. Several routers may be worked on at once, each by one thread."""

    def __init__(self, plain: RouterDataplane, drivers: Drivers, options: L3Options, told: Told) -> None:
        self._plain = plain
        self._drivers = drivers
        self._options = options
        self._told = told
        self._pairs = LinkLocals(options.state_path)
        self._records = Path(options.state_path) / RECORDS
        self._shared = threading.Lock()  # of the namespaces that routers share

    # --- as for any router ------------------------------------------------------------------------------------------

    def known(self) -> frozenset[str]:
        return self._plain.known()

    def is_recast(self, router: Router) -> bool:
        return self._plain.is_recast(router)

    def is_active(self, router: Router) -> bool:
        if not router.distributed:
            return self._plain.is_active(router)
        return self._plain.is_active_in(snat_namespace(router.id), router)

    def say_initialized(self) -> None:
        self._plain.say_initialized()

    def quieten(self, router_id: str) -> None:
        """Of a distributed router only that part moves which is in a namespace of its own; the rest is on every host."""
        if snat_namespace(router_id) in self._drivers.netlink.namespaces():
            self._plain.strip(snat_namespace(router_id))
        else:
            self._plain.quieten(router_id)

    def apply(self, router: Router, *, keepalived: bool = True, complete: bool = True) -> Applied:
        if not router.distributed:
            return self._plain.apply(router, keepalived=keepalived, complete=complete)
        self._plain.record(router)
        gateway = _gateway(router)
        if gateway is not None:
            self._pairs.take(router.id)
            self._open(gateway.network_id)
        local = self._plain.make(self._local(router), complete=complete)
        changes, active = local.changes, True
        central = render_central(router, self._options)
        if central is not None:
            made = self._plain.make(central, keepalived=keepalived, complete=complete)
            changes, active = changes + made.changes, keepalived and has_primary(router, made.before.addresses)
        elif complete:
            changes += self._plain.dismantle(snat_namespace(router.id))
        changes += self._share()
        if gateway is None and complete:
            self._pairs.release(router.id)
        return Applied(changes, active)

    def find(self, router: Router) -> RouterPlan | Plans:
        if not router.distributed:
            return self._plain.find(router)
        plans = [self._plain.look(self._local(router))]
        central = render_central(router, self._options)
        if central is not None:
            plans.append(self._plain.look(central))
        elif snat_namespace(router.id) in self._drivers.netlink.namespaces():
            plans.append(RouterPlan(NamespacePlan(snat_namespace(router.id), stale=("namespace",)), TablePlan()))
        gateway = _gateway(router)
        if gateway is not None:
            plans.append(self._plain.look(self._floating(gateway)))
        return Plans(tuple(plans))

    def remove(self, router_id: str) -> None:
        self._plain.dismantle(snat_namespace(router_id))
        self._plain.remove(router_id)
        self._share()
        self._pairs.release(router_id)

    def announce(self, router: Router) -> None:
        if not router.distributed:
            self._plain.announce(router)
            return
        self._plain.announce_all(self._local(router))
        central = render_central(router, self._options)
        if central is not None and self.is_active(router):
            self._plain.announce_all(central, moving_central(router, self._options))
        gateway = _gateway(router)
        if gateway is not None:
            self._say(gateway, [each.floating_ip_address for each in local_floating_ips(router)])

    # --- the parts --------------------------------------------------------------------------------------------------

    def _local(self, router: Router) -> DesiredRouter:
        pair = self._pairs.known(router.id) if _gateway(router) is not None else None
        networks = frozenset(each.network_id for each in router.interfaces)
        return render_local(router, self._options, pair, self._told.ports(networks))

    def _floating(self, gateway: RouterInterface) -> DesiredRouter:
        return render_floating(gateway, self._shares(gateway.network_id), self._options)

    def _shares(self, network_id: str) -> list[Share]:
        found = []
        for router in self._told.routers():
            gateway, pair = _gateway(router), self._pairs.known(router.id)
            if gateway is not None and gateway.network_id == network_id and pair is not None:
                addresses = sorted(each.floating_ip_address for each in local_floating_ips(router))
                found.append(Share(router.id, pair, tuple(addresses)))
        return found

    def _open(self, network_id: str) -> None:
        with self._shared:
            private.own_directory(self._records)
            (self._records / network_id).touch()
            name = fip_namespace(network_id)
            if name not in self._drivers.netlink.namespaces():
                self._drivers.netlink.create_namespace(name)

    def _share(self) -> int:
        """Make the shared namespaces right, and take away those that nobody shares any more."""
        changes = 0
        with self._shared:
            complete = self._told.is_complete()
            for path in sorted(self._records.iterdir()) if self._records.is_dir() else ():
                gateways = (_gateway(router) for router in self._told.routers())
                gateway = next((each for each in gateways if each is not None and each.network_id == path.name), None)
                if gateway is not None:
                    changes += self._make_shared(gateway, complete)
                elif complete:
                    changes += self._plain.dismantle(fip_namespace(path.name))
                    path.unlink(missing_ok=True)
        return changes

    def _make_shared(self, gateway: RouterInterface, complete: bool) -> int:
        made = self._plain.make(self._floating(gateway), complete=complete)
        routes = [change.route.destination for change in made.difference.changes if isinstance(change, SetRoute)]
        # Who remembers another place for a floating IP learns where it is.
        self._say(gateway, [each.removesuffix("/32") for each in routes if each.endswith("/32")])
        return made.changes

    def _say(self, gateway: RouterInterface, addresses: list[str]) -> None:
        try:
            if addresses:
                name = fip_namespace(gateway.network_id)
                self._drivers.announcer.announce(name, gateway_device(gateway), addresses)
        except NetlinkError:
            pass  # a device that has no carrier yet; it is said again


def _gateway(router: Router) -> RouterInterface | None:
    """The host's own port outside, where the router has floating IPs by it."""
    return router.agent_gateway if router.distributed and local_floating_ips(router) else None
