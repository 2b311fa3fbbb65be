"""Where routers run: GET /v2.0/router-placements, one router or many, with the state of each instance.

    hosts        the names of the hosts that have the router, as a list; also a filter
    instances    of each of these the `state` (active, standby, unknown), the `roles`, and whether the agent is alive
    active, standby   the number of instances with a live agent in this state, without those that route only for their host

The state of an HA router is what its hosts report last; a router that is not HA is active on its agent. `roles` are
`router`, for a distributed router `snat`, and `distributed` on each host that routes for its own ports. The last ones
follow from bindings and are stored nowhere. Names of hosts are for administrators (policy).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.router.errors import RouterNotFound
from neutrino.features.router.hosts import LOCAL_HOSTS, read_agent_modes, read_local_hosts
from neutrino.features.router.scheduling.candidates import STATUS
from neutrino.features.router.tables import router_l3_agents, routers
from neutrino.model import agents as words
from neutrino.model.objects import Object
from neutrino.model.routing import ACTIVE, STANDBY
from neutrino.server import errors
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.sql import Condition
from neutrino.server.db.view import View, one_of
from neutrino.server.feed.readers.rows import grouped
from neutrino.server.hosts.registry import Registry
from neutrino.server.query import Query

MAX_ROUTERS: Final = 1000  # in one answer
UNKNOWN: Final = "unknown"
ROUTER, SNAT, DISTRIBUTED = "router", "snat", "distributed"  # what an instance does
_OF_ROUTER = ("id", "ha", "distributed")
_PLACED = (
    sa.select(
        router_l3_agents.c.router_id,
        router_l3_agents.c.ha_state,
        t.agents.c.host,
        t.agents.c.id.label("agent_id"),
        t.agents.c.admin_state_up,
        t.agents.c.heartbeat_timestamp,
    )
    .join(t.agents, t.agents.c.id == router_l3_agents.c.agent_id)
    .order_by(t.agents.c.host)
)


def _on_hosts(values: tuple[object, ...]) -> Condition:
    scheduled = sa.select(router_l3_agents.c.router_id).join(t.agents).where(one_of(t.agents.c.host, values))
    local = LOCAL_HOSTS.with_only_columns(LOCAL_HOSTS.selected_columns.router_id)
    distributed = local.where(one_of(t.port_bindings.c.host, values))
    return sa.or_(
        routers.c.id.in_(scheduled),
        sa.and_(routers.c.distributed, routers.c.id.in_(distributed)),
    )


class Instance(NamedTuple):
    host: str
    agent_id: str | None
    state: str
    roles: Sequence[str]
    alive: bool
    admin_state_up: bool

    def is_in(self, state: str) -> bool:
        return self.state == state and self.alive and self.roles != (DISTRIBUTED,)


class Agent(NamedTuple):
    """An L3 agent that has no placement row of the routers that its host needs."""

    id: str
    alive: bool
    admin_state_up: bool


class RouterPlacements:
    def __init__(self, db: Database, registry: Registry) -> None:
        self.db, self.registry = db, registry
        self._view = View(
            routers,
            columns=("id", "name", "project_id", "ha", "distributed"),
            computed={"status": STATUS},
            filters={"hosts": _on_hosts},
            not_found=RouterNotFound,
        )

    def index(self, context: Context, query: Query) -> list[Object]:
        asked = replace(query, limit=MAX_ROUTERS + 1) if query.limit is None else query
        with self.db.read() as connection:
            rows = self._view.many(connection, replace(asked, fields=self._view.names), context.project_id)
            if len(rows) > MAX_ROUTERS:
                message = (
                    f"limit: an answer has at most {MAX_ROUTERS} routers; ask for pages of them, or by id or hosts."
                )
                raise errors.HTTPBadRequest(message)
            return self._complete(connection, rows)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self.db.read() as connection:
            row = self._view.show(connection, key, project=context.project_id, everyone=everyone)
            return None if row is None else self._complete(connection, [row])[0]

    def _complete(self, connection: Connection, rows: Sequence[Object]) -> list[Object]:
        instances = self._instances(connection, rows)
        return [row | _placement(instances[row["id"]]) for row in rows]

    def _instances(self, connection: Connection, rows: Sequence[Object]) -> dict[str, list[Instance]]:
        cutoff = self.registry.cutoff()
        by_id = {row["id"]: row for row in rows}
        placed = grouped(connection, _PLACED, router_l3_agents.c.router_id, sorted(by_id), lambda row: row)
        found: dict[str, list[Instance]] = {}
        for router_id, router in by_id.items():
            found[router_id] = [
                Instance(
                    row.host,
                    row.agent_id,
                    (row.ha_state or UNKNOWN) if router["ha"] else ACTIVE,
                    (SNAT,) if router["distributed"] else (ROUTER,),
                    row.heartbeat_timestamp >= cutoff,
                    bool(row.admin_state_up),
                )
                for row in placed.get(router_id, ())
            ]
        if distributed := sorted(key for key, row in by_id.items() if row["distributed"]):
            local = read_local_hosts(connection, distributed, read_agent_modes(connection))
            agents = _l3_agents(connection, cutoff) if local else {}
            for router_id, hosts in local.items():
                found[router_id] = with_local(found[router_id], hosts, agents)
        return found


def with_local(central: Sequence[Instance], hosts: Iterable[str], agents: dict[str, Agent]) -> list[Instance]:
    """Add the instances of a distributed router on hosts with ports behind it; central ones may be there too."""
    own = set(hosts)
    both = [one._replace(roles=(*one.roles, DISTRIBUTED)) if one.host in own else one for one in central]
    none = Agent("", False, False)
    others = sorted(own - {one.host for one in central})
    return both + [
        Instance(host, agent.id or None, ACTIVE, (DISTRIBUTED,), agent.alive, agent.admin_state_up)
        for host in others
        for agent in [agents.get(host, none)]
    ]


def _l3_agents(connection: Connection, cutoff: str) -> dict[str, Agent]:
    columns = (t.agents.c.host, t.agents.c.id, t.agents.c.heartbeat_timestamp, t.agents.c.admin_state_up)
    rows = connection.execute(sa.select(*columns).where(t.agents.c.agent_type == words.L3))
    return {row.host: Agent(row.id, row.heartbeat_timestamp >= cutoff, bool(row.admin_state_up)) for row in rows}


def _placement(instances: Sequence[Instance]) -> Object:
    return {
        "active": sum(one.is_in(ACTIVE) for one in instances),
        "standby": sum(one.is_in(STANDBY) for one in instances),
        "hosts": [one.host for one in instances],
        "instances": [one._asdict() for one in instances],
    }
