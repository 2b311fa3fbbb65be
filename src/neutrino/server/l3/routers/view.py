"""Views of routers.

The addresses of a gateway are read from its port, availability zones from the placements on agents, the status from both
(`l3/scheduling/candidates.py`). Each is one query for a list, however long.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.read_ahead import Read
from neutrino.server.db.tables import Json
from neutrino.server.db.view import Added, View
from neutrino.server.l3.scheduling.candidates import STATUS
from neutrino.server.scheduling.placements import ROUTERS as PLACEMENTS

Object = dict[str, Any]
_c, _p = t.routers.c, t.ports.c
_GATEWAY_IPS = sa.select(_p.fixed_ips).where(_p.id == _c.gw_port_id).scalar_subquery()
_COMPUTED: dict[str, sa.ColumnElement[Any]] = {
    "gateway_ips": sa.func.coalesce(_GATEWAY_IPS, sa.literal("[]"), type_=Json),
}
_INTERNAL = ("gw_port_id", "gw_network_id", "gw_qos_policy_id", "gateway_ips", "ha_network_id", "ha_vr_id")
_GATEWAY = {
    "network_id": "gw_network_id",
    "external_fixed_ips": "gateway_ips",
    "enable_snat": "enable_snat",
    "qos_policy_id": "gw_qos_policy_id",
}
# With all columns and the stored status: for updates.
VIEW = View(t.routers, computed=_COMPUTED, not_found=errors.RouterNotFound)
_STATUS = sa.select(STATUS).where(_c.id == sa.bindparam("router", type_=sa.String))


def status_of(connection: Connection, key: str) -> str:
    """The status as the API shows it."""
    return str(connection.execute(*reading_status(key)).scalar())


def reading_status(key: str) -> Read:
    """What `status_of` will read."""
    return Read(_STATUS, {"router": key})


def api_router(router: Object, gateway_ips: Sequence[Object], zones: Sequence[str], status: str) -> Object:
    """A router that was just written, as the API shows it."""
    return {
        **router,
        "status": status,
        "availability_zones": list(zones),
        "external_gateway_info": _gateway({**router, "gateway_ips": list(gateway_ips)}),
    }


def _gateway(router: Object) -> Object | None:
    if router["gw_network_id"] is None:
        return None
    shown = {name: router[column] for name, column in _GATEWAY.items()}
    if shown["qos_policy_id"] is None:  # as in Neutron, only a gateway that has a policy of its own shows one
        del shown["qos_policy_id"]
    return shown


# Not for writing: the status is computed on reading, and must not be stored.
ROUTERS = View(t.routers, computed={**_COMPUTED, "status": STATUS}, hidden=_INTERNAL).composed(
    {
        "external_gateway_info": Added(tuple(_GATEWAY.values()), lambda _, rows: map(_gateway, rows)),
        "availability_zones": Added(("id",), PLACEMENTS.zones),
    }
)
