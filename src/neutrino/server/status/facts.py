"""Reads the state of the whole service: a fixed number of queries, whatever the number of hosts and objects."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.hosts.registry import timestamp

NAMED: Final = 10  # objects of one kind that are listed by name; beyond that the number has to do
UNBOUND: Final = "unbound"
BINDING_FAILED: Final = "binding_failed"
ACTIVE: Final = "active"  # of an HA router's instance
ELECTION_SECONDS: Final = 60  # until an instance of a new HA router has to be active

_p, _a, _r, _b = t.ports.c, t.agents.c, t.routers.c, t.router_l3_agents.c
_n, _f, _h, _s = t.networks.c, t.floatingips.c, t.change_head.c, t.server_processes.c
_PING = sa.select(sa.literal(1))
_VERSION = sa.text("SELECT version_num FROM alembic_version")
_HEAD = sa.select(_h.position, _h.removed).where(_h.id == 1)
_PENDING = sa.select(sa.func.count()).select_from(t.changes).where(t.changes.c.position.is_(None))
_PROCESSES = sa.select(t.server_processes).order_by(_s.host, _s.kind, _s.pid)
_AGENTS = sa.select(
    *(_a[name] for name in ("id", "agent_type", "host", "availability_zone", "admin_state_up")),
    *(_a[name] for name in ("started_at", "heartbeat_timestamp", "configurations")),
).order_by(_a.host, _a.agent_type)
_PORTS = sa.select(_p.status, _p.vif_type, sa.func.count()).group_by(_p.status, _p.vif_type)
_NETWORKS = sa.select(_n.status, sa.func.count()).group_by(_n.status)
_SUBNETS = sa.select(sa.func.count()).select_from(t.subnets)
_FLOATING = sa.select(_f.status, sa.func.count()).group_by(_f.status)
_ROUTERS = sa.select(_r.status, _r.ha, _r.distributed, sa.func.count()).group_by(_r.status, _r.ha, _r.distributed)
_FAILED_PORTS = sa.select(_p.id, _p.name, _p.host).where(_p.vif_type == BINDING_FAILED).order_by(_p.id).limit(NAMED)
_serves_dhcp = sa.exists().where(t.subnets.c.network_id == _n.id, t.subnets.c.enable_dhcp)
_has_dhcp_agent = sa.exists().where(t.network_dhcp_agents.c.network_id == _n.id)
_WITHOUT_DHCP = sa.select(_n.id, _n.name).where(_serves_dhcp, sa.not_(_has_dhcp_agent)).order_by(_n.id).limit(NAMED)
_has_ports = sa.exists().where(t.router_ports.c.router_id == _r.id)
_has_l3_agent = sa.exists().where(_b.router_id == _r.id)
_WITHOUT_L3 = (
    # A distributed router without a gateway needs no L3 agent of its own: it is where its instances are.
    sa.select(_r.id, _r.name)
    .where(_r.admin_state_up, _has_ports, sa.not_(_has_l3_agent))
    .where(sa.or_(sa.not_(_r.distributed), _r.gw_port_id.is_not(None)))
    .order_by(_r.id)
    .limit(NAMED)
)
_actives = sa.func.sum(sa.case((_b.ha_state == ACTIVE, 1), else_=0))
_HA = (
    sa.select(
        *(_r[name] for name in ("id", "name", "created_at", "updated_at")),
        _actives.label("actives"),
        sa.func.count(_b.ha_state).label("reported"),
    )
    .join(t.router_l3_agents, _b.router_id == _r.id)
    .where(_r.ha, _r.admin_state_up)
    .group_by(_r.id, _r.name, _r.created_at, _r.updated_at)
    .subquery()
)
_HA_STATES = sa.select(_HA.c.actives, sa.func.count()).group_by(_HA.c.actives)
_since: sa.BindParameter[str] = sa.bindparam("elected_since")
# Before its first election a router has no active instance: it is new, or became HA, and no host has reported a state.
_not_elected = sa.or_(_HA.c.created_at >= _since, sa.and_(_HA.c.reported == 0, _HA.c.updated_at >= _since))
_HA_WRONG = (
    sa.select(_HA.c.id, _HA.c.name, _HA.c.actives)
    .where(sa.or_(_HA.c.actives > 1, sa.and_(_HA.c.actives == 0, sa.not_(_not_elected))))
    .order_by(_HA.c.id)
    .limit(NAMED)
)
_FLOATING_ERROR = (
    sa.select(_f.id, _f.floating_ip_address.label("name")).where(_f.status == "ERROR").order_by(_f.id).limit(NAMED)
)
_ROUTER_ERROR = sa.select(_r.id, _r.name).where(_r.status == "ERROR").order_by(_r.id).limit(NAMED)
_NAMED: Mapping[str, sa.Select[Any]] = {
    "failed_ports": _FAILED_PORTS,
    "networks_without_dhcp": _WITHOUT_DHCP,
    "routers_without_agent": _WITHOUT_L3,
    "ha_routers": _HA_WRONG,
    "floatingips_in_error": _FLOATING_ERROR,
    "routers_in_error": _ROUTER_ERROR,
}


@dataclass(frozen=True)
class Disk:
    """The file system of a SQLite database."""

    path: str
    free: int  # bytes that this process may write
    read_only: bool


@dataclass(frozen=True)
class Facts:
    """What the database holds about the service, at one moment."""

    now: float  # of this server's clock
    dialect: str
    server_version: str
    round_trip: float  # seconds
    schema: str | None
    position: int
    removed: int
    pending: int
    processes: Sequence[Mapping[str, Any]]
    agents: Sequence[Object]  # with their configurations decoded; in the database's collation of hosts
    ports: Sequence[tuple[str, str, int]]  # status, vif_type, number
    networks: Mapping[str, int]
    subnets: int
    routers: Sequence[tuple[str, bool, bool, int]]  # status, ha, distributed, number
    ha_routers: Mapping[int, int]  # number of active instances → number of HA routers
    floatingips: Mapping[str, int]
    named: Mapping[str, Sequence[Mapping[str, Any]]]  # objects with a problem, at most NAMED of each kind
    disk: Disk | None = None  # of SQLite


def read(db: Database, now: float) -> Facts:
    with db.read() as connection:
        connection.execute(
            _PING
        ).scalar()  # a connection that was idle is checked or opened here, not in the measurement
        began = time.perf_counter()
        connection.execute(_PING).scalar()
        round_trip = time.perf_counter() - began
        head = connection.execute(_HEAD).first()
        parameters = {"elected_since": timestamp(now - ELECTION_SECONDS)}
        return Facts(
            now=now,
            dialect=db.dialect,
            server_version=".".join(map(str, connection.dialect.server_version_info or ())),
            round_trip=round_trip,
            schema=connection.execute(_VERSION).scalar(),
            position=head.position if head else 0,
            removed=head.removed if head else 0,
            pending=connection.execute(_PENDING).scalar() or 0,
            processes=[_decoded(dict(row), "details") for row in connection.execute(_PROCESSES).mappings()],
            agents=[_decoded(dict(row), "configurations") for row in connection.execute(_AGENTS).mappings()],
            ports=[(row[0], row[1], row[2]) for row in connection.execute(_PORTS)],
            networks=_counts(connection, _NETWORKS),
            subnets=connection.execute(_SUBNETS).scalar() or 0,
            routers=[(row[0], bool(row[1]), bool(row[2]), row[3]) for row in connection.execute(_ROUTERS)],
            ha_routers={int(row[0] or 0): row[1] for row in connection.execute(_HA_STATES)},
            floatingips=_counts(connection, _FLOATING),
            named={
                name: [dict(row) for row in connection.execute(query, parameters).mappings()]
                for name, query in _NAMED.items()
            },
            disk=_disk(db.url.database) if db.dialect == "sqlite" else None,
        )


def _disk(path: str | None) -> Disk | None:
    try:
        found = os.statvfs(path or "")
    except OSError:  # in memory
        return None
    blocks = found.f_bavail if os.geteuid() else found.f_bfree
    return Disk(str(path), blocks * found.f_frsize, bool(found.f_flag & os.ST_RDONLY))


def _counts(connection: Connection, query: sa.Select[Any]) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(query)}


def _decoded(row: Mapping[str, Any], column: str) -> Object:
    """The row with a JSON column decoded; what is not an object, as from another program, counts as empty."""
    try:
        found = msgspec.json.decode(row[column])
    except msgspec.DecodeError:
        found = {}
    return {**row, column: found if isinstance(found, dict) else {}}


def dataplane(configurations: Mapping[str, Any]) -> tuple[bool | None, str]:
    """Whether the agent's dataplane is up, and the reason if not; None: the agent reports none."""
    found = configurations.get(words.DATAPLANE)
    if not isinstance(found, str):
        return None, ""
    return (True, "") if found == "up" else (False, found.removeprefix("down").lstrip(": "))
