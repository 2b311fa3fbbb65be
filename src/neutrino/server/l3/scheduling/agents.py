"""Which routers L3 agents serve, by the API. These paths have envelopes of their own, and so handlers of their own:

GET, POST  /v2.0/agents/{id}/l3-routers              DELETE  /v2.0/agents/{id}/l3-routers/{router}
GET        /v2.0/routers/{id}/l3-agents
"""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import body as bodies
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.hosts.agents import agent_view
from neutrino.server.hosts.registry import Registry
from neutrino.server.l3 import router_view
from neutrino.server.l3.scheduling.dvr import agents_near
from neutrino.server.l3.scheduling.scheduler import L3Scheduler
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import EVERYTHING

Object = dict[str, Any]
NULL = msgspec.Raw(b"null")
_a, _b = t.agents.c, t.router_l3_agents.c


class L3Agents:
    def __init__(self, db: Database, registry: Registry, scheduler: L3Scheduler) -> None:
        self._db = db
        self._view = agent_view(registry)
        self._scheduler = scheduler

    def enabled(self, agent_type: str, host: str) -> None:
        """An agent's admin state is up again: it takes what waits."""
        if agent_type == words.L3:
            self._scheduler.auto_schedule(host)

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def routers(request: Request) -> Reply:
            authorizer.require(request.context, "get_l3-routers", {})
            with self._db.read() as connection:
                ids = self._scheduler.routers_on(connection, request.parent)
                if not ids:
                    self._check_agent(request.parent)
                found = router_view.ROUTERS.many(connection, EVERYTHING, "", t.routers.c.id.in_(ids)) if ids else []
            return Reply(200, {"routers": found})

        def add(request: Request) -> Reply:
            authorizer.require(request.context, "create_l3-router", {})
            self._scheduler.add(request.parent, _router_id(request.raw))
            return Reply(201, NULL)

        def remove(request: Request) -> Reply:
            authorizer.require(request.context, "delete_l3-router", {})
            self._scheduler.remove(request.parent, request.key)
            return Reply(204)

        def agents(request: Request) -> Reply:
            authorizer.require(request.context, "get_l3-agents", {})
            return Reply(200, {"agents": self._serving(request.parent)})

        of_agent = f"{PREFIX}/agents/{{parent}}/l3-routers"
        return [
            Route("GET", of_agent, routers),
            Route("POST", of_agent, add),
            Route("DELETE", f"{of_agent}/{{key}}", remove),
            Route("GET", f"{PREFIX}/routers/{{parent}}/l3-agents", agents),
        ]

    def _serving(self, router_id: str) -> list[Object]:
        """The agents of a router, each with what it says of an HA router: whether it is the active one."""
        states = sa.select(_b.agent_id, _b.ha_state).where(_b.router_id == router_id)
        with self._db.read() as connection:
            router = router_view.load(connection, router_id)
            near = agents_near(connection, router_id) if router["distributed"] else []
            state_of: dict[str, str | None] = dict.fromkeys(near)
            state_of |= {row.agent_id: row.ha_state for row in connection.execute(states)}
            rows = self._view.many(connection, EVERYTHING, "", _a.id.in_(list(state_of))) if state_of else []
        return [{**row, "ha_state": state_of[row["id"]], "ha_chassis_priority": None} for row in rows]

    def _check_agent(self, key: str) -> None:
        with self._db.read() as connection:
            if self._view.show(connection, key, project="", everyone=True, fields=("id",)) is None:
                raise errors.AgentNotFound(id=key)


def _router_id(raw: bytes) -> str:
    body = bodies.decode(raw)
    router_id = body.get("router_id") if isinstance(body, dict) else None
    if not isinstance(router_id, str) or not router_id:
        raise errors.HTTPBadRequest('The body has to name the router: {"router_id": "..."}.')
    if "\x00" in router_id:
        raise errors.RouterNotFound(id=router_id)
    return router_id
