"""The agents API: the agents that have reported, and which networks and routers they serve.

Agents are created by their reports, not by requests. The paths for placements are the same for DHCP and L3 agents, and have
other envelopes than resources:

    GET, POST  /v2.0/agents/{agent}/dhcp-networks    DELETE  /v2.0/agents/{agent}/dhcp-networks/{network}
    GET        /v2.0/networks/{network}/dhcp-agents
"""

from collections.abc import Callable, Sequence

import msgspec
import sqlalchemy as sa

from neutrino.model.agents import AgentStatus
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.pipeline import Notify, Reply, Request
from neutrino.server.api.resources.agent import AGENT
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import body as bodies
from neutrino.server.collection import Listing
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.changed_values import Changed, changed_values
from neutrino.server.db.session import Database, Stale, retried
from neutrino.server.db.sql import Condition, Expression
from neutrino.server.db.view import View
from neutrino.server.hosts.registry import AgentReport, Registry, check_agent
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import EVERYTHING, Query
from neutrino.server.scheduling.placements import PlacementTable
from neutrino.server.scheduling.scheduler import AgentScheduler

NULL = msgspec.Raw(b"null")  # the body of Neutron's answer


def agent_view(registry: Registry) -> View:
    """Agents as the API shows them. They belong to no project: only callers that may see all projects see any."""
    # callable_: evaluated by each statement. A plain value would be the time at which the server was assembled.
    recent = t.agents.c.heartbeat_timestamp >= sa.bindparam("recent", callable_=registry.cutoff, type_=sa.String)

    def by_alive(values: tuple[object, ...]) -> Condition:
        return sa.or_(*(recent if value else sa.not_(recent) for value in set(values)))

    computed: dict[str, Expression] = {"alive": recent}
    computed |= {name: _time(t.agents.c[name]) for name in ("created_at", "started_at", "heartbeat_timestamp")}
    filters, not_found = {"alive": by_alive}, errors.AgentNotFound
    return View(t.agents, computed=computed, filters=filters, scope=sa.false(), hidden=("load",), not_found=not_found)


def _time(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """A time as this resource shows it: 2026-01-31 12:00:00."""
    spaced = sa.func.replace(column, "T", " ", type_=sa.String)
    return sa.func.replace(spaced, "Z", "", type_=sa.String)


class Agents(Listing):
    extensions = (
        Extension("agent", "agent", "The agents that serve the networks, and whether they are alive."),
        Extension("agent_sort_key", "Agents Sort Key", "Lists of agents by sort_key."),
        Extension("dhcp_agent_scheduler", "DHCP Agent Scheduler", "Which DHCP agents serve which networks."),
    )

    def __init__(self, db: Database, registry: Registry, schedulers: Sequence[AgentScheduler]) -> None:
        super().__init__(db, agent_view(registry))
        self.collections = ((AGENT, self),)
        self._schedulers = schedulers

    def create(self, context: Context, values: Object) -> Object:
        raise errors.HTTPBadRequest("Agents are not created by request: an agent is there when it has reported.")

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        before = self._load(key)
        if values:
            self._write(key, values, changed_values(before, values))
        # After the commit: schedulers read the agent's new state.
        enabled = values.get("admin_state_up")
        for scheduler in self._schedulers:
            if enabled and not before["admin_state_up"]:  # as if it were back
                scheduler.reported(AgentReport(key, before["agent_type"], before["host"], AgentStatus.REVIVED))
            if enabled is False and scheduler.placements.agent_type == before["agent_type"]:
                scheduler.agent_disabled(key)
        return self._load(key)

    @retried
    def _write(self, key: str, values: Object, changed: Changed) -> None:
        with self.db.transaction() as tx:
            if not tx.execute(sa.update(t.agents).where(t.agents.c.id == key).values(values)).rowcount:
                raise errors.AgentNotFound(id=key)
            tx.record("agent", key, changed=changed)

    @retried
    def delete(self, context: Context, key: str, revision: int | None) -> None:
        """Delete the agent after others have taken its objects. If it still runs, its next report creates it again."""
        for scheduler in self._schedulers:
            scheduler.release(key)
        with self.db.transaction() as tx:
            # An object placed on it since would lose its agent by the foreign key's cascade, and keep its port.
            empty = [sa.not_(sa.exists().where(s.placements.agent_id == key)) for s in self._schedulers]
            if not tx.execute(sa.delete(t.agents).where(t.agents.c.id == key, *empty)).rowcount:
                check_agent(tx.connection, key)
                raise Stale
            tx.record("agent", key, deleted=True)

    def serving(self, placements: PlacementTable, object_id: str) -> list[Object]:
        """The agents that serve an object, as the API shows them."""
        placed = t.agents.c.id.in_(sa.select(placements.agent_id).where(placements.object_id == object_id))
        with self.db.read() as connection:
            return self._view.many(connection, EVERYTHING, "", placed)

    def _load(self, key: str) -> Object:
        with self.db.read() as connection:
            return self._view.get(connection, key)


def placement_routes(
    db: Database,
    authorizer: Authorizer,
    notify: Notify,
    scheduler: AgentScheduler,
    objects: Listing,
    agents: Callable[[str], list[Object]],
) -> list[Route]:
    """`objects`: the collection of networks or of routers; `agents` gives the agents that serve one of them."""
    placements = scheduler.placements
    single, plural = f"{placements.service}-{placements.kind}", f"{placements.service}-{placements.kind}s"

    def notify_of(action: str, agent_id: str, object_id: str, context: Context) -> None:
        payload = {"agent": {"id": agent_id, f"{placements.kind}_id": object_id}}
        notify(f"{placements.service}_agent.{placements.kind}.{action}", payload, context)

    def index(request: Request) -> Reply:
        authorizer.require(request.context, f"get_{plural}", {})
        with db.read() as connection:
            ids = placements.objects_on(connection, request.parent)
            if not ids:
                check_agent(connection, request.parent)
        asked = Query(filters={"id": tuple(ids)}, everyone=True)
        return Reply(200, {f"{placements.kind}s": objects.index(request.context, asked) if ids else []})

    def add(request: Request) -> Reply:
        authorizer.require(request.context, f"create_{single}", {})
        object_id = _object_id(placements, request.raw)
        scheduler.add(request.parent, object_id)
        notify_of("add", request.parent, object_id, request.context)
        return Reply(201, NULL)

    def remove(request: Request) -> Reply:
        authorizer.require(request.context, f"delete_{single}", {})
        scheduler.remove(request.parent, request.key)
        notify_of("remove", request.parent, request.key, request.context)
        return Reply(204)

    def index_agents(request: Request) -> Reply:
        authorizer.require(request.context, f"get_{placements.service}-agents", {})
        return Reply(200, {"agents": agents(request.parent)})

    of_agent = f"{PREFIX}/agents/{{parent}}/{plural}"
    return [
        Route("GET", of_agent, index),
        Route("POST", of_agent, add),
        Route("DELETE", f"{of_agent}/{{key}}", remove),
        Route("GET", f"{PREFIX}/{placements.kind}s/{{parent}}/{placements.service}-agents", index_agents),
    ]


def _object_id(placements: PlacementTable, raw: bytes) -> str:
    body, name = bodies.decode(raw), f"{placements.kind}_id"
    object_id = body.get(name) if isinstance(body, dict) else None
    if not isinstance(object_id, str) or not object_id:
        raise errors.HTTPBadRequest(f'The body has to name the {placements.kind}: {{"{name}": "..."}}.')
    if "\x00" in object_id:  # PostgreSQL fails on it
        raise placements.not_found(id=object_id)
    return object_id
