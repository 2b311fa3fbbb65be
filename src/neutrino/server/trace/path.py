"""The path of a packet by the server's data: a pure function of a snapshot, the sender and the packet.

from a port       first hop: on-link, host route, or the subnet's gateway → `steps.ports.SENDING`
from outside      the external network
then, until it ends:
    who has the next address on this network?
        a router          → `routing.cross`: the next network
        another port      → `ports.REACHABLE` → switched to its host → `ports.RECEIVING` → delivered
        nobody            → dropped; on an external network: it leaves to the outside
"""

import dataclasses
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

import msgspec

from neutrino.model.state import Network, Subnet
from neutrino.model.trace import Cause, Packet, Verdict
from neutrino.server.trace.steps import ports
from neutrino.server.trace.steps.filters import ICMP, ICMPV6
from neutrino.server.trace.steps.nat import answer_to, is_forwarded, scope
from neutrino.server.trace.steps.parts import Part, central_part, check_router, is_local, local_part
from neutrino.server.trace.steps.routing import METADATA, Onward, cross, gateways_of, interface_of
from neutrino.server.trace.steps.switching import (
    arrive,
    check_mtu,
    holders,
    is_reserved,
    leave,
    may_have,
    outside_segment,
    port_with,
    switch_to,
)
from neutrino.server.trace.steps.walk import (
    Dropped,
    Subject,
    Walk,
    contains,
    of_network,
    of_port,
    of_router,
    of_subnet,
    same,
)
from neutrino.server.trace.values import NOTHING, Passed, Path, Snapshot, TracedFloatingIp, TracedPort, TracedRouter

MAX_ROUTERS = 16
OUTSIDE_MAC = "02:00:00:00:00:01"  # of a machine outside, which the server does not know
UNKNOWN_MAC = "02:00:00:00:00:02"  # of an address that no port has
_DHCP = "network:dhcp"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a packet starts: at a port, or outside of an external network."""

    port_id: str = ""
    network_id: str = ""
    towards: str = ""  # the port that it is for, if known


def compute(
    snapshot: Snapshot,
    origin: Origin,
    packet: Packet,
    before: Passed = NOTHING,
    project_id: str | None = None,
    chosen: frozenset[str] = frozenset(),
    oversized: bool = False,
) -> Path:
    """The path; with a project, one that ends at external networks where an object of another project follows.

    Otherwise a member could tell which addresses outside are floating IPs and routers of other projects. `chosen`: gateways
    that hosts have chosen of several with equal default routes. `oversized`: hosts have answered that the packet is not too
    big for their devices.
    """
    walk = Walk(snapshot, packet, before, project_id=project_id, chosen=chosen, oversized=oversized)
    walk.towards = origin.towards
    try:
        if (first := _start(walk, origin)) is not None:
            _follow(walk, first)
    except Dropped:
        return _path(walk, Verdict.DROPPED, walk.steps[-1].cause)
    if walk.doubts:
        return _path(walk, Verdict.UNKNOWN, walk.doubts[0])
    return _path(walk, Verdict.DELIVERED, Cause.NONE)


def compute_return(
    snapshot: Snapshot,
    forward: Path,
    project_id: str | None = None,
    chosen: frozenset[str] = frozenset(),
    oversized: bool = False,
) -> Path | None:
    """The path of the answer to a packet that arrived; None where nothing of ours answers."""
    if not forward.end_port_id and not forward.end_network_id:
        return None  # a router answers itself, by the way that the packet came; or the sender
    reply = answer_to(forward.packet)
    start = Origin(port_id=forward.end_port_id, network_id=forward.end_network_id)
    return compute(snapshot, start, reply, forward.passed, project_id, chosen, oversized)


def _path(walk: Walk, verdict: Verdict, cause: Cause) -> Path:
    return Path(
        steps=tuple(walk.steps),
        verdict=verdict,
        cause=cause,
        doubts=tuple(walk.doubts),
        packet=walk.packet,
        hops=tuple(walk.hops),
        end_port_id=walk.end_port_id,
        end_network_id=walk.end_network_id,
        end_router_id=walk.end_router_id,
        passed=walk.passed,
    )


# --- the first hop ----------------------------------------------------------------------------------------------------


def _start(walk: Walk, origin: Origin) -> Onward | None:
    """The first address that the packet is sent to; None: it does not leave its sender."""
    if not origin.port_id and not origin.network_id:
        port = walk.snapshot.ports[origin.towards]
        text = f"No router with an external gateway is on a subnet of {of_port(port)}: the outside does not reach it."
        walk.drops("external", of_port(port), Cause.NO_FLOATING_IP, text)
    if not origin.port_id:
        subject = of_network(walk, origin.network_id)
        walk.informs("external", subject, f"Enters at the outside of {subject}.")
        return Onward(origin.network_id, walk.packet.destination)
    port = _sender(walk, walk.snapshot.ports[origin.port_id])
    walk.sender_id = port.id
    if any(same(fixed.ip_address, walk.packet.destination) for fixed in port.port.fixed_ips):
        text = f"{walk.packet.destination} is an address of {of_port(port)} itself: the packet does not leave its instance."
        walk.passes("delivered", of_port(port), text)
        return None
    onward = first_hop(walk, port)
    _address(walk, port, onward)
    ports.check(walk, port, ports.SENDING)
    if walk.led_to:
        onward = _led(walk, port.port.network_id)
    if onward is None:
        subject = of_port(port)
        text = (
            f"{walk.packet.destination} is on no subnet of {subject}, and these have neither gateway nor route to it."
        )
        walk.drops("first-hop", subject, Cause.NO_ROUTER, text)
    check_mtu(walk, port.port.network_id)
    return onward


def _sender(walk: Walk, port: TracedPort) -> TracedPort:
    """The port; or, if that is bound to no host, the port whose instance has its address by an allowed address pair."""
    known = port_with(walk, port.port.network_id, walk.packet.source)
    if known is None or known.id == port.id or not is_reserved(port, walk.packet.source):
        return port
    if known.project_id != port.project_id:
        return port
    text = f"{of_port(port).title} is bound to no host: {of_port(known)} sends from {walk.packet.source}, "
    walk.informs("address-pair", of_port(known), text + "which is in its allowed address pairs.")
    if walk.packet.eth_src.lower() == port.port.mac_address.lower():
        walk.packet = msgspec.structs.replace(walk.packet, eth_src=known.port.mac_address)
    return known


def _led(walk: Walk, network_id: str) -> Onward:
    """To the port that the switch of this host leads the packet to."""
    port_id, walk.led_to = walk.led_to, ""
    return Onward(network_id, walk.packet.destination, port_id=port_id)


def first_hop(walk: Walk, port: TracedPort) -> Onward | None:
    """Where the instance sends the packet: it has the routes that DHCP or router advertisements gave it."""
    network = walk.snapshot.networks[port.port.network_id]
    own = [s for s in network.subnets if s.id in {fixed.subnet_id for fixed in port.port.fixed_ips}]
    destination = walk.packet.destination
    if ip_address(destination).is_link_local and ":" in destination:
        return Onward(network.id, destination)
    own = [subnet for subnet in own if subnet.ip_version == walk.version]
    own.sort(key=lambda subnet: not contains(subnet.cidr, walk.packet.source))  # the source's subnet first
    if any(contains(subnet.cidr, destination) for subnet in own):
        return Onward(network.id, destination)
    for subnet in own:
        if (hop := _next_hop(subnet, destination)) is not None:
            if destination == METADATA[0] and port_with(walk, network.id, hop) is None:
                continue
            return Onward(network.id, hop, subnet.id)
    if destination == METADATA[0]:
        return _isolated_metadata(walk, port)
    return None


def _next_hop(subnet: Subnet, destination: str) -> str | None:
    routes = [route for route in subnet.host_routes if contains(route[0], destination)]
    if routes:
        return max(routes, key=lambda route: ip_network(route[0], strict=False).prefixlen)[1]
    return subnet.gateway_ip


def _isolated_metadata(walk: Walk, port: TracedPort) -> Onward | None:
    """On a network without router, the DHCP server's namespace answers metadata requests, if so configured."""
    for each in walk.snapshot.ports.values():
        if each.port.network_id == port.port.network_id and each.port.device_owner == _DHCP and each.port.fixed_ips:
            return Onward(port.port.network_id, each.port.fixed_ips[0].ip_address)
    return None


def _address(walk: Walk, port: TracedPort, onward: Onward | None) -> None:
    """Set the MAC addresses of the packet as the sender does."""
    target = _receiver(walk, onward) if onward is not None else None
    # On an external network, an address that no port has is a machine's outside.
    nobody = OUTSIDE_MAC if walk.snapshot.networks[port.port.network_id].external else UNKNOWN_MAC
    owner = target.port.mac_address if target is not None else nobody
    mac = _answering(walk, onward) or owner  # first: the port of a floating IP has an address, and is nowhere
    source = walk.packet.eth_src if walk.packet.eth_src not in ("", OUTSIDE_MAC) and not walk.packet.reply else ""
    walk.packet = msgspec.structs.replace(walk.packet, eth_src=source or port.port.mac_address, eth_dst=mac)


def _answering(walk: Walk, onward: Onward | None) -> str:
    """The MAC address that answers for a floating IP: of the router's gateway, or of the host that translates it."""
    fip = _floating_ip(walk, onward) if onward is not None else None
    router = walk.snapshot.routers.get(fip.router_id) if fip is not None else None
    if fip is None or router is None:
        return ""
    entry = next((floating_ip for floating_ip in router.router.floating_ips if floating_ip.id == fip.id), None)
    if entry is not None and is_local(walk, router, entry):
        return router.agent_gateways[entry.host].mac_address
    gateways = gateways_of(router.router)
    return next((each.mac_address for each in gateways if each.network_id == fip.floating_network_id), "")


def _receiver(walk: Walk, onward: Onward) -> TracedPort | None:
    found = port_with(walk, onward.network_id, onward.address)
    if found is None and onward.address == METADATA[1]:
        # Every internal interface of a router with IPv6 has the metadata address, else the DHCP server's namespace.
        several = [p for p in walk.snapshot.ports.values() if p.port.network_id == onward.network_id]
        has_ipv6 = [p for p in several if any(":" in fixed.ip_address for fixed in p.port.fixed_ips)]
        routers = [p for p in has_ipv6 if p.router_id]
        servers = [p for p in several if p.port.device_owner == _DHCP]
        return next(iter([*routers, *servers]), None)
    return found


# --- from network to network ------------------------------------------------------------------------------------------


def _follow(walk: Walk, onward: Onward) -> None:
    seen: set[tuple[str, str, str]] = set()
    for _ in range(MAX_ROUTERS):
        place = (onward.network_id, onward.address, walk.packet.destination)
        if place in seen:
            break
        seen.add(place)
        following = _advance(walk, onward)
        if following is None:
            return
        onward = following
        for part in walk.snapshot.parts:  # what a router sends passes the switch as an instance's packets
            part.sent_by_router(walk, onward.network_id)
        if walk.led_to:
            onward = _led(walk, onward.network_id)
    subject = of_network(walk, onward.network_id)
    walk.drops("route", subject, Cause.TTL_EXPIRED, f"The packet comes back to {subject}: a routing loop.")


def _advance(walk: Walk, onward: Onward) -> Onward | None:
    """Take the packet to the next address; None: it has arrived."""
    network = walk.snapshot.networks[onward.network_id]
    fip = _floating_ip(walk, onward) if network.external else None
    port = walk.snapshot.ports[onward.port_id] if onward.port_id else _receiver(walk, onward)
    if network.external and walk.host and walk.project_id is not None:
        owners = {each.project_id for each in (fip, port) if each is not None}
        owners |= {r.router.project_id for r in walk.snapshot.routers.values() if port and r.id == port.router_id}
        if walk.project_id not in owners:
            _leave(walk, onward)
            return None
    if fip is not None:
        return _to_floating_ip(walk, onward, fip)
    if port is None:
        router = _routed_from_outside(walk, onward) if network.external and not walk.host else None
        if router is not None:
            return _to_fixed_address(walk, onward, router)
        _to_nobody(walk, onward)
        return None
    router = walk.snapshot.routers.get(port.router_id)
    if router is not None:
        return _to_router(walk, onward, port, router)
    _to_port(walk, onward, port)
    return None


def _to_port(walk: Walk, onward: Onward, port: TracedPort) -> None:
    for part in walk.snapshot.parts:
        part.reaches_port(walk, port)
    if is_reserved(port, onward.address) and (may := _instead_of(walk, onward, port)):
        text = f"{of_port(port).title} is bound to no host: whether {_named(may)} has {onward.address} is not known."
        return walk.doubts_host("unlisted-address", of_port(port), Cause.NO_SUCH_ADDRESS, text)
    _check_receiver(walk, onward, port)
    ports.check(walk, port, ports.REACHABLE)
    walk.packet = msgspec.structs.replace(walk.packet, eth_dst=port.port.mac_address)
    _move(walk, onward.network_id, port.port.host, port)
    ports.check(walk, port, ports.RECEIVING)
    walk.end_port_id = port.id
    subject = of_port(port)
    if walk.packet.destination in METADATA and port.port.device_owner == _DHCP:
        text = f"The DHCP server's namespace on host {walk.host} answers, if enable_isolated_metadata is set."
        public = "The DHCP server's namespace answers, if isolated metadata is enabled."
        walk.passes("metadata", subject, text, public)
    elif not same(onward.address, walk.packet.destination):
        text = f"{subject.title} is the next hop: whether its instance forwards the packet is not known."
        walk.doubts_host("next-hop", subject, Cause.NEXT_HOP, text)
    else:
        walk.passes("delivered", subject, f"Delivered to {subject} on host {walk.host}.", f"Delivered to {subject}.")


def _instead_of(walk: Walk, onward: Onward, port: TracedPort) -> list[TracedPort]:
    """The ports that may have the address of one that is bound to no host; none if that is of an instance which is off."""
    if port.port.device_owner.startswith("compute:") or not walk.host:
        return []
    return may_have(walk, onward.network_id, onward.address)


def _named(may: list[TracedPort]) -> str:
    names = " or ".join(str(of_port(each)) for each in may[:3]) + (" …" if len(may) > 3 else "")
    return f"{names}, which may use other addresses than its own,"


def _check_receiver(walk: Walk, onward: Onward, port: TracedPort) -> None:
    """Whether it is the port that the request names; and which others may have the address by allowed address pairs."""
    wanted = walk.snapshot.ports.get(walk.towards)
    here = onward.network_id
    if wanted is not None and not onward.port_id and wanted.id != port.id and wanted.port.network_id != here:
        where = f"the packet is for {of_port(port)}, which has {onward.address} on {of_network(walk, here)}"
        walk.drops("switching", of_port(wanted), Cause.NOT_REACHED, f"{of_port(wanted).title} is not reached: {where}.")
    if not any(same(fixed.ip_address, onward.address) for fixed in port.port.fixed_ips) and not onward.port_id:
        others = [each for each in holders(walk, here, onward.address) if each.id != port.id]
        names = ", ".join(str(of_port(each)) for each in others)
        more = f" So have {names}: which instance uses it now is not known here." if others else ""
        text = f"{of_port(port).title} has {onward.address} in its allowed address pairs."
        walk.informs("address-pair", of_port(port), f"{text}{more}", text)


def _to_nobody(walk: Walk, onward: Onward) -> None:
    network, subject = walk.snapshot.networks[onward.network_id], of_network(walk, onward.network_id)
    if network.external and walk.host:
        return _leave(walk, onward)
    if network.external:
        text = f"No floating IP, router or port of {subject} has address {onward.address}."
        walk.drops("external", subject, Cause.NO_SUCH_ADDRESS, text)
    segment = outside_segment(walk, network, walk.host)
    if segment is not None and segment.physical_network and walk.host:
        return _to_machine(walk, onward, segment.physical_network)
    if may := [] if walk.host == "" else may_have(walk, onward.network_id, onward.address):
        text = f"No port of {subject} has address {onward.address}: whether {_named(may)} uses it is not known."
        return walk.doubts_host("unlisted-address", subject, Cause.NO_SUCH_ADDRESS, text)
    if onward.gateway_of:
        gateway = of_subnet(walk, onward.gateway_of)
        text = f"No router has address {onward.address}, by which {gateway} leads to {walk.packet.destination}."
        walk.drops("first-hop", gateway, Cause.NO_ROUTER, text)
    text = f"No port of {subject} has address {onward.address}."
    walk.drops("switching", subject, Cause.NO_SUCH_ADDRESS, text)


def _to_machine(walk: Walk, onward: Onward, physical_network: str) -> None:
    """An address that no port has, on a physical network: a machine that is not of this cloud may have it."""
    network = of_network(walk, onward.network_id)
    subject = of_subnet(walk, onward.gateway_of) if onward.gateway_of else network
    cause = Cause.NO_ROUTER if onward.gateway_of else Cause.NO_SUCH_ADDRESS
    what = f"No port of {network} has address {onward.address}"
    text = f"{what}: only a machine on physical network {physical_network} may have it."
    walk.doubts_host("physical-network", subject, cause, text, f"{what}: only a machine outside may have it.")
    _leave(walk, onward)


def _leave(walk: Walk, onward: Onward) -> None:
    _check_wanted(walk, onward)
    walk.packet = msgspec.structs.replace(walk.packet, eth_dst=OUTSIDE_MAC)
    leave(walk, onward.network_id)
    walk.end_network_id = onward.network_id


def _check_wanted(walk: Walk, onward: Onward) -> None:
    """Whether the port that the request names may be reached by the outside, where the packet leaves to that."""
    network, wanted = walk.snapshot.networks[onward.network_id], walk.snapshot.ports.get(walk.towards)
    if not network.external:
        return
    if walk.packet.reply:
        _check_way_back(walk, network)
    if wanted is None or walk.packet.reply:
        return
    onward = Onward(network.id, walk.packet.destination)  # not the next hop
    router = _routed_from_outside(walk, onward)
    text = f"The packet leaves to the outside of {of_network(walk, network.id)}, and {of_port(wanted)} is"
    if router is None or _hides(walk, router, onward):
        text = f"{text} not reached by that: it is behind another router, or none."
        walk.drops("external", of_port(wanted), Cause.NOT_REACHED, text)
    text = f"{text} behind another router of it: whether the outside routes it there is not known."
    walk.doubts_host("beyond", of_port(wanted), Cause.NOT_REACHED, text)


def _check_way_back(walk: Walk, network: Network) -> None:
    """A reply for a port here that leaves to the outside: it returns if the outside routes it to the router of the port."""
    destination, is_ours = walk.packet.destination, bool(walk.before.sender_id)
    if is_ours and not any(contains(subnet.cidr, destination) for subnet in network.subnets):
        subject = of_network(walk, network.id)
        text = f"{destination} was not translated: whether the outside of {subject} routes it back is not known."
        walk.doubts_host("route-back", subject, Cause.NO_ROUTE_BACK, text)


def _hides(walk: Walk, router: TracedRouter, onward: Onward) -> bool:
    """Whether a router translates what is behind it, so that nothing of it is reached from outside by its own address."""
    base = router.router
    gateway = next(each for each in gateways_of(base) if each.network_id == onward.network_id)
    inside = next(each for each in base.interfaces if any(contains(a.cidr, onward.address) for a in each.addresses))
    shares_scope = scope(inside, 4) is not None and scope(inside, 4) == scope(gateway, 4)
    return walk.version == 4 and base.enable_snat and not shares_scope


def _move(walk: Walk, network_id: str, host: str, port: TracedPort | None) -> None:
    if walk.host:
        switch_to(walk, network_id, host, port)
    else:
        arrive(walk, network_id, host)


# --- into routers -----------------------------------------------------------------------------------------------------


def _to_router(walk: Walk, onward: Onward, port: TracedPort, router: TracedRouter) -> Onward | None:
    check_router(walk, router)
    interface = interface_of(router.router, port.id)
    if interface is None:
        text = f"Port {port.id} of {of_router(router)} forwards no packets."
        walk.drops("router", of_router(router), Cause.NO_ROUTE, text)
    is_gateway = interface in gateways_of(router.router)
    walk.packet = msgspec.structs.replace(walk.packet, eth_dst=interface.mac_address)
    part: Part
    if router.router.distributed and not is_gateway and interface in router.router.interfaces:
        part = local_part(walk, router, walk.host)
        subject = of_router(router)
        text = f"{subject.title} is distributed: packets are routed on host {walk.host}."
        walk.informs("dvr", subject, text, f"{subject.title} is distributed: packets are routed on the sender's host.")
    else:
        part = central_part(walk, router)
        _move(walk, onward.network_id, part.host, port)
    for addition in walk.snapshot.parts:
        addition.received_by_router(walk, onward.network_id)
    if is_gateway:
        return cross(walk, dataclasses.replace(part, came_by=interface), None)
    return cross(walk, part, interface)


def _routed_from_outside(walk: Walk, onward: Onward) -> TracedRouter | None:
    """The router on an external network that has a subnet with the address behind it."""
    for router in walk.snapshot.routers.values():
        if any(gateway.network_id == onward.network_id for gateway in gateways_of(router.router)):
            several = (address.cidr for interface in router.router.interfaces for address in interface.addresses)
            if any(contains(cidr, onward.address) for cidr in several):
                return router
    return None


def _to_fixed_address(walk: Walk, onward: Onward, router: TracedRouter) -> Onward | None:
    """From outside to a fixed address: it is routed there if the router does not hide it behind its own."""
    base, subject = router.router, of_router(router)
    gateway = next(each for each in gateways_of(base) if each.network_id == onward.network_id)
    if _hides(walk, router, onward):
        text = f"{onward.address} is behind {subject}, and no floating IP or port forwarding leads to it from outside."
        walk.drops("floating-ip", subject, Cause.NO_FLOATING_IP, text)
    check_router(walk, router)
    part = dataclasses.replace(central_part(walk, router), came_by=gateway)
    walk.packet = msgspec.structs.replace(walk.packet, eth_dst=gateway.mac_address)
    _move(walk, onward.network_id, part.host, walk.snapshot.ports.get(gateway.id))
    if walk.packet.reply and not _is_announced(router, onward.address):
        text = f"{onward.address} was not translated: whether the outside has a route to it by {subject} is not known."
        walk.doubts_host("route-back", subject, Cause.NO_ROUTE_BACK, text)
    return cross(walk, part, None)


def _is_announced(router: TracedRouter, address: str) -> bool:
    """Whether the router itself gives the outside the way to an address: by prefix delegation, NDP proxy or BGP."""
    base = router.router
    delegated = (delegation.prefix for delegation in base.delegations if delegation.prefix)
    proxied = base.enable_ndp_proxy and any(same(each.ip_address, address) for each in base.ndp_proxies)
    return proxied or any(contains(prefix, address) for prefix in (*delegated, *base.direct_prefixes))


def _floating_ip(walk: Walk, onward: Onward) -> TracedFloatingIp | None:
    for fip in walk.snapshot.floating_ips.values():
        if fip.floating_network_id == onward.network_id and same(fip.floating_ip_address, onward.address):
            return fip
    return None


def _to_floating_ip(walk: Walk, onward: Onward, fip: TracedFloatingIp) -> Onward | None:
    """A packet on an external network to a floating IP: the router that translates it answers for the address."""
    subject = Subject("floatingip", fip.id, fip.floating_ip_address, fip.project_id)
    router = walk.snapshot.routers.get(fip.router_id)
    if router is None:
        text = f"Floating IP {fip.floating_ip_address} is associated with no port and has no port forwardings."
        walk.drops("floating-ip", subject, Cause.NO_FLOATING_IP, text)
    check_router(walk, router)
    entry = next((floating_ip for floating_ip in router.router.floating_ips if floating_ip.id == fip.id), None)
    if entry is not None and is_local(walk, router, entry):
        part = local_part(walk, router, entry.host)
    else:
        part = central_part(walk, router).entered_by(fip.floating_network_id)
    gateway = part.entrance
    if gateway is not None:
        walk.packet = msgspec.structs.replace(walk.packet, eth_dst=gateway.mac_address)
    known = walk.snapshot.ports.get(gateway.id) if gateway is not None else None
    _move(walk, onward.network_id, part.host, known)
    if entry is None and not walk.packet.reply and not _forwarded(walk, part):
        if walk.packet.protocol in (ICMP, ICMPV6):
            text = f"Floating IP {fip.floating_ip_address} has port forwardings: {of_router(router)} answers itself."
            walk.passes("delivered", subject, text)
            walk.end_router_id = router.id
            return None
        text = f"Floating IP {fip.floating_ip_address} has no port forwarding for this protocol and port: "
        walk.drops("floating-ip", subject, Cause.NO_FLOATING_IP, f"{text}{of_router(router)} rejects it.")
    return cross(walk, part, None)


def _forwarded(walk: Walk, part: Part) -> bool:
    return any(is_forwarded(forwarding, walk.packet) for forwarding in part.forwardings)
