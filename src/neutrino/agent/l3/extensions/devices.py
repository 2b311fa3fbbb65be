"""A router's devices with their addresses, routes and sysctls.

A port on a subnet of the router is a device `qr-…` (in `snat-…` of a distributed router `sg-…`) with the addresses that
the subnet knows as its gateway. A gateway port is `qg-…`, with the router's own external addresses and those of its
floating IPs, for which the router must answer ARP. Packets between internal subnets are routed by the kernel by the
addresses alone; the default route leads out by `qg-…`.
"""

import ipaddress
from collections.abc import Iterator

from neutrino.agent.l3.devices import SYSCTLS, default_routes, numbered, render_device, render_plug
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.extensions import gateways
from neutrino.agent.l3.names import EXTERNAL, INTERNAL, device
from neutrino.agent.runtime.namespaces import LOOPBACK
from neutrino.dataplane.netlink.values import Address, Route, address, route


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


def _addresses(namespace: RouterNamespace) -> Iterator[Address]:
    for name, port in namespace.ports.items():
        # Without DAD: the address is in use at once, and the server assigns no address twice.
        yield from (address(name, each.prefixed, nodad=True) for each in port.addresses)
    for number, gateway in numbered(namespace.router).items() if namespace.gateways else ():
        if gateway.admin_state_up:
            own = {each.ip_address for each in gateway.addresses}
            others = sorted(gateways.external_addresses(namespace.router, number) - own)
            yield from (address(device(EXTERNAL, gateway.id), f"{other}/32") for other in others)


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
