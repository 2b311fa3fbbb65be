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
from neutrino.model.agents import AGENT_TYPES
from neutrino.model.objects import Object
from neutrino.server import features
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.db.tables import (
    agents,
    change_head,
    changes,
    network_dhcp_agents,
    networks,
    ports,
    server_processes,
    subnets,
)
from neutrino.server.hosts.serving import disabled_agents_serve
from neutrino.server.status.processes import has_ended

Query = sa.Select[*tuple[object, ...]]
_PING = sa.select(sa.literal(1))
_VERSION = sa.text("SELECT version_num FROM alembic_version")
_HEAD = sa.select(change_head.c.position, change_head.c.removed).where(change_head.c.id == 1)
_PENDING = sa.select(sa.func.count()).select_from(changes).where(changes.c.position.is_(None))
_PROCESSES = sa.select(server_processes).order_by(
    server_processes.c.host, server_processes.c.kind, server_processes.c.pid
)
# Of hosts with roles of ours: bare-metal nodes are agents too, and no hosts of a feed.
_AGENTS = (
    sa.select(*(agents.c[field.name] for field in fields(AgentRow)))
    .where(agents.c.agent_type.in_(AGENT_TYPES))
    .order_by(agents.c.host, agents.c.agent_type)
)
_PORTS = sa.select(ports.c.status, ports.c.vif_type, sa.func.count()).group_by(ports.c.status, ports.c.vif_type)
_NETWORKS = sa.select(networks.c.status, sa.func.count()).group_by(networks.c.status)
_SUBNETS = sa.select(sa.func.count()).select_from(subnets)

# --- objects with a problem -------------------------------------------------------------------------------------------


MOST: Final[sa.BindParameter[int]] = sa.bindparam("most", NAMED, type_=sa.Integer)  # the limit of these queries


def named(table: sa.Table, *more: sa.ColumnElement[object], name: str = "name") -> Query:
    return sa.select(table.c.id, table.c[name].label("name"), *more).order_by(table.c.id).limit(MOST)


_serves_dhcp = sa.exists().where(subnets.c.network_id == networks.c.id, subnets.c.enable_dhcp)
_has_dhcp_agent = sa.exists().where(network_dhcp_agents.c.network_id == networks.c.id)
_has_enabled_dhcp_agent = sa.exists().where(
    network_dhcp_agents.c.network_id == networks.c.id,
    network_dhcp_agents.c.agent_id == agents.c.id,
    agents.c.admin_state_up,
)
_NAMED: Mapping[str, Query] = {
    "ports_with_failed_binding": named(ports, ports.c.host).where(ports.c.vif_type == BINDING_FAILED),
    "ports_not_wired": named(ports, ports.c.host).where(
        ports.c.status == "DOWN",
        ports.c.host != "",
        ports.c.vif_type != BINDING_FAILED,
        ports.c.admin_state_up,
        sa.not_(ports.c.device_owner.startswith("network:")),
    ),
    "ports_in_error": named(ports, ports.c.host).where(ports.c.status == "ERROR"),
    "networks_without_dhcp": named(networks).where(_serves_dhcp, sa.not_(_has_dhcp_agent)),
    "networks_of_disabled_agents": named(networks).where(
        _serves_dhcp, _has_dhcp_agent, sa.not_(_has_enabled_dhcp_agent)
    ),
}


def read(db: Database, now: float, down_time: float, most: int = NAMED) -> Facts:
    """Read the facts, with at most so many objects of a problem. `down_time`: seconds without a report after which an
    agent is dead.
    """
    with db.read() as connection:
        # A connection that was idle is checked or opened by the first query, which is not measured.
        connection.execute(_PING).scalar()
        began = time.perf_counter()
        connection.execute(_PING).scalar()
        round_trip = time.perf_counter() - began
        head = connection.execute(_HEAD).first()
        processes = [dict(row) for row in connection.execute(_PROCESSES).mappings()]
        reports = [dict(row) for row in connection.execute(_AGENTS).mappings()]
        facts = Facts(
            now=now,
            down_time=down_time,
            most=most,
            dialect=db.dialect,
            server_version=".".join(map(str, connection.dialect.server_version_info or ())),
            round_trip=round_trip,
            schema=connection.execute(_VERSION).scalar(),
            schema_needed=schema.HEAD,
            position=head.position if head else 0,
            removed=head.removed if head else 0,
            pending=connection.execute(_PENDING).scalar() or 0,
            processes=[_process(row) for row in processes],
            agents=[AgentRow(**row | {"configurations": _decoded(row["configurations"])}) for row in reports],
            ports=[(row[0], row[1], row[2]) for row in connection.execute(_PORTS)],
            networks=counts(connection, _NETWORKS),
            subnets=connection.execute(_SUBNETS).scalar() or 0,
            named=ObjectsWithProblems(**objects(connection, _NAMED, most=most)),
            disk=_disk(db.url.database) if db.dialect == "sqlite" else None,
        )
        for add in (feature.facts for feature in features.installed() if feature.facts is not None):
            facts = add(connection, facts)
        return facts


def _process(row: Object) -> ProcessRow:
    details = _decoded(row["details"])
    return ProcessRow(**row | {"details": details}, ended=has_ended(row["pid"], details))


def objects(
    connection: Connection, queries: Mapping[str, Query], **parameters: str | int
) -> dict[str, list[NamedObject]]:
    """The objects with a problem, by problem."""
    asked = {problem: query for problem, query in queries.items() if not problem.endswith("_of_disabled_agents")}
    return {
        problem: [NamedObject(**row) for row in connection.execute(query, parameters).mappings()]
        for problem, query in (asked if disabled_agents_serve(connection) else queries).items()
    }


def _disk(path: str | None) -> Disk | None:
    try:
        status = os.statvfs(path or "")
    except OSError:  # in memory
        return None
    blocks = status.f_bavail if os.geteuid() else status.f_bfree
    return Disk(str(path), blocks * status.f_frsize, bool(status.f_flag & os.ST_RDONLY))


def counts(
    connection: Connection, query: sa.Select[str, int], parameters: Mapping[str, str] | None = None
) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(query, parameters)}


def _decoded(text: str) -> Object:
    """Decode a JSON column; what is not an object, as from another program, counts as empty."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
