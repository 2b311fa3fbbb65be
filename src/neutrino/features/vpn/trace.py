"""VPN connections in a trace: a packet between their subnets is encrypted, or dropped while there is no tunnel."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.vpn.tables import ipsec_site_connections
from neutrino.model.trace import Cause
from neutrino.model.vpn import VpnConnection
from neutrino.server.feed.readers.rows import read_rows
from neutrino.server.trace.feature_part import Reached, Taken, TracePart
from neutrino.server.trace.steps.parts import Part
from neutrino.server.trace.steps.walk import Subject, Walk, contains, of_router
from neutrino.server.trace.values import Snapshot

_UP: Final = "ACTIVE"
_STATUSES = sa.select(ipsec_site_connections.c.id, ipsec_site_connections.c.status)


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


def _of_connection(connection: VpnConnection, part: Part) -> Subject:
    """With the project of the router: who owns that sees the step."""
    return Subject("ipsec_site_connection", connection.id, project_id=part.router.router.project_id)


@dataclass(frozen=True)
class TracedTunnels(TracePart):
    """The tunnels of the routers that a packet passes; routers have them in the snapshot, without their status."""

    statuses: Mapping[str, str] = field(default_factory=dict)  # as hosts have reported them, by connection

    def with_rules(self, connection: Connection, snapshot: Snapshot) -> "TracedTunnels":
        routers = (traced.router for traced in snapshot.routers.values())
        services = (service for router in routers for service in router.vpn_services)
        ids = sorted({each.id for service in services for each in service.connections})
        rows = read_rows(connection, _STATUSES, ipsec_site_connections.c.id, ids) if ids else ()
        return TracedTunnels({row.id: row.status for row in rows})

    def taken_by_router(self, walk: Walk, part: Part) -> Taken | None:
        """Whether the router encrypts the packet. The tunnel is up, or nothing is sent."""
        found = find_connection(walk, part)
        if found is None:
            return None
        subject, router = _of_connection(found, part), of_router(part.router)
        name = f"IPsec site connection {found.id}"
        if not found.admin_state_up:
            text = f"{name} or its VPN service is disabled: {router} does not send it in clear."
            walk.drops("vpn", subject, Cause.VPN_DOWN, text)
        status = self.statuses.get(found.id, _UP)
        if status != _UP:
            text = f"{name} to {found.peer_address} is {status}, it has no tunnel: {router} does not send it in clear."
            walk.drops("vpn", subject, Cause.VPN_DOWN, text)
        walk.passes("vpn", subject, f"{router.title} encrypts it: {name} to {found.peer_address}.")
        return Taken(found.peer_address, subject)

    def leaves_centrally(self, walk: Walk, part: Part) -> str:
        return "packets to VPN peers" if find_connection(walk, part) is not None else ""


def read_part(_connection: Connection, _reached: Reached) -> TracedTunnels:
    return TracedTunnels()
