"""What becomes of floating IPs when their network goes, or becomes an internal one: those that nobody uses go with it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.db import tables as t
from neutrino.server.db.transaction import Transaction
from neutrino.server.l3.floating_ips import forget
from neutrino.server.ml2.networks import UnusedPorts

Object = dict[str, Any]
_f, _p = t.floatingips.c, t.ports.c


def unused_floating_ips(connection: Connection, network: Object) -> UnusedPorts | None:
    """Floating IPs of the network that are in front of nothing, and the ports that hold their addresses."""
    if not network["router:external"]:
        return None
    rows = connection.execute(
        sa.select(_f.id, _f.project_id, _f.revision_number, _f.floating_port_id).where(
            _f.floating_network_id == network["id"], _f.port_id.is_(None), _f.router_id.is_(None)
        )
    ).all()
    if not rows:
        return None
    ids = [row.floating_port_id for row in rows]
    ports = connection.execute(sa.select(_p.id, _p.project_id, _p.revision_number).where(_p.id.in_(ids))).all()

    def write(tx: Transaction) -> None:
        for row in rows:
            forget(tx, row._asdict())

    return UnusedPorts(ports, write)
