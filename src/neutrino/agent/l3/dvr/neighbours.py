"""Who is where on the subnets of a distributed router, from what the server tells of their ports. Pure.

A router that is on many hosts cannot ask: the answer goes to the router of the host that answers. So all it needs to know
is told. An address is, in this order:

1. with the port that has it as its own and is bound to a host;
2. with the MAC of the address pairs that name it, of ports that are bound. Several ports may have it by turns, as with
   VRRP: then it is known only if they all use the same MAC, which is there on whichever of them is active;
3. with a port that has it as its own and is bound nowhere, such as one that will be.

An address that several ports have by turns, each with its own MAC, is left to be asked for: that finds those of this host.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Iterator

from neutrino.agent.l3.names import INTERNAL, device
from neutrino.dataplane.netlink.values import Neighbour, neighbour
from neutrino.model.dhcp import DhcpPort
from neutrino.model.routing import Router

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
        """Empty where nobody can tell."""
        if self.own or not self.pairs:
            return self.own or self.reserved
        return next(iter(self.pairs)) if len(self.pairs) == 1 else ""


def render_neighbours(router: Router, known: Iterable[DhcpPort]) -> Iterator[Neighbour]:
    links = [
        _Link(device(INTERNAL, interface.id), interface.network_id, each.subnet_id, ipaddress.ip_network(each.cidr))
        for interface in router.interfaces
        if interface.admin_state_up
        for each in interface.addresses
    ]
    by_subnet = {link.subnet_id: link for link in links}
    own = {interface.id for interface in router.interfaces}
    claims: dict[tuple[str, str], _Claims] = {}
    for port in known:
        if port.id in own:
            continue
        for fixed in port.fixed_ips:
            if fixed.subnet_id in by_subnet:
                claim = claims.setdefault((by_subnet[fixed.subnet_id].device, fixed.ip_address), _Claims())
                if is_somewhere(port):
                    claim.own = claim.own or port.mac_address.lower()
                else:
                    claim.reserved = claim.reserved or port.mac_address.lower()
        for key, mac in _paired(port, links):
            claims.setdefault(key, _Claims()).pairs.add(mac)
    for (name, address), claim in claims.items():
        if claim.mac:
            yield neighbour(name, address, claim.mac)


def is_somewhere(port: DhcpPort) -> bool:
    """Whether packets to its MAC reach anybody. A distributed router's port is bound nowhere, and on every host."""
    return bool(port.host) or port.device_owner.startswith("network:")


def _paired(port: DhcpPort, links: Iterable[_Link]) -> Iterator[tuple[tuple[str, str], str]]:
    """Addresses of a port's pairs, each on the link that it belongs to; a pair of a whole prefix names none."""
    for pair in port.allowed_address_pairs if is_somewhere(port) else ():
        prefix = ipaddress.ip_network(pair.ip_address, strict=False)
        if prefix.num_addresses == 1:
            address = prefix.network_address
            for link in links:
                if link.network_id == port.network_id and address in link.cidr:
                    yield (link.device, str(address)), pair.mac_address.lower()
