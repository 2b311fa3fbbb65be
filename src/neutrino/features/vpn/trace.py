"""VPN connections in a trace: a packet between their subnets is encrypted, or dropped while there is no tunnel."""

from sqlalchemy.engine import Connection

from neutrino.model.trace import Cause
from neutrino.model.vpn import VpnConnection
from neutrino.server.trace.feature_part import Reached, TracePart
from neutrino.server.trace.steps.parts import Part
from neutrino.server.trace.steps.walk import Subject, Walk, contains, of_router


def find_connection(walk: Walk, part: Part) -> VpnConnection | None:
    """The connection whose subnets the packet is between; an enabled one, if there are several."""
    packet, services = walk.packet, part.router.router.vpn_services
    found = [
        connection
        for service in services
        for connection in service.connections
        if any(contains(cidr, packet.source) for cidr in connection.local_cidrs)
        and any(contains(cidr, packet.destination) for cidr in connection.peer_cidrs)
    ]
    return min(found, key=lambda each: not each.admin_state_up, default=None)


def _enters_tunnel(walk: Walk, part: Part) -> bool:
    """Whether the router encrypts the packet: what follows is the peer's."""
    found = find_connection(walk, part)
    if found is None:
        return False
    subject, router = _of_connection(found, part), of_router(part.router)
    if not found.admin_state_up:
        text = f"IPsec site connection {found.id} or its VPN service is disabled: {router} does not send it in clear."
        walk.drops("vpn", subject, Cause.VPN_DOWN, text)
    walk.passes(
        "vpn", subject, f"{router.title} encrypts it: IPsec site connection {found.id} to {found.peer_address}."
    )
    return True


def _of_connection(connection: VpnConnection, part: Part) -> Subject:
    """With the project of the router: who owns that sees the step."""
    return Subject("ipsec_site_connection", connection.id, project_id=part.router.router.project_id)


class TracedTunnels(TracePart):
    """The tunnels of the routers that a packet passes; routers have them in the snapshot."""

    def taken_by_router(self, walk: Walk, part: Part) -> bool:
        return _enters_tunnel(walk, part)

    def leaves_centrally(self, walk: Walk, part: Part) -> str:
        return "packets to VPN peers" if find_connection(walk, part) is not None else ""


def read_part(_connection: Connection, _reached: Reached) -> TracedTunnels:
    return TracedTunnels()
