"""Views of routers.

The addresses of a gateway are read from its port, availability zones from the placements on agents, the status from both
(`l3/scheduling/candidates.py`). Each is one query for a list, however long.
"""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import RouterNotFound
from neutrino.features.router.scheduling.candidates import PLACEMENTS, STATUS
from neutrino.features.router.tables import router_ports, routers
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, scalar
from neutrino.server.db.sql import Expression
from neutrino.server.db.tables import Json
from neutrino.server.db.view import BATCH, Added, View

_GATEWAY_IPS = sa.select(t.ports.c.fixed_ips).where(t.ports.c.id == routers.c.gw_port_id).scalar_subquery()
_COMPUTED: dict[str, Expression] = {
    "gateway_ips": sa.func.coalesce(_GATEWAY_IPS, sa.literal("[]"), type_=Json),
}
_INTERNAL = (
    "gw_port_id",
    "extra_gw_port_ids",
    "gw_network_id",
    "gw_qos_policy_id",
    "gateway_ips",
    "ha_network_id",
    "ha_vr_id",
)
_GATEWAY = {
    "network_id": "gw_network_id",
    "external_fixed_ips": "gateway_ips",
    "enable_snat": "enable_snat",
    "qos_policy_id": "gw_qos_policy_id",
}
# With all columns and the stored status: for updates.
VIEW = View(routers, computed=_COMPUTED, not_found=RouterNotFound)
# Subnets, each with the router whose port has the address of its gateway.
GATEWAY_ROUTERS = (
    t.subnets.join(
        t.ip_allocations,
        sa.and_(
            t.ip_allocations.c.subnet_id == t.subnets.c.id, t.ip_allocations.c.ip_address == t.subnets.c.gateway_ip
        ),
    )
    .join(router_ports, router_ports.c.port_id == t.ip_allocations.c.port_id)
    .join(routers, routers.c.id == router_ports.c.router_id)
)
_PORTS = sa.select(t.ports.c.id, t.ports.c.network_id, t.ports.c.fixed_ips).where(
    t.ports.c.id.in_(sa.bindparam("ports", expanding=True))
)
STATUS_OF = Lookup(sa.select(STATUS).where(routers.c.id == sa.bindparam("router", type_=sa.String)), scalar)


def api_router(
    router: Object,
    gateway_ips: Sequence[Object],
    zones: Sequence[str],
    status: str,
    further: Sequence[Object] = (),
) -> Object:
    """A router that was just written, as the API shows it; `further`: its gateways but the first."""
    first = _gateway({**router, "gateway_ips": list(gateway_ips)})
    return {
        **router,
        "status": status,
        "availability_zones": list(zones),
        "external_gateway_info": first,
        "external_gateways": [*_shown_first(first), *further],
    }


def _gateway(router: Object) -> Object | None:
    if router["gw_network_id"] is None:
        return None
    shown = {name: router[column] for name, column in _GATEWAY.items()}
    if shown["qos_policy_id"] is None:  # as in Neutron, only a gateway that has a policy of its own shows one
        del shown["qos_policy_id"]
    return shown


def _shown_first(gateway: Object | None) -> list[Object]:
    """The first of `external_gateways`: as the others, without what is of the router or of `external_gateway_info`."""
    if gateway is None:
        return []
    return [{"network_id": gateway["network_id"], "external_fixed_ips": gateway["external_fixed_ips"]}]


def extra_gateways(connection: Connection, routers: Sequence[Object]) -> list[list[Object]]:
    """The gateways of each router but the first, in order. Most routers have none: then nothing is read."""
    ids = [_ids(router) for router in routers]
    wanted = sorted({port_id for several in ids for port_id in several})
    gateways: Object = {}
    for i in range(0, len(wanted), BATCH):
        for row in connection.execute(_PORTS, {"ports": wanted[i : i + BATCH]}):
            gateways[row.id] = {"network_id": row.network_id, "external_fixed_ips": msgspec.Raw(row.fixed_ips)}
    return [[gateways[port_id] for port_id in several if port_id in gateways] for several in ids]


def _ids(router: Object) -> list[str]:
    value = router["extra_gw_port_ids"]
    ids: list[str] = msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value
    return ids


def _external_gateways(connection: Connection, routers: Sequence[Object]) -> list[list[Object]]:
    further = extra_gateways(connection, routers)
    return [[*_shown_first(_gateway(r)), *more] for r, more in zip(routers, further, strict=True)]


# Not for writing: the status is computed on reading, and must not be stored.
ROUTERS = View(routers, computed={**_COMPUTED, "status": STATUS}, hidden=_INTERNAL).composed(
    {
        "external_gateway_info": Added(tuple(_GATEWAY.values()), lambda _, rows: map(_gateway, rows)),
        "external_gateways": Added((*_GATEWAY.values(), "extra_gw_port_ids"), _external_gateways),
        "availability_zones": Added(("id",), PLACEMENTS.zones),
    }
)
