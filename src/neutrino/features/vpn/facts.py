"""VPN connections that are down, in the status of the service."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.diagnosis.facts import NAMED, Facts
from neutrino.diagnosis.problems import WARNING, Finding, Problem
from neutrino.features.vpn.tables import ipsec_site_connections, vpnservices

VPN_DOWN: Final = Problem(
    "vpn-down",
    "The VPN connection to the destination has no tunnel, and nothing is sent in clear.",
    "openstack vpn ipsec site connection show has its status; the log of charon is on the gateway's host.",
)
_KIND = "ipsec_site_connection"
_DOWN = (
    sa.select(
        *(ipsec_site_connections.c[name] for name in ("id", "name", "status", "peer_address")), vpnservices.c.router_id
    )
    .join(vpnservices, vpnservices.c.id == ipsec_site_connections.c.vpnservice_id)
    .where(
        ipsec_site_connections.c.status.in_(("DOWN", "ERROR")),
        ipsec_site_connections.c.admin_state_up,
        vpnservices.c.admin_state_up,
    )
    .order_by(ipsec_site_connections.c.id)
    .limit(NAMED + 1)
)


def add_facts(connection: Connection, facts: Facts) -> Facts:
    return replace(facts, found=(*facts.found, *_findings(connection)))


def _findings(connection: Connection) -> Iterator[Finding]:
    """Warnings: the other site is a tenant's, and so may be the fault."""
    rows = connection.execute(_DOWN).all()
    for row in rows[:NAMED]:
        name = f"{row.name} ({row.id})" if row.name else row.id
        text = f"VPN connection {name} of router {row.router_id} to {row.peer_address}: its status is {row.status}"
        yield replace(VPN_DOWN(text, _KIND, row.id), severity=WARNING)
    if len(rows) > NAMED:
        yield replace(VPN_DOWN("more VPN connections are down", _KIND), severity=WARNING)
