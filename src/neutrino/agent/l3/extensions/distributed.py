"""Routing of a distributed router on each host: how packets leave `qrouter-…`, and its neighbours. Pure.

It has no default route. After the main table, which has the router's own subnets, rules by source decide:

    57480   from a subnet to a VPN peer (`vpn`) → the subnet's own table, as below
    57481   from an address with a floating IP here → table 16, through rfp-… into `fip-…`
    ……      from a subnet that a BGP speaker announces → the same
    ……      from any other address of a subnet → the subnet's own table, to `snat-…` (its sg-… port)

Neighbours are permanent entries from the server's ports, never resolved: the router's ports are on many hosts, and an
ARP reply would go to the router of the host that answers. An address is at, in this order:

1. the port that has it as a fixed IP and is bound to a host;
2. the MAC of the allowed address pairs that name it, of bound ports. Several ports may use it in turns, as with VRRP:
   then it is known only if all have the same MAC, which is then at whichever of them is active;
3. a port that has it as a fixed IP and is not bound, such as one that reserves it.

An address that several ports use in turns, each with its own MAC, is left to ARP, which finds those of this host.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from neutrino.agent.l3.devices import asymmetric
from neutrino.agent.l3.extension_api import Contribution, L3Extension, RouterNamespace
from neutrino.agent.l3.names import INTERNAL, SNAT_PORT, TO_FIP, TO_ROUTER, device, fip_namespace
from neutrino.agent.runtime.namespaces import DesiredDevice
from neutrino.dataplane.netlink.values import Neighbour, address, neighbour, route, rule
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router, RouterAddress, RouterInterface

PORT = "dhcp_port"  # the feed's kind of ports on a network
FLOATING_TABLE = 16
FLOATING_PRIORITY = 57481
_FIRST_FREE = 1 << 15  # lower tables and priorities are used by others, as 32766 for the main table
_OWN, _PAIRED, _RESERVED = 1, 2, 3  # claims to an address, as in the list above


class DistributedRouting(L3Extension):
    name = "distributed routing"
    kinds = frozenset({PORT})

    def render(self, namespace: RouterNamespace) -> Contribution:
        if not namespace.whole.distributed:
            return Contribution()
        if namespace.kind == "snat":
            # A packet comes from an instance by sg-…, and its reply leaves to the instance's subnet directly.
            names = ("all", "default", *namespace.inside)
            sysctls = {f"net/ipv4/conf/{name}/rp_filter": "0" for name in names}
            return Contribution(sysctls=sysctls, device_prefixes=(SNAT_PORT,))
        # The main table has the router's own subnets and comes first, so only packets to the outside reach these.
        routes, rules, has_link = [], [], namespace.link is not None
        for interface, own, central in by_snat(namespace.whole):
            table, everything = snat_table(own.cidr), "0.0.0.0/0" if own.version == 4 else "::/0"
            routes.append(route(everything, device(INTERNAL, interface.id), central.ip_address, table=table))
            # Rules of floating IPs come first, whatever the subnet.
            chosen = FLOATING_TABLE if has_link and own.cidr in namespace.whole.direct_prefixes else table
            rules.append(rule(max(table, FLOATING_PRIORITY + 1), source=own.cidr, table=chosen))
        devices, addresses = [], []
        outside, gateway = namespace.outside, namespace.whole.agent_gateway
        if namespace.link is not None and gateway is not None:
            peer, fip = device(TO_ROUTER, namespace.whole.id), fip_namespace(gateway.network_id)
            devices.append(DesiredDevice(outside, peer=peer, peer_namespace=fip, mtu=gateway.mtu))
            addresses.append(address(outside, f"{namespace.link[0]}/31"))
            routes.append(route("0.0.0.0/0", outside, namespace.link[1], table=FLOATING_TABLE))
            for floating_ip in namespace.router.floating_ips:
                rules.append(rule(FLOATING_PRIORITY, source=f"{floating_ip.fixed_ip_address}/32", table=FLOATING_TABLE))
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
        """Those whose neighbours a port's change affects: with an interface on its network."""
        if _location(change.old) == _location(change.new):  # a name or status changes no neighbour
            return
        networks = {each.network_id for each in (change.old, change.new) if each is not None}
        for router in routers:
            if router.distributed and any(interface.network_id in networks for interface in router.interfaces):
                yield router.id


def snat_table(cidr: str) -> int:
    """The number of a subnet's own table, which is also the priority of its rule: unique within a router."""
    network = ip_network(cidr)
    if network.version == 4:
        return max(int(network.network_address), _FIRST_FREE + 1)
    return _FIRST_FREE | zlib.crc32(str(network).encode()) | 1 << 31


def by_snat(router: Router) -> Iterator[tuple[RouterInterface, RouterAddress, RouterAddress]]:
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


# --- neighbours -------------------------------------------------------------------------------------------------------


def _location(port: DhcpPort | None) -> object:
    if port is None:
        return None
    return port.network_id, port.mac_address, port.fixed_ips, port.allowed_address_pairs, is_reachable(port)


def is_reachable(port: DhcpPort) -> bool:
    """Whether some host receives packets to its MAC. A distributed router's port has no host, and is on every host."""
    return bool(port.host) or port.device_owner.startswith("network:")


class _Link(NamedTuple):
    device: str
    network_id: str
    subnet_id: str
    cidr: IPv4Network | IPv6Network


def render_neighbours(router: Router, ports: Mapping[str, DhcpPort]) -> Iterator[Neighbour]:
    links = [
        _Link(device(INTERNAL, interface.id), interface.network_id, each.subnet_id, ip_network(each.cidr))
        for interface in router.interfaces
        if interface.admin_state_up
        for each in interface.addresses
    ]
    own = {interface.id for interface in router.interfaces}  # the router's own addresses are on its devices
    networks = {link.network_id for link in links}
    subnets = {link.subnet_id: link.device for link in links}
    claims: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)  # device, address → claim, MAC
    for port in list(ports.values()):  # a copy: the feed changes it while a worker thread renders
        if port.network_id not in networks or port.id in own:
            continue
        claim = _OWN if is_reachable(port) else _RESERVED
        for fixed in port.fixed_ips:
            if fixed.subnet_id in subnets:
                claims[subnets[fixed.subnet_id], fixed.ip_address].append((claim, port.mac_address.lower()))
        for key, mac in _paired(port, links):
            claims[key].append((_PAIRED, mac))
    for (name, ip), several in claims.items():
        best, mac = min(several, key=lambda each: each[0])
        # Port security lets only one port use a fixed IP; addresses of pairs may be at several MACs.
        if best != _PAIRED or {mac} == {other for claim, other in several if claim == _PAIRED}:
            yield neighbour(name, ip, mac)


def _paired(port: DhcpPort, links: Iterable[_Link]) -> Iterator[tuple[tuple[str, str], str]]:
    """Single addresses of a port's allowed address pairs, each on its link; pairs of whole prefixes are left out."""
    for pair in port.allowed_address_pairs if is_reachable(port) else ():
        prefix = ip_network(pair.ip_address, strict=False)
        if prefix.num_addresses == 1:  # a prefix may be huge, and names no single neighbour
            for link in links:
                if link.network_id == port.network_id and prefix.network_address in link.cidr:
                    yield (link.device, str(prefix.network_address)), pair.mac_address.lower()
