"""How floating IPs are read. What is shown of the port behind one is the port's own, read with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.api.resources.floatingip import FLOATINGIP
from neutrino.server.api.stages.present import visible_names
from neutrino.server.db import tables as t
from neutrino.server.db.view import View
from neutrino.server.l3.composed_view import ComposedView

Object = dict[str, Any]
DETAILS = ("name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner")
BATCH = 500
_p, _f = t.ports.c, t.floatingips.c
_DETAILS = sa.select(_p.id, *(_p[name] for name in DETAILS)).where(_p.id.in_(sa.bindparam("ports", expanding=True)))
VIEW = View(
    t.floatingips,
    columns=(
        "id",
        "project_id",
        "floating_network_id",
        "floating_ip_address",
        "floating_port_id",
        "router_id",
        "port_id",
        "fixed_ip_address",
        "status",
        "dns_name",
        "dns_domain",
        "port_forwardings",
        "description",
        "created_at",
        "updated_at",
        "revision_number",
        "tags",
    ),
    computed={"qos_policy_id": sa.null()},
)


def load(connection: Connection, key: str) -> Object:
    found = VIEW.load(connection, key)
    if found is None:
        raise errors.FloatingIPNotFound(id=key)
    return found


def api_floating_ip(floating_ip: Object, port: Mapping[str, Any] | None) -> Object:
    """A floating IP that was just written, with the port behind it, as the API shows it."""
    details = None if port is None else {name: port[name] for name in DETAILS}
    return {**floating_ip, "tenant_id": floating_ip["project_id"], "qos_policy_id": None, "port_details": details}


def _needed(wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in [*wanted, "port_id"] if name in VIEW.fields))


def _finish(connection: Connection, rows: list[Object], wanted: Sequence[str]) -> None:
    if "port_details" in wanted:
        details = _details(connection, [row["port_id"] for row in rows if row["port_id"] is not None])
        for row in rows:
            row["port_details"] = details.get(row["port_id"])


def _details(connection: Connection, port_ids: Sequence[str]) -> dict[str, Object]:
    found: dict[str, Object] = {}
    for i in range(0, len(port_ids), BATCH):
        for row in connection.execute(_DETAILS, {"ports": list(port_ids[i : i + BATCH])}).mappings():
            found[row["id"]] = {name: row[name] for name in DETAILS}
    return found


FLOATING_IPS = ComposedView(VIEW, visible_names(FLOATINGIP), _needed, _finish)
