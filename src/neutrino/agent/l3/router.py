"""Renders a router on this host: its namespaces by its kind, each merged from the contributions of all extensions.
Pure.

A router that is not distributed has one namespace, `qrouter-…`. A distributed one has two kinds of them:

* `qrouter-…`, on every host, has the router's own ports: packets between its subnets are routed on the sender's host;
* `snat-…`, on one host, has a port on each subnet (`sg-…`), with an address of its own because the router's is on every
  host, and the gateway port (`qg-…`). Instances without a floating IP reach the outside by it; replies go from it to
  the instance directly. Floating IPs of ports whose host does not reach the outside itself, and port forwardings, are
  translated there too. With HA, several hosts have it, and keepalived sets its addresses on the active one.

The path of a floating IP: the feed's `Router` → `role.L3Role` → here → `extensions.nat.Nat` (an element of two nft maps) →
`ServiceNamespaces` (read, plan, apply) → `dataplane.nft.real`.
"""

import dataclasses
import ipaddress
from collections.abc import Callable, Iterable, Iterator

import msgspec

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.devices import IPV6_FORWARDING
from neutrino.agent.l3.extension_api import Contribution, L3Extension, Objects, RouterNamespace
from neutrino.agent.l3.extensions import BUILT_IN
from neutrino.agent.l3.firewall_log import LoggedPorts, logged_ports
from neutrino.agent.l3.names import EXTERNAL, INTERNAL, SNAT_PORT, TO_FIP, device, router_namespace, snat_namespace
from neutrino.agent.l3.services.keepalived.render import STATIC, Failover
from neutrino.agent.runtime.namespaces import DesiredNamespace
from neutrino.agent.runtime.role import RoleFeed
from neutrino.dataplane.netlink.values import Address
from neutrino.dataplane.nft.api import Chain, Table
from neutrino.model.routing import FloatingIp, Router, RouterInterface, RouterRoute

ROUTER = "router"  # the feed's kind of object


@dataclasses.dataclass(frozen=True)
class DesiredRouters:
    """The routers of the feed at the moment of each call, from any thread."""

    feed: RoleFeed
    refusal: Callable[[Router], str | None] = lambda router: None  # why this host does not serve a router
    kinds: frozenset[str] = frozenset()  # of the objects that extensions read

    def all(self) -> list[Router]:
        # A copy: a worker thread reads the routers while the event loop changes them.
        return list(self.feed.state.objects[ROUTER].values())

    def served(self) -> list[Router]:
        return [each for each in self.all() if each.admin_state_up and self.refusal(each) is None]

    def objects(self) -> Objects:
        return {kind: self.feed.state.objects[kind] for kind in self.kinds}


def logged_namespaces(router: Router, options: L3Options, objects: Objects) -> dict[str, LoggedPorts]:
    """The ports with logs of firewall groups, by namespace and device."""
    several = router_namespaces(router, options, objects)
    return {each.name: ports for each in several if (ports := logged_ports(each))}


class RenderError(Exception):
    """A third-party extension cannot render a router, or collides with another. Actual state is left as it is."""


@dataclasses.dataclass(frozen=True)
class DesiredRouterNamespace:
    """All desired state of one namespace."""

    namespace: DesiredNamespace
    rendered_from: RouterNamespace
    failover: Failover | None = None  # what keepalived sets in it


def router_namespaces(
    router: Router, options: L3Options, objects: Objects | None = None, link: tuple[str, str] | None = None
) -> Iterator[RouterNamespace]:
    """The namespaces of a router on this host, by its kind. `link` joins a distributed one with its `fip-…`."""
    name, inside, gateway = router_namespace(router.id), _devices(INTERNAL, router.interfaces), router.gateway
    outside = device(EXTERNAL, gateway.id) if gateway is not None else ""
    objects = objects or {}
    if not router.distributed:
        yield RouterNamespace(name, "router", router, router, inside, outside, options, objects)
        return
    # Before the link is allocated floating IPs have no way out: they are rendered in the round that allocates it.
    floating = local_floating_ips(router) if link is not None else ()
    local = msgspec.structs.replace(
        router,
        gateway=None,  # it is in `snat-…`
        extra_gateways=(),
        floating_ips=floating,
        port_forwardings=(),  # translated in `snat-…`
        ha=None,  # only `snat-…` fails over
        routes=tuple(_reachable(router, router.interfaces)),
    )
    to_fip, link = (device(TO_FIP, router.id), link) if floating or is_direct(router) else ("", None)
    yield RouterNamespace(name, "router", local, router, inside, to_fip, options, objects, link)
    if router.centralized and gateway is not None:
        central = msgspec.structs.replace(
            router,
            interfaces=(),
            floating_ips=tuple(floating_ip for floating_ip in router.floating_ips if not floating_ip.host),
            routes=tuple(_reachable(router, (*router.snat_interfaces, gateway, *router.extra_gateways))),
            conntrack_helpers=(),  # they follow connections where instances send them, in `qrouter-…`
        )
        inside, name = _devices(SNAT_PORT, router.snat_interfaces), snat_namespace(router.id)
        yield RouterNamespace(name, "snat", central, router, inside, outside, options, objects)


def local_floating_ips(router: Router) -> tuple[FloatingIp, ...]:
    """Of a distributed router, those whose port is on this host; others are translated in `snat-…`."""
    if not router.distributed or router.gateway is None or router.agent_gateway is None:
        return ()
    return tuple(floating_ip for floating_ip in router.floating_ips if floating_ip.host)


def is_direct(router: Router) -> bool:
    """Whether a distributed router routes subnets to the outside by this host's own port, without translation."""
    has_way = router.gateway is not None and router.agent_gateway is not None
    return router.distributed and has_way and bool(router.direct_prefixes)


def _devices(prefix: str, ports: Iterable[RouterInterface]) -> dict[str, RouterInterface]:
    return {device(prefix, port.id): port for port in ports if port.admin_state_up}


def _reachable(router: Router, ports: Iterable[RouterInterface]) -> Iterator[RouterRoute]:
    """The extra routes whose next hop is on a subnet of these ports."""
    subnets = [ipaddress.ip_network(address.cidr) for port in ports for address in port.addresses]
    for route in router.routes:
        if any(ipaddress.ip_address(route.nexthop) in subnet for subnet in subnets):
            yield route


def render(
    namespace: RouterNamespace, extensions: Iterable[L3Extension] = (), *, active: bool = True
) -> DesiredRouterNamespace:
    """Merges the contributions of the built-in extensions, and of those given, to one namespace.

    `active`: whether this host is the active one of an HA router.
    """
    parts = [each.render(namespace) for each in BUILT_IN] + [
        _contribution(extension, namespace) for extension in extensions
    ]
    # With HA, addresses and routes go to keepalived's configuration instead: a standby host must not have them.
    addresses = tuple(address for part in parts for address in part.addresses)
    routes = tuple(route for part in parts for route in part.routes)
    devices = tuple(device for part in parts for device in part.devices)
    names = [each.name for each in devices]
    if len(set(names)) != len(names):
        raise RenderError(f"{namespace.name}: two extensions contribute one device: {', '.join(sorted(names))}")
    ha = namespace.router.ha
    return DesiredRouterNamespace(
        DesiredNamespace(
            name=namespace.name,
            devices=devices,
            addresses=frozenset((*(a for part in parts for a in part.host_addresses), *(() if ha else addresses))),
            routes=frozenset(() if ha else routes),
            rules=frozenset(rule for part in parts for rule in part.rules),
            neighbours=frozenset(neighbour for part in parts for neighbour in part.neighbours),
            # Keepalived cannot set these: the router is reconciled when its state changes.
            proxies=frozenset(proxy for part in parts for proxy in part.proxies if active or not ha),
            sysctls={name: value for part in parts for name, value in part.sysctls.items()},
            # Switching IPv6 forwarding on makes the kernel report its multicast groups with the router's MAC, which a
            # standby host must not use. A namespace of Neutron's has it off there.
            initial_sysctls=frozenset((IPV6_FORWARDING,) if ha and not active else ()),
            device_prefixes=tuple(prefix for part in parts for prefix in part.device_prefixes),
            others_addresses=frozenset(names if ha else ()) - {"lo"},  # keepalived sets addresses on any of them
            others_routes=frozenset((STATIC,) if ha else ()),  # and routes
            others_tables=frozenset(table for part in parts for table in part.others_tables),
            plugs=tuple(sorted((plug for part in parts for plug in part.plugs), key=lambda each: each.name)),
            keeps_devices=namespace.options.keeps_devices,
            tables=_tables(namespace.name, [table for part in parts for table in part.tables]),
        ),
        namespace,
        failover=Failover(namespace.name, ha, namespace.ports, addresses, routes) if ha is not None else None,
    )


def _contribution(extension: L3Extension, namespace: RouterNamespace) -> Contribution:
    try:
        return extension.render(namespace)
    except Exception as error:  # third-party code: whatever it raises is a problem of this router alone
        raise RenderError(f"extension {extension.name}: {error}") from error


def _tables(where: str, parts: Iterable[Table]) -> tuple[Table, ...]:
    """One table for each family and name; chains of one name have their rules joined."""
    by_path: dict[str, Table] = {}
    for part in parts:
        there = by_path.setdefault(part.path, Table(family=part.family, name=part.name))
        chains = {each.name: each for each in there.chains}
        for chain in part.chains:
            known = chains.get(chain.name, Chain(chain.name, hook=chain.hook))
            if known.hook != chain.hook:
                raise RenderError(f"{where}: two extensions contribute chain {chain.name} with different hooks")
            chains[chain.name] = Chain(chain.name, known.rules + chain.rules, chain.hook)
        # Joining sets would hide that one extension's elements end up in the other's rules.
        sets = (*there.sets, *part.sets)
        if len({each.name for each in sets}) != len(sets):
            raise RenderError(f"{where}: two extensions contribute one set: {[each.name for each in sets]}")
        declarations, counters = (*there.declarations, *part.declarations), (*there.counters, *part.counters)
        by_path[part.path] = Table(tuple(chains.values()), sets, declarations, part.family, part.name, counters)
    return tuple(by_path.values())


def own_addresses(namespace: RouterNamespace, set_here: Iterable[Address]) -> frozenset[str]:
    """All addresses that a router may give its connections as their source: those that are set in its namespace, now or
    by keepalived, and those that it translates, which in `qrouter-…` of a distributed router no device has.
    """
    router = namespace.router
    floating = (floating_ip.floating_ip_address for floating_ip in router.floating_ips)
    forwarded = (port_forwarding.external_ip_address for port_forwarding in router.port_forwardings)
    own = (each.address.partition("/")[0] for each in set_here)
    return frozenset(str(ipaddress.ip_address(each)) for each in (*own, *floating, *forwarded))
