"""`fip-…`: the namespace by which floating IPs of distributed routers reach one external network from this host.

It is shared by all distributed routers of the host that use that network by it, each joined by a veth pair.
Towards the external network it has the host's own port (`fg-…`), which answers for every floating IP that is routed
through it (proxy ARP): a floating IP is a route there, not an address.

A packet to a floating IP: `fg-…` → its route → `fpr-…` ══ `rfp-…` in `qrouter-…`, where it is translated → instance.
One from the instance: a rule by its source selects table 16 → `rfp-…`, where it is translated ══ `fpr-…` → `fg-…`.
Subnets that a BGP speaker announces (`direct_prefixes`) take the same way, untranslated.

Whichever router is reconciled, the namespace is reconciled for all of them, under a lock; it is removed with the last
one. Before the first `synced` nothing is removed from it: routers that the agent does not know yet may use it.
"""

import dataclasses
import ipaddress
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from neutrino import daemon_files, private
from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.devices import SYSCTLS, asymmetric, default_routes, render_device, render_plug
from neutrino.agent.l3.names import AGENT_GATEWAY, FIP_KIND, TO_ROUTER, device, fip_namespace
from neutrino.agent.l3.router import DesiredRouters, is_direct, local_floating_ips
from neutrino.agent.leftovers.host import Leftovers
from neutrino.agent.runtime.namespaces import LOOPBACK, DesiredDevice, DesiredNamespace
from neutrino.agent.runtime.service_namespaces import ServiceNamespaces
from neutrino.agent.runtime.supervisor import list_directory
from neutrino.dataplane.netlink.api import SetItem
from neutrino.dataplane.netlink.values import Address, Route, address, route
from neutrino.model.routing import Router, RouterInterface

RECORDS = "fips"
LINKS_FILE = "fip-linklocal-networks"
POOL = ipaddress.IPv4Network("169.254.64.0/18")  # as in Neutron: a /31 for each of 8192 routers
Link = tuple[str, str]
"""Addresses of a veth pair's ends: of rfp-… in the router, and of fpr-… in `fip-…`."""


def render_fip(
    gateway: RouterInterface, members: Iterable[tuple[Router, Link]], options: L3Options
) -> DesiredNamespace:
    """`members` are the routers that use the namespace."""
    outside, devices, addresses, routes = device(AGENT_GATEWAY, gateway.id), [], [], []
    subnets: dict[str, Route] = {}  # two routers may have one: either leads to it
    for router, (near, far) in sorted(members, key=lambda each: each[0].id):
        name = device(TO_ROUTER, router.id)
        devices.append(DesiredDevice(name, mtu=gateway.mtu))  # `qrouter-…` creates the pair: see `distributed`
        addresses.append(address(name, f"{far}/31"))
        routes += [
            route(f"{local_floating_ip.floating_ip_address}/32", name, near)
            for local_floating_ip in local_floating_ips(router)
        ]
        for cidr in router.direct_prefixes if is_direct(router) else ():
            subnets.setdefault(cidr, route(cidr, name, near))
    routes += subnets.values()
    addresses += [address(outside, each.prefixed, nodad=True) for each in gateway.addresses]
    routes += [default_route for default_route in default_routes(outside, gateway) if default_route.version == 4]
    routes += [route(cidr, outside) for cidr in gateway.other_subnets if ":" not in cidr]
    return DesiredNamespace(
        name=fip_namespace(gateway.network_id),
        devices=(LOOPBACK, render_device(outside, gateway, options), *devices),
        addresses=frozenset(addresses),
        routes=frozenset(routes),
        sysctls={
            **SYSCTLS,
            "net/ipv6/conf/all/accept_ra": "0",
            "net/ipv6/conf/default/accept_ra": "0",
            **asymmetric((outside, *(each.name for each in devices))),
            f"net/ipv4/conf/{outside}/proxy_arp": "1",
            # The kernel delays proxied replies to let the owner answer first: here there is none.
            f"net/ipv4/neigh/{outside}/proxy_delay": "0",
        },
        device_prefixes=(AGENT_GATEWAY, TO_ROUTER),
        plugs=(render_plug(outside, gateway, options),),
        keeps_devices=options.keeps_devices,
    )


def agent_gateway(router: Router) -> RouterInterface | None:
    """The host's own port on the external network, where the router has floating IPs or subnets by it."""
    return router.agent_gateway if local_floating_ips(router) or is_direct(router) else None


@dataclasses.dataclass
class FipNamespaces:
    """Blocking."""

    services: ServiceNamespaces
    options: L3Options
    desired: DesiredRouters
    announce_addresses: Callable[[str, Iterable[Address]], None]  # in a namespace
    leftovers: Leftovers

    def __post_init__(self) -> None:
        self.links = LinkLocals(self.options.state_path)
        self._records = Path(self.options.state_path) / RECORDS
        self._lock = threading.Lock()

    def link(self, router: Router) -> Link | None:
        gateway = agent_gateway(router)
        return self._link(router.id, gateway.network_id) if gateway is not None else None

    def _link(self, router_id: str, network_id: str) -> Link | None:
        """The one in our file; else that of the veth pair that a Neutron agent has created, which stays."""
        if (known := self.links.find(router_id)) is not None:
            return known
        pair = self._existing(network_id).get(device(TO_ROUTER, router_id))
        return (str(pair[0]), str(pair[1])) if pair is not None and _is_pair(pair) else None

    def stale(self) -> list[str]:
        """Namespaces that `reconcile` removes once they are adopted."""
        used = {each.network_id for each in map(agent_gateway, self.desired.served()) if each is not None}
        found = self.leftovers.find(FIP_KIND, used.union(list_directory(self._records)))
        return [fip_namespace(each) for each in sorted(found)]

    def adopt(self) -> None:
        """Record namespaces that have no record: `reconcile` then keeps or removes them."""
        for network_id in sorted(self.leftovers.find(FIP_KIND, list_directory(self._records))):
            self.leftovers.end_processes(fip_namespace(network_id))
            self._record(network_id)

    def prepare(self, router: Router, *, complete: bool) -> None:
        """Before `qrouter-…` is reconciled: its veth pair needs an address, and a namespace for its other end.

        Not `complete`: a namespace of another agent is left to it.
        """
        gateway = agent_gateway(router)
        if gateway is not None:
            self.links.allocate(router.id, self._existing(gateway.network_id))
            name = fip_namespace(gateway.network_id)
            with self._lock:
                if complete or not self.services.exists(name):
                    self._record(gateway.network_id)  # before the namespace: removal goes by records
                self.services.create(name)

    def _record(self, network_id: str) -> None:
        record = self._records / network_id
        if not record.exists():
            if self.services.exists(fip_namespace(network_id)):
                self.leftovers.remove_rules(fip_namespace(network_id))  # of Neutron's agent; there are none of ours
            private.own_directory(self._records)
            record.touch()

    def _existing(self, network_id: str) -> dict[str, ipaddress.IPv4Network]:
        """The /31 of each veth pair that is there, by its device: of routers whose links are not in our file yet."""
        name, found = fip_namespace(network_id), dict[str, ipaddress.IPv4Network]()
        if self.services.exists(name):
            for each in self.services.netlink.read(name).addresses:
                if each.device.startswith(TO_ROUTER) and each.version == 4:
                    found[each.device] = ipaddress.IPv4Interface(each.address).network
        return found

    def reconcile(self) -> int:
        """All such namespaces of the host; those without a router are removed. How many changes that took."""
        changes = 0
        with self._lock:  # eight workers: two would create and delete routes of each other's routers
            synced = self.desired.feed.is_synced
            gateways = {each.network_id: each for each in map(agent_gateway, self.desired.served()) if each is not None}
            for network_id in list_directory(self._records):
                if network_id in gateways:
                    changes += self._reconcile(gateways[network_id], synced)
                elif synced:
                    changes += self.services.remove(fip_namespace(network_id))
                    (self._records / network_id).unlink(missing_ok=True)
        return changes

    def _reconcile(self, gateway: RouterInterface, synced: bool) -> int:
        result = self.services.reconcile(self._render(gateway), complete=synced)
        added = [change.item for change in result.applied if isinstance(change, SetItem)]
        routes = (item.destination for item in added if isinstance(item, Route))
        # A new floating IP, which is a route here, is announced too: it may have been at another MAC.
        floating = _floating(gateway, (each for each in routes if each.endswith("/32")))
        own = (item for item in added if isinstance(item, Address))
        self.announce_addresses(fip_namespace(gateway.network_id), (*own, *floating))
        return result.changes

    def find(self, router: Router) -> list[str]:
        gateway = agent_gateway(router)
        return self.services.find(self._render(gateway)) if gateway is not None else []

    def announce(self, router: Router) -> None:
        gateway = agent_gateway(router)
        if gateway is not None:
            addresses = _floating(
                gateway,
                (f"{local_floating_ip.floating_ip_address}/32" for local_floating_ip in local_floating_ips(router)),
            )
            self.announce_addresses(fip_namespace(gateway.network_id), addresses)

    def _render(self, gateway: RouterInterface) -> DesiredNamespace:
        return render_fip(gateway, self._members(gateway.network_id), self.options)

    def _members(self, network_id: str) -> Iterator[tuple[Router, Link]]:
        for router in self.desired.served():
            gateway = agent_gateway(router)
            if gateway is None or gateway.network_id != network_id:
                continue
            if (link := self._link(router.id, network_id)) is not None:
                yield router, link


def _floating(gateway: RouterInterface, prefixes: Iterable[str]) -> list[Address]:
    """Floating IPs as addresses of the host's port on the external network, to be announced there."""
    return [address(device(AGENT_GATEWAY, gateway.id), prefix) for prefix in prefixes]


class LinkLocals:
    """The /31 of each router's veth pair into `fip-…`, allocated once and kept in a file: a router keeps its own.

    The file is Neutron's: one line for each router. May be used from any thread.
    """

    def __init__(self, state_path: str) -> None:
        self._path = Path(state_path) / LINKS_FILE
        self._lock = threading.Lock()
        self._pairs = _parse(self._path.read_text()) if self._path.exists() else {}

    def find(self, router_id: str) -> Link | None:
        pair = self._pairs.get(router_id)
        return (str(pair[0]), str(pair[1])) if pair is not None else None

    def allocate(
        self, router_id: str, existing: Mapping[str, ipaddress.IPv4Network] = MappingProxyType({})
    ) -> Link | None:
        """`existing`: pairs that are there, by device in `fip-…`, as a Neutron agent has created them: they stay.

        Neutron gives two routers the same one if it creates both at once. That works, as all routes name the device; and
        while a pair's addresses were changed on its two ends one after the other, packets would wait for ARP.
        """
        with self._lock:
            if router_id not in self._pairs:
                used = {*self._pairs.values(), *existing.values()}
                own = existing.get(device(TO_ROUTER, router_id))
                free = own if own is not None and _is_pair(own) else None
                free = free or next((pair for pair in POOL.subnets(new_prefix=31) if pair not in used), None)
                if free is None:
                    raise OSError(f"{LINKS_FILE}: all of {POOL} is used by routers with floating IPs")
                self._write({**self._pairs, router_id: free})
            return self.find(router_id)

    def release(self, router_id: str) -> None:
        with self._lock:
            if router_id in self._pairs:
                self._write({key: pair for key, pair in self._pairs.items() if key != router_id})

    def _write(self, pairs: dict[str, ipaddress.IPv4Network]) -> None:
        # Replaced as a whole: half a file would give routers in use other addresses.
        daemon_files.write(self._path, "".join(f"{router_id},{pair}\n" for router_id, pair in sorted(pairs.items())))
        self._pairs = pairs


def _is_pair(network: ipaddress.IPv4Network) -> bool:
    return network.prefixlen == 31 and network.subnet_of(POOL)


def _parse(text: str) -> dict[str, ipaddress.IPv4Network]:
    pairs: dict[str, ipaddress.IPv4Network] = {}
    for line in text.splitlines():
        router_id, comma, network = line.strip().partition(",")
        try:
            pair = ipaddress.IPv4Network(network)
        except ValueError:
            continue  # a truncated line, after a loss of power: the router gets another
        if comma and _is_pair(pair) and pair not in pairs.values():  # never one for two
            pairs[router_id] = pair
    return pairs
