"""The service plugin `bgp`: BGP speakers and peers, and which agents serve which speakers.

GET, POST  /v2.0/agents/{agent}/bgp-drinstances      DELETE  /v2.0/agents/{agent}/bgp-drinstances/{speaker}
GET        /v2.0/bgp-speakers/{speaker}/bgp-dragents
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from neutrino.server import errors
from neutrino.server.api.definition import Extension
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.resources.bgp import BGP_PEER, BGP_SPEAKER
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import body as bodies
from neutrino.server.bgp.peers import BgpPeers
from neutrino.server.bgp.scheduler import SPEAKER_PLACEMENTS, BgpScheduler
from neutrino.server.bgp.speakers import BgpSpeakers
from neutrino.server.bgp.views import SPEAKERS
from neutrino.server.db import tables as t
from neutrino.server.db.session import Database
from neutrino.server.db.view import View
from neutrino.server.hosts.registry import check_agent
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import EVERYTHING
from neutrino.server.scheduling.agents_api import NULL, agent_view
from neutrino.server.scheduling.scheduler import SchedulingOptions
from neutrino.server.services import Services

EXTENSIONS = (
    Extension("bgp", "Neutron BGP Dynamic Routing Extension", "Speakers that announce routes to BGP peers."),
    Extension("bgp_4byte_asn", "BGP 4-byte AS numbers", "AS numbers of four bytes."),
    Extension("bgp_dragent_scheduler", "BGP Dynamic Routing Agent Scheduler", "Which agents serve which speakers."),
)


@dataclass(frozen=True)
class BgpPlugin:
    db: Database
    agents: View
    scheduler: BgpScheduler
    collections: Sequence[tuple[Any, ...]]
    extensions: Sequence[Extension] = EXTENSIONS

    @property
    def schedulers(self) -> Sequence[BgpScheduler]:
        return (self.scheduler,)

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def index(request: Request) -> Reply:
            authorizer.require(request.context, "list_bgp_speaker_on_dragent", {})
            with self.db.read() as connection:
                ids = SPEAKER_PLACEMENTS.objects_on(connection, request.parent)
                if not ids:
                    check_agent(connection, request.parent)
                found = SPEAKERS.many(connection, EVERYTHING, "", t.bgp_speakers.c.id.in_(ids))
            return Reply(200, {"bgp_speakers": found})

        def add(request: Request) -> Reply:
            authorizer.require(request.context, "add_bgp_speaker_to_dragent", {})
            self.scheduler.add(request.parent, _speaker_id(request.raw))
            return Reply(201, NULL)

        def remove(request: Request) -> Reply:
            authorizer.require(request.context, "remove_bgp_speaker_from_dragent", {})
            self.scheduler.remove(request.parent, request.key)
            return Reply(204)

        def index_agents(request: Request) -> Reply:
            authorizer.require(request.context, "list_dragent_hosting_bgp_speaker", {})
            placed = sa.select(SPEAKER_PLACEMENTS.agent_id).where(SPEAKER_PLACEMENTS.object_id == request.parent)
            with self.db.read() as connection:
                found = self.agents.many(connection, EVERYTHING, "", t.agents.c.id.in_(placed))
            return Reply(200, {"agents": found})

        of_agent = f"{PREFIX}/agents/{{parent}}/bgp-drinstances"
        return [
            Route("GET", of_agent, index),
            Route("POST", of_agent, add),
            Route("DELETE", f"{of_agent}/{{key}}", remove),
            Route("GET", f"{PREFIX}/bgp-speakers/{{parent}}/bgp-dragents", index_agents),
        ]


def _speaker_id(raw: bytes) -> str:
    body = bodies.decode(raw)
    found = body.get("bgp_speaker_id") if isinstance(body, dict) else None
    if not isinstance(found, str) or not found:
        raise errors.HTTPBadRequest('The body has to name the speaker: {"bgp_speaker_id": "..."}.')
    if "\x00" in found:  # PostgreSQL fails on it
        raise errors.BgpSpeakerNotFound(id=found)
    return found


def build_scheduler(services: Services) -> BgpScheduler:
    return BgpScheduler(services.db, services.registry, SchedulingOptions())


def build(services: Services) -> BgpPlugin:
    db, scheduler = services.db, build_scheduler(services)
    collections = ((BGP_SPEAKER, BgpSpeakers(db, scheduler.schedule)), (BGP_PEER, BgpPeers(db)))
    return BgpPlugin(db, agent_view(services.registry), scheduler, collections)
