"""Floating IP pools: the IPv4 subnets of external networks that floating IPs come from."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.ml2.subnet_view import VIEW
from neutrino.server.query import Query

Object = dict[str, Any]
_s, _n = t.subnets.c, t.networks.c


def pools(connection: Connection, context: Context, query: Query) -> list[Object]:
    """Those of networks that the caller sees."""
    if query.marker is not None:  # they are one page, however small a page was asked for
        return []
    outside = _s.network_id.in_(sa.select(_n.id).where(_n.external))
    names = ("id", "name", "network_id", "cidr")
    asked = Query(fields=names, everyone=context.is_admin)
    rows = VIEW.many(connection, asked, context.project_id, _s.ip_version == 4, outside)
    return [
        {
            "subnet_id": row["id"],
            "subnet_name": row["name"],
            "network_id": row["network_id"],
            "cidr": row["cidr"],
            "project_id": context.project_id,
            "tenant_id": context.project_id,
        }
        for row in rows
    ]
