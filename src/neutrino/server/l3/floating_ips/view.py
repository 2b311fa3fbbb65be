"""Views of floating IPs. `port_details` is read from the row of the associated port."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.view import Added, View

Object = dict[str, Any]
DETAILS = ("name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner")
BATCH = 500
_p, _f = t.ports.c, t.floatingips.c
_DETAILS = sa.select(_p.id, *(_p[name] for name in DETAILS)).where(_p.id.in_(sa.bindparam("ports", expanding=True)))
VIEW = View(t.floatingips, computed={"qos_policy_id": sa.null()}, hidden=("name",))


def load(connection: Connection, key: str) -> Object:
    found = VIEW.load(connection, key)
    if found is None:
        raise errors.FloatingIPNotFound(id=key)
    return found


def api_floating_ip(floating_ip: Object, port: Mapping[str, Any] | None) -> Object:
    """A floating IP that was just written, with its associated port, as the API shows it."""
    details = None if port is None else {name: port[name] for name in DETAILS}
    return {**floating_ip, "tenant_id": floating_ip["project_id"], "qos_policy_id": None, "port_details": details}


def _port_details(connection: Connection, floating_ips: Sequence[Object]) -> list[Object | None]:
    port_ids = [row["port_id"] for row in floating_ips if row["port_id"] is not None]
    found: dict[str, Object] = {}
    for i in range(0, len(port_ids), BATCH):
        for row in connection.execute(_DETAILS, {"ports": port_ids[i : i + BATCH]}).mappings():
            found[row["id"]] = {name: row[name] for name in DETAILS}
    return [found.get(row["port_id"]) for row in floating_ips]


FLOATING_IPS = View(t.floatingips, computed={"qos_policy_id": sa.null()}, hidden=("name", "floating_port_id")).composed(
    {"port_details": Added(("port_id",), _port_details)}
)
