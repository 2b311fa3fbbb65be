"""Policy routing of a distributed router: how packets leave `qrouter-…` on each host.

It has no default route. After the main table, which has the router's own subnets, rules by source decide:

    57481   from an address with a floating IP here → table 16, through rfp-… into `fip-…`
    ……      from any other address of a subnet → the subnet's own table, to `snat-…` (its sg-… port)

Neighbours are permanent entries from the server's ports, never resolved: the router's ports are on many hosts, and an
ARP reply would go to the router of the host that answers.
"""

import zlib
from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from neutrino.agent.l3.dvr.neighbours import PORT, render_neighbours, routers_on_network
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import INTERNAL, SNAT_PORT, TO_FIP, TO_ROUTER, device, fip_namespace
from neutrino.agent.namespaces import DesiredDevice
from neutrino.dataplane.netlink.values import address, route, rule
from neutrino.feed.state import StateChange
from neutrino.model.routing import Router, RouterAddress, RouterInterface

FLOATING_TABLE = 16
FLOATING_PRIORITY = 57481
_FIRST_FREE = 1 << 15  # lower tables and priorities are used by others


class DistributedRouting(L3Extension):
    name = "distributed routing"
    kinds = frozenset({PORT})

    def render(self, namespace: RouterNamespace) -> Contribution:
        if not namespace.whole.distributed:
            return Contribution()
        if namespace.kind == "snat":
            # A packet comes from an instance by sg-…, and its reply leaves to the instance's subnet directly.
            names = ("all", "default", *namespace.inside)
            sysctls = {f"net/ipv4/conf/{each}/rp_filter": "0" for each in names}
            return Contribution(sysctls=sysctls, device_prefixes=(SNAT_PORT,))
        # The main table has the router's own subnets and comes first, so only packets to the outside reach these.
        routes, rules = [], []
        for interface, own, central in _by_snat(namespace.whole):
            table, everything = snat_table(own.cidr), "0.0.0.0/0" if own.version == 4 else "::/0"
            routes.append(route(everything, device(INTERNAL, interface.id), central.ip_address, table=table))
            # Rules of floating IPs come first, whatever the subnet.
            rules.append(rule(max(table, FLOATING_PRIORITY + 1), source=own.cidr, table=table))
        devices, addresses = [], []
        outside, gateway = namespace.outside, namespace.whole.agent_gateway
        if namespace.link is not None and gateway is not None:
            peer, fip = device(TO_ROUTER, namespace.whole.id), fip_namespace(gateway.network_id)
            devices.append(DesiredDevice(outside, peer=peer, peer_namespace=fip, mtu=gateway.mtu))
            addresses.append(address(outside, f"{namespace.link[0]}/31"))
            routes.append(route("0.0.0.0/0", outside, namespace.link[1], table=FLOATING_TABLE))
            for each in namespace.router.floating_ips:
                rules.append(rule(FLOATING_PRIORITY, source=f"{each.fixed_ip_address}/32", table=FLOATING_TABLE))
        return Contribution(
            devices=tuple(devices),
            addresses=tuple(addresses),
            routes=tuple(routes),
            rules=tuple(rules),
            neighbours=tuple(render_neighbours(namespace.whole, namespace.objects.get(PORT, {}))),
            sysctls=asymmetric((*namespace.inside, *((outside,) if devices else ()))),
            device_prefixes=(TO_FIP,),
        )

    def routers_affected(self, change: StateChange, routers: Iterable[Router]) -> Iterator[str]:
        return routers_on_network(change, routers)


def asymmetric(devices: Iterable[str]) -> dict[str, str]:
    """Packets and their replies pass different hosts: no reverse-path filter, and no redirects to instances."""
    names = ("all", "default", *devices)
    return {f"net/ipv4/conf/{name}/{what}": "0" for name in names for what in ("rp_filter", "send_redirects")}


def snat_table(cidr: str) -> int:
    """The number of a subnet's own table, which is also the priority of its rule: unique within a router."""
    network = ip_network(cidr)
    if network.version == 4:
        return max(int(network.network_address), _FIRST_FREE + 1)
    return _FIRST_FREE | zlib.crc32(str(network).encode()) | 1 << 31


def _by_snat(router: Router) -> Iterator[tuple[RouterInterface, RouterAddress, RouterAddress]]:
    """An interface, its address, and the address of `snat-…` on the same subnet."""
    if router.gateway is None:
        return
    # Without an external address of a version, packets of that version have nowhere to go.
    outward = {each.version for each in router.gateway.addresses}
    central = {each.subnet_id: each for port in router.snat_interfaces for each in port.addresses}
    for interface in router.interfaces:
        for each in interface.addresses if interface.admin_state_up else ():
            if each.subnet_id in central and each.version in outward:
                yield interface, each, central[each.subnet_id]
