"""Reads the state of the whole service: a fixed number of queries, whatever the number of hosts and objects."""

import os
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.diagnosis.facts import (
    BINDING_FAILED,
    NAMED,
    AgentRow,
    Disk,
    Facts,
    NamedObject,
    ObjectsWithProblems,
    ProcessRow,
)
from neutrino.model.objects import Object
from neutrino.model.routing import ACTIVE
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.db.tables import (
    agents,
    change_head,
    changes,
    floatingips,
    network_dhcp_agents,
    networks,
    ports,
    router_l3_agents,
    router_ports,
    routers,
    server_processes,
    subnets,
)
from neutrino.server.hosts.registry import timestamp

ELECTION_SECONDS: Final = 60  # until an instance of a new HA router has to be active

Query = sa.Select[*tuple[object, ...]]
_PING = sa.select(sa.literal(1))
_VERSION = sa.text("SELECT version_num FROM alembic_version")
_HEAD = sa.select(change_head.c.position, change_head.c.removed).where(change_head.c.id == 1)
_PENDING = sa.select(sa.func.count()).select_from(changes).where(changes.c.position.is_(None))
_PROCESSES = sa.select(server_processes).order_by(
    server_processes.c.host, server_processes.c.kind, server_processes.c.pid
)
_AGENTS = sa.select(*(agents.c[field.name] for field in fields(AgentRow))).order_by(agents.c.host, agents.c.agent_type)
_PORTS = sa.select(ports.c.status, ports.c.vif_type, sa.func.count()).group_by(ports.c.status, ports.c.vif_type)
_NETWORKS = sa.select(networks.c.status, sa.func.count()).group_by(networks.c.status)
_SUBNETS = sa.select(sa.func.count()).select_from(subnets)
_FLOATING = sa.select(floatingips.c.status, sa.func.count()).group_by(floatingips.c.status)
_ROUTERS = sa.select(routers.c.status, routers.c.ha, routers.c.distributed, sa.func.count()).group_by(
    routers.c.status, routers.c.ha, routers.c.distributed
)

# --- objects with a problem -------------------------------------------------------------------------------------------


def _named(table: sa.Table, *more: sa.ColumnElement[object], name: str = "name") -> Query:
    return sa.select(table.c.id, table.c[name].label("name"), *more).order_by(table.c.id).limit(NAMED)


_serves_dhcp = sa.exists().where(subnets.c.network_id == networks.c.id, subnets.c.enable_dhcp)
_has_dhcp_agent = sa.exists().where(network_dhcp_agents.c.network_id == networks.c.id)
_has_ports = sa.exists().where(router_ports.c.router_id == routers.c.id)
_has_l3_agent = sa.exists().where(router_l3_agents.c.router_id == routers.c.id)
_instances = (
    sa.select(
        *(routers.c[name] for name in ("id", "name", "created_at", "updated_at")),
        sa.func.sum(sa.case((router_l3_agents.c.ha_state == ACTIVE, 1), else_=0)).label("active_instances"),
        sa.func.count(router_l3_agents.c.ha_state).label("reported"),
    )
    .join(router_l3_agents, router_l3_agents.c.router_id == routers.c.id)
    .where(routers.c.ha, routers.c.admin_state_up)
    .group_by(routers.c.id, routers.c.name, routers.c.created_at, routers.c.updated_at)
    .subquery()
)
_HA_STATES = sa.select(_instances.c.active_instances, sa.func.count()).group_by(_instances.c.active_instances)
_since: sa.BindParameter[str] = sa.bindparam("elected_since")
# Before its first election a router has no active instance: it is new, or became HA, and no host has reported a state.
_not_elected = sa.or_(
    _instances.c.created_at >= _since, sa.and_(_instances.c.reported == 0, _instances.c.updated_at >= _since)
)
_NAMED: Mapping[str, Query] = {
    "ports_with_failed_binding": _named(ports, ports.c.host).where(ports.c.vif_type == BINDING_FAILED),
    "ports_not_wired": _named(ports, ports.c.host).where(
        ports.c.status == "DOWN",
        ports.c.host != "",
        ports.c.vif_type != BINDING_FAILED,
        ports.c.admin_state_up,
        sa.not_(ports.c.device_owner.startswith("network:")),
    ),
    "ports_in_error": _named(ports, ports.c.host).where(ports.c.status == "ERROR"),
    "networks_without_dhcp": _named(networks).where(_serves_dhcp, sa.not_(_has_dhcp_agent)),
    "routers_not_scheduled": _named(routers).where(
        routers.c.admin_state_up,
        _has_ports,
        sa.not_(_has_l3_agent),
        # A distributed router without a gateway needs no L3 agent of its own: it is where its instances are.
        sa.or_(sa.not_(routers.c.distributed), routers.c.gw_port_id.is_not(None)),
    ),
    "ha_routers": sa.select(_instances.c.id, _instances.c.name, _instances.c.active_instances)
    .where(
        sa.or_(_instances.c.active_instances > 1, sa.and_(_instances.c.active_instances == 0, sa.not_(_not_elected)))
    )
    .order_by(_instances.c.id)
    .limit(NAMED),
    "routers_in_error": _named(routers).where(routers.c.status == "ERROR"),
    "floatingips_in_error": _named(floatingips, name="floating_ip_address").where(floatingips.c.status == "ERROR"),
}


def read(db: Database, now: float, down_time: float) -> Facts:
    """Read the facts. `down_time`: seconds without a report after which an agent is dead."""
    with db.read() as connection:
        # A connection that was idle is checked or opened by the first query, which is not measured.
        connection.execute(_PING).scalar()
        began = time.perf_counter()
        connection.execute(_PING).scalar()
        round_trip = time.perf_counter() - began
        head = connection.execute(_HEAD).first()
        processes = [dict(row) for row in connection.execute(_PROCESSES).mappings()]
        reports = [dict(row) for row in connection.execute(_AGENTS).mappings()]
        return Facts(
            now=now,
            down_time=down_time,
            dialect=db.dialect,
            server_version=".".join(map(str, connection.dialect.server_version_info or ())),
            round_trip=round_trip,
            schema=connection.execute(_VERSION).scalar(),
            schema_needed=schema.HEAD,
            position=head.position if head else 0,
            removed=head.removed if head else 0,
            pending=connection.execute(_PENDING).scalar() or 0,
            processes=[ProcessRow(**row | {"details": _decoded(row["details"])}) for row in processes],
            agents=[AgentRow(**row | {"configurations": _decoded(row["configurations"])}) for row in reports],
            ports=[(row[0], row[1], row[2]) for row in connection.execute(_PORTS)],
            networks=_counts(connection, _NETWORKS),
            subnets=connection.execute(_SUBNETS).scalar() or 0,
            routers=[(row[0], bool(row[1]), bool(row[2]), row[3]) for row in connection.execute(_ROUTERS)],
            ha_routers={int(row[0] or 0): row[1] for row in connection.execute(_HA_STATES)},
            floatingips=_counts(connection, _FLOATING),
            named=_objects_with_problems(connection, now),
            disk=_disk(db.url.database) if db.dialect == "sqlite" else None,
        )


def _objects_with_problems(connection: Connection, now: float) -> ObjectsWithProblems:
    parameters = {"elected_since": timestamp(now - ELECTION_SECONDS)}
    return ObjectsWithProblems(
        **{
            name: [NamedObject(**row) for row in connection.execute(query, parameters).mappings()]
            for name, query in _NAMED.items()
        }
    )


def _disk(path: str | None) -> Disk | None:
    try:
        status = os.statvfs(path or "")
    except OSError:  # in memory
        return None
    blocks = status.f_bavail if os.geteuid() else status.f_bfree
    return Disk(str(path), blocks * status.f_frsize, bool(status.f_flag & os.ST_RDONLY))


def _counts(connection: Connection, query: sa.Select[str, int]) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(query)}


def _decoded(text: str) -> Object:
    """Decode a JSON column; what is not an object, as from another program, counts as empty."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
