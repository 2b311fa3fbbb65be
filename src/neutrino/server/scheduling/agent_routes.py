"""The API's paths for placements, the same for DHCP agents and L3 agents:

    GET, POST  /v2.0/agents/{agent}/dhcp-networks    DELETE  /v2.0/agents/{agent}/dhcp-networks/{network}
    GET        /v2.0/networks/{network}/dhcp-agents

Their bodies have other envelopes than those of resources, so they are routes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import body as bodies
from neutrino.server.context import Context
from neutrino.server.db.session import Database
from neutrino.server.hosts.agents import check_agent
from neutrino.server.scheduling.placements import PlacementTable

Object = dict[str, Any]
NULL = msgspec.Raw(b"null")


class Authorizer(Protocol):
    def require(self, context: Context, rule: str, target: Object) -> None: ...


class Scheduler(Protocol):
    """The part of a scheduler that these paths use."""

    placements: PlacementTable

    def add(self, agent_id: str, object_id: str) -> None: ...

    def remove(self, agent_id: str, object_id: str) -> None: ...


def placement_routes(
    db: Database,
    authorizer: Authorizer,
    scheduler: Scheduler,
    objects: Callable[[Context, Sequence[str]], Sequence[Object]],
    agents: Callable[[str], list[Object]],
) -> list[Route]:
    """`objects` gives networks or routers by their ids as the API shows them, `agents` the agents that serve one."""
    placements = scheduler.placements
    single, plural = f"{placements.service}-{placements.kind}", f"{placements.service}-{placements.kind}s"

    def index(request: Request) -> Reply:
        authorizer.require(request.context, f"get_{plural}", {})
        with db.read() as connection:
            ids = placements.objects_on(connection, request.parent)
            if not ids:
                check_agent(connection, request.parent)
        return Reply(200, {f"{placements.kind}s": list(objects(request.context, ids)) if ids else []})

    def add(request: Request) -> Reply:
        authorizer.require(request.context, f"create_{single}", {})
        scheduler.add(request.parent, _object_id(placements, request.raw))
        return Reply(201, NULL)

    def remove(request: Request) -> Reply:
        authorizer.require(request.context, f"delete_{single}", {})
        scheduler.remove(request.parent, request.key)
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
