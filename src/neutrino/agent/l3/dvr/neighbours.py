"""Permanent neighbour entries of a distributed router, from the ports that the server describes. Pure.

A router that is on many hosts cannot resolve addresses: the reply goes to the router of the host that answers. An
address is at, in this order:

1. the port that has it as a fixed IP and is bound to a host;
2. the MAC of the allowed address pairs that name it, of bound ports. Several ports may use it in turns, as with VRRP:
   then it is known only if all have the same MAC, which is then at whichever of them is active;
3. a port that has it as a fixed IP and is not bound, such as one that reserves it.

An address that several ports use in turns, each with its own MAC, is left to ARP, which finds those of this host.
"""

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from neutrino.agent.l3.names import INTERNAL, device
from neutrino.dataplane.netlink.values import Neighbour, neighbour
from neutrino.feed.state import StateChange
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router
from neutrino.model.state import Object

PORT = "dhcp_port"  # the feed's kind of ports on a network
_Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclasses.dataclass(frozen=True)
class _Link:
    device: str
    network_id: str
    subnet_id: str
    cidr: _Network


@dataclasses.dataclass
class _Claims:
    own: str = ""
    pairs: set[str] = dataclasses.field(default_factory=set)
    reserved: str = ""

    @property
    def mac(self) -> str:
        """Empty where it is not known."""
        # A fixed IP of a bound port wins over pairs: port security lets only that port use it.
        if self.own or not self.pairs:
            return self.own or self.reserved
        return next(iter(self.pairs)) if len(self.pairs) == 1 else ""


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


def render_neighbours(router: Router, ports: Mapping[str, Object]) -> Iterator[Neighbour]:
    links = [
        _Link(device(INTERNAL, interface.id), interface.network_id, each.subnet_id, ipaddress.ip_network(each.cidr))
        for interface in router.interfaces
        if interface.admin_state_up
        for each in interface.addresses
    ]
    by_subnet = {link.subnet_id: link for link in links}
    own = {interface.id for interface in router.interfaces}  # the router's own addresses are on its devices
    claims: dict[tuple[str, str], _Claims] = {}
    networks = {link.network_id for link in links}
    for port in list(ports.values()):  # a copy: the feed changes it while a worker thread renders
        if not isinstance(port, DhcpPort) or port.network_id not in networks or port.id in own:
            continue
        for fixed in port.fixed_ips:
            if fixed.subnet_id in by_subnet:
                claim = claims.setdefault((by_subnet[fixed.subnet_id].device, fixed.ip_address), _Claims())
                if is_reachable(port):
                    claim.own = claim.own or port.mac_address.lower()
                else:
                    claim.reserved = claim.reserved or port.mac_address.lower()
        for key, mac in _paired(port, links):
            claims.setdefault(key, _Claims()).pairs.add(mac)
    for (name, address), claim in claims.items():
        if claim.mac:
            yield neighbour(name, address, claim.mac)


def is_reachable(port: DhcpPort) -> bool:
    """Whether packets to its MAC reach somebody. A distributed router's port has no host, and is on every host."""
    return bool(port.host) or port.device_owner.startswith("network:")


def _paired(port: DhcpPort, links: Iterable[_Link]) -> Iterator[tuple[tuple[str, str], str]]:
    """Single addresses of a port's allowed address pairs, each on its link; pairs of whole prefixes are left out."""
    for pair in port.allowed_address_pairs if is_reachable(port) else ():
        prefix = ipaddress.ip_network(pair.ip_address, strict=False)
        if prefix.num_addresses == 1:
            address = prefix.network_address
            for link in links:
                if link.network_id == port.network_id and address in link.cidr:
                    yield (link.device, str(address)), pair.mac_address.lower()
