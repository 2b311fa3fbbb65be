"""The agents API: the agents that have reported, whether they are alive, enabling, disabling and deleting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.agent import AGENT
from neutrino.server.context import Context
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.db.view import Condition, View
from neutrino.server.hosts.registry import Registry
from neutrino.server.query import EVERYTHING, Query

Object = dict[str, Any]
_c = t.agents.c


class Placements(Protocol):
    """The columns of a table of placements."""

    @property
    def agent_id(self) -> sa.ColumnElement[str]: ...

    @property
    def object_id(self) -> sa.ColumnElement[str]: ...


class Scheduler(Protocol):
    """The part of a scheduler (`scheduling/scheduler.py`) that follows the life of agents."""

    @property
    def placements(self) -> Placements: ...

    def agent_enabled(self, agent_type: str, host: str) -> None: ...

    def agent_disabled(self, agent_id: str) -> Sequence[Any]: ...

    def release(self, agent_id: str) -> Sequence[Any]: ...


def agent_view(registry: Registry) -> View:
    """Agents as the API shows them. They belong to no project: only callers that may see all projects see any."""
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

    def __init__(self, db: Database, registry: Registry, schedulers: Sequence[Scheduler]) -> None:
        self.collections = ((AGENT, self),)
        self._db = db
        self._schedulers = schedulers
        self.view = agent_view(registry)

    def index(self, context: Context, query: Query) -> list[Object]:
        with self._db.read() as connection:
            return self.view.many(connection, query, context.project_id)

    def show(self, context: Context, key: str, fields: Sequence[str] | None, everyone: bool) -> Object | None:
        with self._db.read() as connection:
            return self.view.show(connection, key, project=context.project_id, everyone=everyone, fields=fields)

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
        enabled = values.get("admin_state_up")
        for scheduler in self._schedulers:
            if enabled and not before["admin_state_up"]:
                scheduler.agent_enabled(before["agent_type"], before["host"])
            if enabled is False:
                scheduler.agent_disabled(key)
        return self._load(key)

    def delete(self, context: Context, key: str, revision: int | None) -> None:
        """Delete the agent after others have taken its objects. If it still runs, its next report creates it again."""

        def attempt() -> None:
            for scheduler in self._schedulers:
                scheduler.release(key)
            with self._db.transaction() as tx:
                # An object placed on it since would lose its agent with the foreign key's cascade, and keep its port.
                empty = [sa.not_(sa.exists().where(s.placements.agent_id == key)) for s in self._schedulers]
                if not tx.execute(sa.delete(t.agents).where(_c.id == key, *empty)).rowcount:
                    check_agent(tx.connection, key)
                    raise Stale
                tx.record("agent", key, 0, deleted=True)

        self._db.retrying(attempt)

    def serving(self, placements: Placements, object_id: str) -> list[Object]:
        """The agents that serve an object, as the API shows them."""
        placed = _c.id.in_(sa.select(placements.agent_id).where(placements.object_id == object_id))
        with self._db.read() as connection:
            return self.view.many(connection, EVERYTHING, "", placed)

    def _load(self, key: str) -> Object:
        with self._db.read() as connection:
            found = self.view.show(connection, key, project="", everyone=True)
        if found is None:
            raise errors.AgentNotFound(id=key)
        return found


def check_agent(connection: Connection, key: str) -> None:
    if connection.execute(sa.select(_c.id).where(_c.id == key)).first() is None:
        raise errors.AgentNotFound(id=key)
