"""A router's devices, addresses and routes: the namespace that it lives in.

An internal port is a device `qr-…` with the addresses that its subnets know as their gateway; the port to the world is
`qg-…`, with the router's own addresses outside, and those of its floating IPs, for which it must answer. Packets between
internal subnets are routed by the kernel from the addresses alone; the default route leads out.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator

from neutrino.agent.l3.names import EXTERNAL, HA, INTERNAL, device, plugged, router_namespace
from neutrino.agent.l3.options import L3Options
from neutrino.agent.l3.parts.delegation import client_addresses
from neutrino.agent.l3.parts.metadata import metadata_addresses
from neutrino.agent.namespaces import DesiredDevice, DesiredNamespace
from neutrino.dataplane.netlink.values import Address, Route, address, route
from neutrino.model.routing import Router, RouterInterface

MARK = "neutrino router"
LOOPBACK = DesiredDevice("lo")
SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    # Answer for addresses of the asked device only, and with the address that belongs to the device.
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
    # Router advertisements of others are for instances, not for a router; the gateway's device says otherwise below.
    "net/ipv6/conf/all/accept_ra": "0",
    "net/ipv6/conf/default/accept_ra": "0",
}


def render_namespace(router: Router, options: L3Options) -> DesiredNamespace:
    wanted = ports(router)
    active = router.ha is None
    return DesiredNamespace(
        name=router_namespace(router.id),
        devices=(LOOPBACK, *(render_device(name, interface, options) for name, interface in wanted.items())),
        addresses=frozenset(_addresses(router, options, active=active)),
        routes=frozenset(router_routes(router, options)) if active else frozenset(),
        sysctls={
            **SYSCTLS,
            **_listening(router, options),
            **({} if active else silent(name for name in wanted if not name.startswith(HA))),
        },
        device_prefixes=(INTERNAL, EXTERNAL, HA),
        others_addresses=frozenset() if active else frozenset(wanted),
    )


def silent(names: Iterable[str]) -> dict[str, str]:
    """A host that holds an HA router ready says nothing: its devices get no address until keepalived sets one.

    What keepalived sets is used at once: the host that had it before may not answer for it, but is not to be waited for.
    """
    return {
        f"net/ipv6/conf/{name}/{setting}": value
        for name in names
        for setting, value in (("addr_gen_mode", "1"), ("accept_dad", "0"))
    }


def ports(router: Router) -> dict[str, RouterInterface]:
    """The router's ports by the name of their device; one that is set down has none."""
    found = {device(INTERNAL, each.id): each for each in router.interfaces if each.admin_state_up}
    if router.gateway is not None and router.gateway.admin_state_up:
        found[device(EXTERNAL, router.gateway.id)] = router.gateway
    if router.ha is not None:
        found[device(HA, router.ha.interface.id)] = router.ha.interface
    return found


def render_device(name: str, interface: RouterInterface, options: L3Options) -> DesiredDevice:
    return DesiredDevice(
        name=name,
        peer=plugged(name) if options.veth else "",
        mac=interface.mac_address.lower(),
        mtu=interface.mtu,
        alias=f"{MARK} {interface.id}" if options.veth else "",
        # The switch in userspace drops what the kernel has left it to sum up.
        tx_checksum=False if options.veth else None,
    )


def _addresses(router: Router, options: L3Options, *, active: bool) -> Iterator[Address]:
    """Where keepalived decides who is active, it sets the addresses, but for that by which the hosts hear each other."""
    if router.ha is not None:
        name = device(HA, router.ha.interface.id)
        yield from (address(name, each.prefixed, nodad=True) for each in router.ha.interface.addresses)
    if active:
        yield from router_addresses(router)
        yield from metadata_addresses(router, options.metadata_port)


def router_addresses(router: Router) -> Iterator[Address]:
    """The addresses that make a host this router."""
    for interface in router.interfaces:
        if interface.admin_state_up:
            name = device(INTERNAL, interface.id)
            yield from (address(name, each.prefixed, nodad=True) for each in interface.addresses)
    if router.gateway is not None and router.gateway.admin_state_up:
        name = device(EXTERNAL, router.gateway.id)
        yield from (address(name, each.prefixed, nodad=True) for each in router.gateway.addresses)
        yield from (address(name, f"{each}/32") for each in outside_addresses(router))
        yield from client_addresses(router)


def outside_addresses(router: Router) -> list[str]:
    """Those of floating IPs and port forwardings: the world has to find them here."""
    own = {each.ip_address for each in router.gateway.addresses} if router.gateway is not None else set()
    floating = {each.floating_ip_address for each in router.floating_ips}
    forwarded = {each.external_ip_address for each in router.port_forwardings}
    return sorted((floating | forwarded) - own)


def router_routes(router: Router, options: L3Options) -> Iterator[Route]:
    """The ways out, further subnets outside, and what the router was told beyond."""
    yield from default_routes(router, options)
    for each in router.routes:
        yield route(str(ipaddress.ip_network(each.destination, strict=False)), via=each.nexthop)
    if router.gateway is not None and router.gateway.admin_state_up:
        name = device(EXTERNAL, router.gateway.id)
        yield from (route(cidr, name) for cidr in router.gateway.other_subnets)


def default_routes(router: Router, options: L3Options) -> Iterator[Route]:
    """One for each IP version that leads out: the first subnet outside that names a gateway."""
    gateway = router.gateway
    if gateway is None or not gateway.admin_state_up:
        return
    name = device(EXTERNAL, gateway.id)
    for version, everything in ((4, "0.0.0.0/0"), (6, "::/0")):
        known = [each for each in gateway.addresses if each.version == version]
        named = next((each for each in known if each.gateway_ip), None)
        if named is not None and named.gateway_ip is not None:
            outside = ipaddress.ip_address(named.gateway_ip) not in ipaddress.ip_network(named.cidr)
            link_local = ipaddress.ip_address(named.gateway_ip).is_link_local
            yield route(everything, name, named.gateway_ip, onlink=outside and not link_local)
        elif version == 6 and options.ipv6_gateway:
            yield route(everything, name, options.ipv6_gateway)


def _listening(router: Router, options: L3Options) -> dict[str, str]:
    """Without a next hop for IPv6, the gateway's device listens to what routers outside say."""
    if router.gateway is None:
        return {}
    name = device(EXTERNAL, router.gateway.id)
    told = any(each.version == 6 for each in default_routes(router, options))
    return {f"net/ipv6/conf/{name}/accept_ra": "0" if told or router.ha is not None else "2"}
