"""Which router leads from a port's subnet to an external network."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.l3.device_owners import INTERFACES

_rp, _a, _r, _s = t.router_ports.c, t.ip_allocations.c, t.routers.c, t.subnets.c
_WAYS = (
    sa.select(_r.id, _r.revision_number, _r.distributed, _a.ip_address, _s.gateway_ip)
    .select_from(
        t.router_ports.join(t.ip_allocations, _a.port_id == _rp.port_id)
        .join(t.routers, _r.id == _rp.router_id)
        .join(t.subnets, _s.id == _a.subnet_id)
    )
    .where(
        _a.subnet_id == sa.bindparam("subnet"),
        _r.gw_network_id == sa.bindparam("outside"),
        _rp.port_type.in_(INTERFACES),
    )
    .order_by(_r.id)
)


@dataclass(frozen=True, slots=True)
class Way:
    """A router on the way, and its revision when it was found: what depends on the way passes it."""

    router_id: str
    revision: int
    distributed: bool


def find_way(connection: Connection, subnet_id: str, external_network_id: str, port_id: str) -> Way:
    """The router whose interface is the subnet's gateway, or else any."""
    rows = connection.execute(_WAYS, {"subnet": subnet_id, "outside": external_network_id}).all()
    if not rows:
        raise errors.ExternalGatewayForFloatingIPNotFound(
            subnet_id=subnet_id, external_network_id=external_network_id, port_id=port_id
        )
    row = next((row for row in rows if row.ip_address == row.gateway_ip), rows[0])
    return Way(row.id, row.revision_number, bool(row.distributed))
