"""Permanent neighbour entries of a distributed router, from the ports that the server describes. Pure.

A router that is on many hosts cannot resolve addresses: the reply goes to the router of the host that answers. An
address is at, in this order:

1. the port that has it as a fixed IP and is bound to a host;
2. the MAC of the allowed address pairs that name it, of bound ports. Several ports may use it in turns, as with VRRP:
   then it is known only if all have the same MAC, which is then at whichever of them is active;
3. a port that has it as a fixed IP and is not bound, such as one that reserves it.

An address that several ports use in turns, each with its own MAC, is left to ARP, which finds those of this host.
"""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from neutrino.agent.l3.names import INTERNAL, device
from neutrino.dataplane.netlink.values import Neighbour, neighbour
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import Object

PORT = "dhcp_port"  # the feed's kind of ports on a network
_OWN, _PAIRED, _RESERVED = 1, 2, 3  # claims to an address, as in the list above


class _Link(NamedTuple):
    device: str
    network_id: str
    subnet_id: str
    cidr: ipaddress.IPv4Network | ipaddress.IPv6Network


def routers_on_network(change: StateChange, routers: Iterable[Router]) -> Iterator[str]:
    """The distributed routers whose neighbours a port's change affects: those with an interface on its network."""
    if _location(change.old) == _location(change.new):
        return
    networks = {each.network_id for each in (change.old, change.new) if isinstance(each, DhcpPort)}
    for router in routers:
        if router.distributed and any(interface.network_id in networks for interface in router.interfaces):
            yield router.id


def _location(port: Object | None) -> object:
    if not isinstance(port, DhcpPort):
        return None
    return port.network_id, port.mac_address, port.fixed_ips, port.allowed_address_pairs, is_reachable(port)


def is_reachable(port: DhcpPort) -> bool:
    """Whether packets to its MAC reach somebody. A distributed router's port has no host, and is on every host."""
    return bool(port.host) or port.device_owner.startswith("network:")


def render_neighbours(router: Router, ports: Mapping[str, Object]) -> Iterator[Neighbour]:
    links = [
        _Link(device(INTERNAL, interface.id), interface.network_id, each.subnet_id, ipaddress.ip_network(each.cidr))
        for interface in router.interfaces
        if interface.admin_state_up
        for each in interface.addresses
    ]
    own = {interface.id for interface in router.interfaces}  # the router's own addresses are on its devices
    networks = {link.network_id for link in links}
    subnets = {link.subnet_id: link.device for link in links}
    claims: defaultdict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)  # device, address → claim, MAC
    for port in list(ports.values()):  # a copy: the feed changes it while a worker thread renders
        if not isinstance(port, DhcpPort) or port.network_id not in networks or port.id in own:
            continue
        claim = _OWN if is_reachable(port) else _RESERVED
        for fixed in port.fixed_ips:
            if fixed.subnet_id in subnets:
                claims[subnets[fixed.subnet_id], fixed.ip_address].append((claim, port.mac_address.lower()))
        for key, mac in _paired(port, links):
            claims[key].append((_PAIRED, mac))
    for (name, address), several in claims.items():
        best, mac = min(several, key=lambda each: each[0])
        # Port security lets only one port use a fixed IP; addresses of pairs may be at several MACs.
        if best != _PAIRED or {mac} == {other for claim, other in several if claim == _PAIRED}:
            yield neighbour(name, address, mac)


def _paired(port: DhcpPort, links: Iterable[_Link]) -> Iterator[tuple[tuple[str, str], str]]:
    """Single addresses of a port's allowed address pairs, each on its link; pairs of whole prefixes are left out."""
    for pair in port.allowed_address_pairs if is_reachable(port) else ():
        prefix = ipaddress.ip_network(pair.ip_address, strict=False)
        if prefix.num_addresses == 1:
            address = prefix.network_address
            for link in links:
                if link.network_id == port.network_id and address in link.cidr:
                    yield (link.device, str(address)), pair.mac_address.lower()
