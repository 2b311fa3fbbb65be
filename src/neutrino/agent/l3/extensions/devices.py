"""A router's devices with their addresses, routes and sysctls.

A port on a subnet of the router is a device `qr-…` (in `snat-…` of a distributed router `sg-…`) with the addresses that
the subnet knows as its gateway. A gateway port is `qg-…`, with the router's own external addresses and those of its
floating IPs, for which the router must answer ARP. Packets between internal subnets are routed by the kernel by the
addresses alone; the default route leads out by `qg-…`.
"""

import ipaddress
from collections.abc import Iterator

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.extensions import gateways
from neutrino.agent.l3.names import AGENT_GATEWAY, EXTERNAL, INTERNAL, device, plugged
from neutrino.agent.runtime.namespaces import LOOPBACK, DesiredDevice, Plug
from neutrino.dataplane.netlink.values import Address, Route, address, route
from neutrino.model.routing import RouterInterface

ALIAS = "neutrino router"
SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv6/conf/all/forwarding": "1",
    # Answer ARP only for addresses of the device that was asked, and ask with an address of the device: with the
    # kernel's defaults one internal network would see the addresses of another.
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
}


class Devices(L3Extension):
    name = "devices"

    def render(self, namespace: RouterNamespace) -> Contribution:
        ports, options = namespace.ports, namespace.options
        return Contribution(
            devices=(LOOPBACK, *(render_device(name, port, options) for name, port in ports.items())),
            plugs=tuple(render_plug(name, port, options) for name, port in ports.items()),
            addresses=tuple(_addresses(namespace)),
            routes=tuple(_routes(namespace)),
            sysctls=SYSCTLS,
            device_prefixes=(INTERNAL, EXTERNAL),
        )


def render_device(name: str, port: RouterInterface, options: L3Options) -> DesiredDevice:
    return DesiredDevice(
        name=name,
        peer=plugged(name) if options.veth else "",
        mac=port.mac_address.lower(),
        mtu=port.mtu,
        alias=f"{ALIAS} {port.id}" if options.veth else "",
        # A userspace vswitchd does not fill in checksums that the kernel left to hardware: receivers drop the packets.
        tx_checksum=False if options.veth else None,
    )


def render_plug(name: str, port: RouterInterface, options: L3Options) -> Plug:
    return Plug(
        bridge=(name.startswith((EXTERNAL, AGENT_GATEWAY)) and options.external_network_bridge)
        or options.integration_bridge,
        name=plugged(name) if options.veth else name,
        port_id=port.id,
        mac=port.mac_address.lower(),
        internal=not options.veth,
    )


def _addresses(namespace: RouterNamespace) -> Iterator[Address]:
    for name, port in namespace.ports.items():
        # Without DAD: the address is in use at once, and the server assigns no address twice.
        yield from (address(name, each.prefixed, nodad=True) for each in port.addresses)
    for number, gateway in gateways.numbered(namespace.router).items() if namespace.gateways else ():
        if gateway.admin_state_up:
            own = {each.ip_address for each in gateway.addresses}
            others = sorted(gateways.external_addresses(namespace.router, number) - own)
            yield from (address(device(EXTERNAL, gateway.id), f"{each}/32") for each in others)


def _routes(namespace: RouterNamespace) -> Iterator[Route]:
    """Default routes, further subnets of the external network, and the router's extra routes."""
    router, ipv6_gateway = namespace.router, namespace.options.ipv6_gateway
    if router.extra_gateways and (router.enable_default_route_ecmp or namespace.lost_next_hops):
        yield from gateways.routes_over_all(namespace)
    else:
        yield from default_routes(namespace.outside, namespace.gateway, ipv6_gateway)
    for each in namespace.router.routes:
        yield route(str(ipaddress.ip_network(each.destination, strict=False)), via=each.nexthop)
    # Of two gateways on one network, one may have an address where the other has none: the kernel routes that subnet.
    connected = {each.cidr for port in namespace.gateways.values() for each in port.addresses}
    on_link = {
        cidr: name
        for name, port in reversed(list(namespace.gateways.items()))
        for cidr in port.other_subnets
        if cidr not in connected
    }
    yield from (route(cidr, name) for cidr, name in on_link.items())


def default_routes(name: str, gateway: RouterInterface | None, ipv6_gateway: str = "") -> Iterator[Route]:
    """One for each IP version, by device `name`: by the first external subnet that has a gateway address."""
    if gateway is None:
        return
    for destination, hop in gateways.next_hops(name, gateway, ipv6_gateway):
        yield route(destination, hop.device, hop.via, onlink=hop.onlink)
