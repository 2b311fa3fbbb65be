"""How floating IPs are read. What is shown of the port behind one is the port's own, read with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.api.resources.floatingip import FLOATINGIP
from neutrino.server.api.stages.present import visible_names
from neutrino.server.db import tables as t
from neutrino.server.db.view import View
from neutrino.server.query import Query

Object = dict[str, Any]
NAMES = visible_names(FLOATINGIP)
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


def many(connection: Connection, query: Query, project: str) -> list[Object]:
    wanted = NAMES if query.fields is None else query.fields
    rows = VIEW.many(connection, replace(query, fields=_columns(wanted)), project)
    return _finished(connection, rows, wanted)


def show(
    connection: Connection, key: str, *, project: str, everyone: bool, fields: Sequence[str] | None
) -> Object | None:
    wanted = NAMES if fields is None else fields
    row = VIEW.show(connection, key, project=project, everyone=everyone, fields=_columns(wanted))
    return None if row is None else _finished(connection, [row], wanted)[0]


def load(connection: Connection, key: str) -> Object:
    found = VIEW.load(connection, key)
    if found is None:
        raise errors.FloatingIPNotFound(id=key)
    return found


def api_floating_ip(floating_ip: Object, port: Mapping[str, Any] | None) -> Object:
    """A floating IP that was just written, with the port behind it, as the API shows it."""
    details = None if port is None else {name: port[name] for name in DETAILS}
    return {**floating_ip, "tenant_id": floating_ip["project_id"], "qos_policy_id": None, "port_details": details}


def _columns(wanted: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in [*wanted, "port_id"] if name in VIEW.fields))


def _finished(connection: Connection, rows: list[Object], wanted: Sequence[str]) -> list[Object]:
    if "port_details" in wanted:
        details = _details(connection, [row["port_id"] for row in rows if row["port_id"] is not None])
        for row in rows:
            row["port_details"] = details.get(row["port_id"])
    return [{name: row[name] for name in wanted if name in row} for row in rows]


def _details(connection: Connection, port_ids: Sequence[str]) -> dict[str, Object]:
    found: dict[str, Object] = {}
    for i in range(0, len(port_ids), BATCH):
        for row in connection.execute(_DETAILS, {"ports": list(port_ids[i : i + BATCH])}).mappings():
            found[row["id"]] = {name: row[name] for name in DETAILS}
    return found
