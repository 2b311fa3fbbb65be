"""A packet inside a part of a router: routes, address scopes, filters of features, translation, in this order. Pure.

destination translated → router's own address, metadata → VPN connection → route → address scopes → NDP proxy
→ filters of features → source translated → MTU → next hop

Of several gateways, a translated connection leaves by the one that has its external address; all else by the first, or
with ECMP by the one that the kernel chooses, with BFD by one that is not lost: the first here, unless a host has answered
which (`Walk.chosen`).
"""

from dataclasses import dataclass
from ipaddress import ip_network

import msgspec

from neutrino.model.agents import EXTERNAL_MODES
from neutrino.model.routing import Router, RouterInterface
from neutrino.model.trace import Cause, Point, PointKind
from neutrino.server.trace.feature_part import Taken
from neutrino.server.trace.steps import nat
from neutrino.server.trace.steps.filters import TCP
from neutrino.server.trace.steps.parts import SNAT, Part, central_part, check_agent
from neutrino.server.trace.steps.switching import check_mtu, port_with, switch_to
from neutrino.server.trace.steps.walk import Walk, contains, of_interface, of_router, same
from neutrino.server.trace.values import TracedRouter

METADATA = ("169.254.169.254", "fe80::a9fe:a9fe")


@dataclass(frozen=True, slots=True)
class Onward:
    """Where the packet goes next: an address on a network."""

    network_id: str
    address: str
    gateway_of: str = ""  # the subnet whose gateway it is: for an instance that sends
    port_id: str = ""  # the port it is delivered to: with a local IP not the one that has the address


@dataclass(frozen=True, slots=True)
class Route:
    interface: RouterInterface
    next_hop: str
    prefix: str
    kind: str  # "interface", "extra route", "default route"
    to_outside: bool


def cross(walk: Walk, part: Part, entry: RouterInterface | None) -> Onward | None:
    """Take the packet through a part of a router; None: the router itself answers. `entry` None: from outside."""
    subject = of_router(part.router)
    check_agent(walk, part.router, part.host)
    translated = nat.before_routing(walk, part, from_outside=entry is None)
    if not translated and _is_own(walk, part, entry):
        walk.end_router_id = part.router.id
        return None
    if entry is not None and not entry.admin_state_up:
        _drop_interface(walk, entry)
    if entry is not None and not part.local:
        taken = next(filter(None, (one.taken_by_router(walk, part) for one in walk.snapshot.parts)), None)
        if taken is not None:
            return _beyond(walk, part, taken)
    marked = nat.marked_gateway(walk, part, entry)
    route = find_route(part, walk.packet.destination, marked, walk.chosen)
    if route is None and part.local:
        return _outward(walk, part, entry, translated)
    if route is None:
        why = "it has no gateway" if part.outside is None else "its gateway has no default route of this IP version"
        text = f"{subject.title} has no route to {walk.packet.destination}, and {why}."
        walk.drops("route", subject, Cause.NO_ROUTE, text)
    return _forward(walk, part, entry, route, translated)


def _beyond(walk: Walk, part: Part, taken: Taken) -> Onward | None:
    """Go on at the other end of a tunnel, if that is a router here that the caller may know; None: it ends at the peer."""
    router = _router_with(walk, taken.peer)
    if router is None or router.id == part.router.id:
        walk.end_router_id = part.router.id
        return None
    subject = of_router(router)
    if not router.router.admin_state_up:
        text = f"{subject.title}, the peer, is administratively down: admin_state_up is false."
        walk.drops("router", subject, Cause.ROUTER_ADMIN_DOWN, text)
    other = central_part(walk, router)
    walk.leaves(None)
    walk.host = other.host
    text = f"{subject.title} on host {other.host} is the peer: it decrypts the packet."
    walk.passes("vpn", subject, text, f"{subject.title} is the peer: it decrypts the packet.")
    onward = cross(walk, other, None)
    if onward is not None:
        target = port_with(walk, onward.network_id, onward.address)
        mac = target.port.mac_address if target is not None else walk.packet.eth_dst
        walk.packet = msgspec.structs.replace(walk.packet, eth_dst=mac)
        leaving = next(e for e in (*other.inside, *other.gateways) if e.network_id == onward.network_id)
        walk.enters(other.host, Point(kind=PointKind.PORT, port_id=leaving.id), resumes=True)
    return onward


def _router_with(walk: Walk, address: str) -> TracedRouter | None:
    """The router whose gateway has an address; with a project, one of that project."""
    for router in walk.snapshot.routers.values():
        addresses = (each.ip_address for gateway in gateways_of(router.router) for each in gateway.addresses)
        is_known = walk.project_id in (None, router.router.project_id)
        if is_known and any(same(each, address) for each in addresses):
            return router
    return None


def find_route(
    part: Part, destination: str, marked: RouterInterface | None = None, chosen: frozenset[str] = frozenset()
) -> Route | None:
    """The route with the longest prefix: of an interface, an extra route, or a gateway's default."""
    gateways = part.gateways if not part.local else ()
    default = _default_route(part, destination, marked, chosen)
    if marked is not None and default is not None and _is_on_another(part, destination, marked):
        return default
    found = [default] if default is not None else []
    for interface, is_outside in [(each, False) for each in part.inside] + [(gateway, True) for gateway in gateways]:
        on_link = [address.cidr for address in interface.addresses] + list(interface.other_subnets)
        found += [Route(interface, destination, cidr, "interface", is_outside) for cidr in on_link]
        for route in part.router.router.routes:
            if any(contains(cidr, route.nexthop) for cidr in on_link):
                found.append(Route(interface, route.nexthop, route.destination, "extra route", is_outside))
    matching = [route for route in found if contains(route.prefix, destination)]
    # An on-link subnet wins over an extra route of the same length, which wins over the default route.
    order = ("interface", "extra route", "default route")
    return max(
        matching, key=lambda r: (ip_network(r.prefix, strict=False).prefixlen, -order.index(r.kind)), default=None
    )


def _default_route(
    part: Part, destination: str, marked: RouterInterface | None, chosen: frozenset[str]
) -> Route | None:
    """By the marked gateway, or the first; with ECMP or BFD, by any."""
    version = 6 if ":" in destination else 4
    prefix = "::/0" if version == 6 else "0.0.0.0/0"
    several = part.gateways if not part.local else ()
    router = part.router.router
    has_choice = (router.enable_default_route_ecmp or router.enable_default_route_bfd) and len(several) > 1
    if marked is not None and _next_hop(marked, version):
        several = (marked,)
    elif has_choice:
        several = tuple(sorted((each for each in several if each.admin_state_up), key=lambda e: e.id not in chosen))
    else:
        several = several[:1]
    routes = (Route(each, hop, prefix, "default route", True) for each in several if (hop := _next_hop(each, version)))
    return next(routes, None)


def _next_hop(gateway: RouterInterface, version: int) -> str | None:
    return next((a.gateway_ip for a in gateway.addresses if a.version == version and a.gateway_ip), None)


def _is_on_another(part: Part, destination: str, marked: RouterInterface) -> bool:
    """Whether the destination is on the network of another gateway: connections leave by their own all the same."""
    others = (gateway for gateway in part.gateways if gateway.network_id != marked.network_id)
    cidrs = (cidr for other in others for cidr in (*(a.cidr for a in other.addresses), *other.other_subnets))
    return any(contains(cidr, destination) for cidr in cidrs)


def _forward(walk: Walk, part: Part, entry: RouterInterface | None, route: Route, translated: bool) -> Onward:
    subject = of_router(part.router)
    if not route.interface.admin_state_up:
        _drop_interface(walk, route.interface)
    hop = "" if same(route.next_hop, walk.packet.destination) else f" to next hop {route.next_hop}"
    place = "its gateway" if route.to_outside else f"its interface {of_interface(walk, route.interface).id}"
    if route.to_outside and part.further:
        place = f"its gateway {of_interface(walk, route.interface).id}"
    what = f"{route.kind} {route.prefix} by {place}{hop}."
    walk.passes("route", subject, f"{subject.title} on host {part.host}: {what}", f"{subject.title}: {what}")
    _scopes(walk, part, entry, route, translated)
    _ndp_proxy(walk, part, entry, route)
    for addition in walk.snapshot.parts:
        addition.filters_routed(walk, entry if entry is not None else part.entrance, route.interface)
    nat.after_routing(walk, part, entry, route.interface, to_outside=route.to_outside, translated=translated)
    check_mtu(walk, route.interface.network_id)
    if walk.packet.ttl <= 1:
        walk.drops("route", subject, Cause.TTL_EXPIRED, f"The TTL has expired in {subject}: a routing loop.")
    walk.changes(
        "forward",
        subject,
        f"Leaves {subject} with MAC address {route.interface.mac_address}.",
        eth_src=route.interface.mac_address,
        ttl=walk.packet.ttl - 1,
    )
    return Onward(route.interface.network_id, route.next_hop)


def _outward(walk: Walk, part: Part, entry: RouterInterface | None, translated: bool) -> Onward | None:
    """From a distributed router on an instance's host to the outside: a floating IP by the host itself, else by SNAT."""
    subject, base = of_router(part.router), part.router.router
    has_fip = any(same(fip.fixed_ip_address, walk.packet.source) for fip in part.floating_ips)
    if base.gateway is None:
        text = f"{subject.title} has no route to {walk.packet.destination}, and it has no gateway."
        walk.drops("route", subject, Cause.NO_ROUTE, text)
    known = walk.snapshot.hosts.get(part.host)
    reaches = known is not None and known.agent_mode in EXTERNAL_MODES
    is_direct = reaches and any(contains(cidr, walk.packet.source) for cidr in base.direct_prefixes)
    central_only = next(filter(None, (one.leaves_centrally(walk, part) for one in walk.snapshot.parts)), "")
    if (has_fip or is_direct) and part.outside is not None and not central_only:
        what = "the floating IP is translated" if has_fip else "its subnet is announced by BGP, and leaves untranslated"
        text = f"{subject.title} is distributed: {what} on host {part.host}."
        public = f"{subject.title} is distributed: {what} on the host of its port."
        walk.informs("dvr", subject, text, public)
        address = next((a for a in base.gateway.addresses if a.version == 4), None)
        on_link = address is not None and contains(address.cidr, walk.packet.destination)
        hop = walk.packet.destination if on_link or address is None else address.gateway_ip or walk.packet.destination
        route = Route(part.outside, hop, "0.0.0.0/0", "default route", True)
        return _forward(walk, part, entry, route, translated)
    central = central_part(walk, part.router)
    subnets = {address.subnet_id for address in entry.addresses} if entry is not None else set()
    port = next((p for p in central.inside if subnets & {a.subnet_id for a in p.addresses}), None)
    if port is None:
        text = f"{subject.title} has no SNAT port on the sender's subnet."
        walk.drops("route", subject, Cause.NO_ROUTE, text)
    which = central_only or "without a floating IP, packets"
    walk.changes(
        "dvr",
        subject,
        f"{subject.title} is distributed: {which} leave by its SNAT part on host {central.host}.",
        f"{subject.title} is distributed: {which} leave by its SNAT part.",
        eth_dst=port.mac_address,
        ttl=walk.packet.ttl - 1,
    )
    switch_to(walk, port.network_id, central.host, walk.snapshot.ports.get(port.id))
    return cross(walk, central, port)


# --- what a router does not forward -----------------------------------------------------------------------------------


def _is_own(walk: Walk, part: Part, entry: RouterInterface | None) -> bool:
    """Whether the packet is for the router itself, or a metadata request, which it answers."""
    subject, packet = of_router(part.router), walk.packet
    if any(same(packet.destination, each) for each in METADATA):
        on_subnet = entry is not None and any(contains(a.cidr, packet.source) for a in entry.addresses)
        if part.name == SNAT or packet.protocol != TCP or packet.destination_port != 80:
            text = f"{subject.title} answers {packet.destination} for TCP port 80 alone, the metadata service."
            walk.drops("metadata", subject, Cause.NO_ROUTE, text)
        if not on_subnet and ":" not in packet.source:
            text = f"{packet.source} is on no subnet of the interface by which it came: metadata is not served to it."
            walk.drops("metadata", subject, Cause.ADDRESS_SPOOFED, text)
        text = f"{subject.title} passes it to the metadata proxy on host {part.host}."
        walk.passes("metadata", subject, text, f"{subject.title} passes it to the metadata proxy.")
        return True
    own = [*part.inside, *part.gateways]
    if not any(same(address.ip_address, packet.destination) for each in own for address in each.addresses):
        return False
    walk.passes("delivered", subject, f"{packet.destination} is an address of {subject}, which answers itself.")
    return True


def _scopes(walk: Walk, part: Part, entry: RouterInterface | None, route: Route, translated: bool) -> None:
    version = walk.version
    came = nat.scope(entry if entry is not None else part.entrance, version)
    goes = nat.scope(route.interface, version)
    if came == goes or translated or (part.local and (entry is None or route.to_outside)):
        return
    if walk.packet.reply and nat.is_translated(walk, part):
        return
    if route.to_outside and version == 4 and (nat.snat_address(part, route.interface) or _has_floating_ip(walk, part)):
        return
    delegated = {delegation.subnet_id for delegation in part.router.router.delegations}
    inner = route.interface if entry is None else entry
    if delegated & {address.subnet_id for address in inner.addresses}:
        return
    subject = of_router(part.router)
    text = f"{subject.title} does not forward from {_scope_words(came)} to {_scope_words(goes)} without translation."
    walk.drops("address-scope", subject, Cause.ADDRESS_SCOPE, text)


def _ndp_proxy(walk: Walk, part: Part, entry: RouterInterface | None, route: Route) -> None:
    """While the router proxies NDP, only proxied addresses of subnets in its gateway's scope are reached from outside."""
    base, destination = part.router.router, walk.packet.destination
    from_gateway = entry is None and part.outside is not None and part.entrance == part.outside
    if not base.enable_ndp_proxy or not from_gateway or walk.version == 4 or route.to_outside:
        return
    scope = nat.scope(part.outside, 6)
    subnets = [a.cidr for port in part.inside for a in port.addresses if a.version == 6 and a.address_scope_id == scope]
    is_proxied = any(same(ndp_proxy.ip_address, destination) for ndp_proxy in base.ndp_proxies)
    if is_proxied or not any(contains(cidr, destination) for cidr in subnets):
        return
    subject = of_router(part.router)
    text = f"{subject.title} has enable_ndp_proxy, and no NDP proxy for {destination}: the outside does not reach it."
    walk.drops("ndp-proxy", subject, Cause.NO_NDP_PROXY, text)


def _has_floating_ip(walk: Walk, part: Part) -> bool:
    return any(same(fip.fixed_ip_address, walk.packet.source) for fip in part.floating_ips)


def _scope_words(scope: str | None) -> str:
    return f"address scope {scope}" if scope else "a network without address scope"


def _drop_interface(walk: Walk, interface: RouterInterface) -> None:
    subject = of_interface(walk, interface)
    text = f"Router interface {subject.id} is administratively down: admin_state_up is false."
    walk.drops("router", subject, Cause.PORT_ADMIN_DOWN, text)


def gateways_of(router: Router) -> tuple[RouterInterface, ...]:
    return (*((router.gateway,) if router.gateway is not None else ()), *router.extra_gateways)


def interface_of(router: Router, port_id: str) -> RouterInterface | None:
    several = [*router.interfaces, *router.snat_interfaces, *gateways_of(router)]
    return next((each for each in several if each.id == port_id), None)
