"""A packet between subnets of a VPN connection: encrypted, or dropped while there is no tunnel. Pure."""

from neutrino.model.trace import Cause
from neutrino.model.vpn import VpnConnection
from neutrino.server.trace.steps.parts import Part
from neutrino.server.trace.steps.walk import Subject, Walk, contains, of_router

_KIND = "ipsec_site_connection"


def find_connection(walk: Walk, part: Part) -> VpnConnection | None:
    """The connection whose subnets the packet is between."""
    packet, services = walk.packet, part.router.router.vpn_services
    for each in (connection for service in services for connection in service.connections):
        if any(contains(cidr, packet.source) for cidr in each.local_cidrs) and any(
            contains(cidr, packet.destination) for cidr in each.peer_cidrs
        ):
            return each
    return None


def enters_tunnel(walk: Walk, part: Part) -> bool:
    """Whether the router encrypts the packet: what follows is the peer's."""
    found = find_connection(walk, part)
    if found is None:
        return False
    subject, router = Subject(_KIND, found.id), of_router(part.router)
    if not found.admin_state_up:
        text = f"IPsec site connection {found.id} or its VPN service is disabled: {router} does not send it in clear."
        walk.drops("vpn", subject, Cause.VPN_DOWN, text)
    text = f"{router.title} encrypts it: IPsec site connection {found.id} to {found.peer_address}."
    walk.passes("vpn", subject, text, f"{router.title} encrypts it.")
    return True
