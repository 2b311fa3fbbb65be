"""Devices of a router's ports, and the next hops of its gateways: of its own namespaces, and of `fip-…`. Pure."""

import ipaddress
from collections.abc import Iterable, Iterator

from neutrino.agent.l3.config import L3Options
from neutrino.agent.l3.names import AGENT_GATEWAY, EXTERNAL, plugged
from neutrino.agent.runtime.namespaces import DesiredDevice, Plug
from neutrino.dataplane.netlink.values import NextHop, Route, route
from neutrino.model.routing import Router, RouterInterface

ALIAS = "neutrino router"
IPV6_FORWARDING = "net/ipv6/conf/all/forwarding"
SYSCTLS = {
    "net/ipv4/ip_forward": "1",
    IPV6_FORWARDING: "1",
    # Answer ARP only for addresses of the device that was asked, and ask with an address of the device: with the
    # kernel's defaults one internal network would see the addresses of another.
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
}


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


def numbered(router: Router) -> dict[int, RouterInterface]:
    """The gateways of a router by number: the first is 1."""
    first = (router.gateway,) if router.gateway is not None else ()
    return dict(enumerate((*first, *router.extra_gateways), start=1))


def default_routes(name: str, gateway: RouterInterface | None, ipv6_gateway: str = "") -> Iterator[Route]:
    """One for each IP version, by device `name`: by the first external subnet that has a gateway address."""
    if gateway is None:
        return
    for destination, hop in next_hops(name, gateway, ipv6_gateway):
        yield route(destination, hop.device, hop.via, onlink=hop.onlink)


def next_hops(name: str, gateway: RouterInterface, ipv6_gateway: str = "") -> Iterator[tuple[str, NextHop]]:
    """The next hop of each IP version, with its destination: of the first external subnet that has a gateway address."""
    for version, everything in ((4, "0.0.0.0/0"), (6, "::/0")):
        subnets = [address for address in gateway.addresses if address.version == version]
        found = next((subnet for subnet in subnets if subnet.gateway_ip), None)
        if found is not None and found.gateway_ip is not None:
            next_hop = ipaddress.ip_address(found.gateway_ip)
            # Every IPv6 device reaches link-local addresses; any other next hop outside of the subnet needs `onlink`.
            reached = next_hop in ipaddress.ip_network(found.cidr) or (version == 6 and next_hop.is_link_local)
            yield everything, NextHop(name, found.gateway_ip, not reached)
        elif version == 6 and ipv6_gateway:
            yield everything, NextHop(name, ipv6_gateway)


def asymmetric(devices: Iterable[str]) -> dict[str, str]:
    """Packets and their replies pass different hosts: no reverse-path filter, and no redirects to instances."""
    names = ("all", "default", *devices)
    return {f"net/ipv4/conf/{name}/{what}": "0" for name in names for what in ("rp_filter", "send_redirects")}
