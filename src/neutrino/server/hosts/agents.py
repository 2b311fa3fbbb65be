"""The agents API: what there is, whether it is alive, and which networks each DHCP agent serves.

Agents are made by their reports, not by the API. What is scheduled to them does not speak in the envelopes of the other
resources, so those paths have handlers of their own:

    GET, POST  /v2.0/agents/{id}/dhcp-networks              DELETE  /v2.0/agents/{id}/dhcp-networks/{network}
    GET        /v2.0/networks/{id}/dhcp-agents
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec
import sqlalchemy as sa

from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.agent import AGENT
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import body as bodies
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.view import Condition, View
from neutrino.server.dhcp.scheduler import DhcpScheduler
from neutrino.server.hosts.registry import Registry
from neutrino.server.query import EVERYTHING, Query

LOG = logging.getLogger(__name__)
Object = dict[str, Any]
NetworksOf = Callable[[Context, Sequence[str]], Sequence[Object]]
_c, _b = t.agents.c, t.network_dhcp_agents.c
NULL = msgspec.Raw(b"null")


class Authorizer(Protocol):
    def require(self, context: Context, rule: str, target: Object) -> None: ...


class Follower(Protocol):
    """A plugin that gives work to agents: it hears when one may have it again, and when one goes."""

    def agent_enabled(self, agent_type: str, host: str) -> None: ...

    def agent_leaving(self, agent_id: str) -> None: ...


def agent_view(registry: Registry) -> View:
    """Agents as the API shows them. They are no project's: who may not see all sees none."""
    recent = _c.heartbeat_timestamp >= sa.bindparam("recent", callable_=registry.cutoff, type_=sa.String)

    def by_alive(values: tuple[Any, ...]) -> Condition:
        return sa.or_(*(recent if value else sa.not_(recent) for value in set(values)))

    return View(
        t.agents,
        computed={
            "alive": recent,
            **{name: _time(_c[name]) for name in ("created_at", "started_at", "heartbeat_timestamp")},
        },
        filters={"alive": by_alive},
        scope=sa.false(),
        hidden=("load",),
    )


def _time(column: sa.ColumnElement[str]) -> sa.ColumnElement[str]:
    """A time as this resource shows it: 2026-01-31 12:00:00."""
    spaced = sa.func.replace(column, "T", " ", type_=sa.String)
    return sa.func.replace(spaced, "Z", "", type_=sa.String)


class Agents:
    extensions = (
        Extension("agent", "agent", "The agents that serve the networks, and whether they are alive."),
        Extension("dhcp_agent_scheduler", "DHCP Agent Scheduler", "Which DHCP agents serve which networks."),
    )

    def __init__(
        self, db: Database, registry: Registry, scheduler: DhcpScheduler, followers: Sequence[Follower] = ()
    ) -> None:
        """`followers`: plugins that give work to agents too."""
        self.collections = ((AGENT, self),)
        self._db = db
        self._followers = followers
        self._view = agent_view(registry)
        self._scheduler = scheduler

    # --- agents ---------------------------------------------------------------------------------------------------

    def index(self, context: Context, query: Query) -> list[Object]:
        with self._db.read() as connection:
            return self._view.many(connection, query, context.project_id)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self._db.read() as connection:
            return self._view.show(connection, key, project=context.project_id, everyone=everyone, fields=fields)

    def create(self, context: Context, values: Object) -> Object:
        raise errors.HTTPBadRequest("Agents are not created by request: an agent is there when it has reported.")

    def update(self, context: Context, key: str, values: Object, revision: int | None) -> Object:
        before = self._load(key)

        def attempt() -> None:
            with self._db.transaction() as tx:
                if not tx.execute(sa.update(t.agents).where(_c.id == key).values(values)).rowcount:
                    raise errors.AgentNotFound(id=key)
                tx.record("agent", key, 0)

        if values:
            self._db.retrying(attempt)
        if values.get("admin_state_up") and not before["admin_state_up"] and before["agent_type"] == words.DHCP:
            self._scheduler.auto_schedule(before["host"])
        if values.get("admin_state_up") is False and before["agent_type"] == words.DHCP:
            self._scheduler.agent_disabled(key)
        if values.get("admin_state_up") and not before["admin_state_up"]:
            for follower in self._followers:
                follower.agent_enabled(before["agent_type"], before["host"])
        return self._load(key)

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        """The agent goes, and its networks go to others. One that is still running comes back with its next report."""
        for follower in self._followers:
            follower.agent_leaving(key)

        def attempt() -> list[str]:
            with self._db.read() as connection:
                networks = connection.execute(
                    sa.select(t.networks.c.id, t.networks.c.revision_number)
                    .select_from(t.network_dhcp_agents.join(t.networks))
                    .where(_b.agent_id == key)
                ).all()
                steps = [s for n in networks for s in self._scheduler.steps(connection, n.id, going=[key])]

            with self._scheduler.write(steps) as tx:
                left = tx.execute(sa.delete(t.network_dhcp_agents).where(_b.agent_id == key)).rowcount
                if left != len(networks):
                    raise Stale
                if not tx.execute(sa.delete(t.agents).where(_c.id == key)).rowcount:
                    raise errors.AgentNotFound(id=key)
                tx.record("agent", key, 0, deleted=True)
                for network in networks:
                    tx.record("network", network.id, network.revision_number)
            return [network.id for network in networks]

        self._scheduler.schedule_all(self._db.retrying(attempt))

    def _load(self, key: str) -> Object:
        with self._db.read() as connection:
            found = self._view.show(connection, key, project="", everyone=True)
        if found is None:
            raise errors.AgentNotFound(id=key)
        return found

    # --- what is scheduled to them --------------------------------------------------------------------------------

    def routes(self, authorizer: Authorizer, networks_of: NetworksOf) -> list[Route]:
        """`networks_of` gives the API's view of networks by their ids, as this caller may see them."""

        def networks(request: Request) -> Reply:
            authorizer.require(request.context, "get_dhcp-networks", {})
            with self._db.read() as connection:
                ids = self._scheduler.networks_on(connection, request.parent)
            if not ids:
                self._load(request.parent)
            return Reply(200, {"networks": list(networks_of(request.context, ids)) if ids else []})

        def add(request: Request) -> Reply:
            authorizer.require(request.context, "create_dhcp-network", {})
            self._scheduler.add(request.parent, _network_id(request.raw))
            return Reply(201, NULL)

        def remove(request: Request) -> Reply:
            authorizer.require(request.context, "delete_dhcp-network", {})
            self._scheduler.remove(request.parent, request.key)
            return Reply(204)

        def agents(request: Request) -> Reply:
            authorizer.require(request.context, "get_dhcp-agents", {})
            serves = _c.id.in_(sa.select(_b.agent_id).where(_b.network_id == request.parent))
            with self._db.read() as connection:
                return Reply(200, {"agents": self._view.many(connection, EVERYTHING, "", serves)})

        of_agent = f"{PREFIX}/agents/{{parent}}/dhcp-networks"
        return [
            Route("GET", of_agent, networks),
            Route("POST", of_agent, add),
            Route("DELETE", f"{of_agent}/{{key}}", remove),
            Route("GET", f"{PREFIX}/networks/{{parent}}/dhcp-agents", agents),
        ]


def _network_id(raw: bytes) -> str:
    body = bodies.decode(raw)
    network_id = body.get("network_id") if isinstance(body, dict) else None
    if not isinstance(network_id, str) or not network_id:
        raise errors.HTTPBadRequest('The body has to name the network: {"network_id": "..."}.')
    if "\x00" in network_id:
        raise errors.NetworkNotFound(id=network_id)
    return network_id
