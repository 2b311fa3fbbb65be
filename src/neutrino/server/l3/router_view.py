"""The views of routers.

The addresses of a gateway come from the gateway port, the availability zones from the agents that serve the router. Either
is one query per list, however long it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.tables import Json
from neutrino.server.db.view import Added, ComposedView, View
from neutrino.server.l3.scheduling.candidates import STATUS

Object = dict[str, Any]
_c, _p, _b, _a = t.routers.c, t.ports.c, t.router_l3_agents.c, t.agents.c
_GATEWAY_IPS = sa.func.coalesce(
    sa.select(_p.fixed_ips).where(_p.id == _c.gw_port_id).scalar_subquery(), sa.literal("[]"), type_=Json
)
BATCH = 500
_COMPUTED: dict[str, sa.ColumnElement[Any]] = {
    "enable_ndp_proxy": sa.literal(False, sa.Boolean),
    "gateway_ips": _GATEWAY_IPS,
}
_INTERNAL = ("gw_port_id", "gw_network_id", "gateway_ips", "ha_network_id", "ha_vr_id")
VIEW = View(t.routers, computed=_COMPUTED)
# Its status is computed on reading, so it must not be written back: see `hosting`.
_SHOWN = View(t.routers, computed={**_COMPUTED, "status": STATUS}, hidden=_INTERNAL)
_STATUS = sa.select(STATUS).where(_c.id == sa.bindparam("router", type_=sa.String))
_ZONES = (
    sa.select(_b.router_id, _a.availability_zone)
    .select_from(t.router_l3_agents.join(t.agents))
    .where(_a.availability_zone != "")
    .distinct()
)
_ZONES_OF = _ZONES.where(_b.router_id.in_(sa.bindparam("routers", expanding=True)))


def load(connection: Connection, key: str) -> Object:
    """The router with all columns, decoded."""
    found = VIEW.load(connection, key)
    if found is None:
        raise errors.RouterNotFound(id=key)
    return found


def status_of(connection: Connection, key: str) -> str:
    """The status as the API shows it."""
    return str(connection.execute(_STATUS, {"router": key}).scalar())


def api_router(router: Object, gateway_ips: Sequence[Object], zones: Sequence[str], status: str) -> Object:
    """A router that was just written, as the API shows it."""
    return {
        **router,
        "status": status,
        "tenant_id": router["project_id"],
        "enable_ndp_proxy": False,
        "availability_zones": list(zones),
        "external_gateway_info": None
        if router["gw_port_id"] is None
        else {
            "network_id": router["gw_network_id"],
            "external_fixed_ips": list(gateway_ips),
            "enable_snat": router["enable_snat"],
        },
    }


def zones_of(connection: Connection, router_ids: Sequence[str]) -> dict[str, list[str]]:
    """The availability zones of the agents of routers."""
    if len(router_ids) > BATCH:  # reading the whole table is cheaper than so many parameters
        rows = connection.execute(_ZONES).all()
    else:
        rows = connection.execute(_ZONES_OF, {"routers": list(router_ids)}).all() if router_ids else []
    out: dict[str, list[str]] = defaultdict(list)
    for router_id, zone in sorted(tuple(row) for row in rows):
        out[router_id].append(zone)
    return out


def _zones(connection: Connection, routers: Sequence[Object]) -> list[list[str]]:
    zones = zones_of(connection, [row["id"] for row in routers])
    return [zones.get(row["id"], []) for row in routers]


def _gateways(_: Connection, routers: Sequence[Object]) -> list[Object | None]:
    return [None if row["gw_network_id"] is None else _gateway(row) for row in routers]


def _gateway(row: Object) -> Object:
    addresses: msgspec.Raw = row["gateway_ips"]
    return {"network_id": row["gw_network_id"], "external_fixed_ips": addresses, "enable_snat": row["enable_snat"]}


ROUTERS = ComposedView(
    _SHOWN,
    {
        "external_gateway_info": Added(("gw_network_id", "enable_snat", "gateway_ips"), _gateways),
        "availability_zones": Added(("id",), _zones),
    },
)
