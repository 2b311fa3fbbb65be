"""Which agents serve which speakers: the paths of the API.

GET, POST  /v2.0/agents/{agent}/bgp-drinstances      DELETE  /v2.0/agents/{agent}/bgp-drinstances/{speaker}
GET        /v2.0/bgp-speakers/{speaker}/bgp-dragents
"""

from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.features.bgp.errors import BgpSpeakerNotFound
from neutrino.features.bgp.scheduler import SPEAKER_PLACEMENTS, BgpScheduler
from neutrino.features.bgp.tables import bgp_speakers
from neutrino.features.bgp.views import SPEAKERS
from neutrino.server import errors
from neutrino.server.api.pipeline import Reply, Request
from neutrino.server.api.routes import PREFIX, Route
from neutrino.server.api.stages import body as bodies
from neutrino.server.db.session import Database
from neutrino.server.db.tables import agents
from neutrino.server.db.view import View
from neutrino.server.hosts.registry import check_agent
from neutrino.server.policy.authorizer import Authorizer
from neutrino.server.query import EVERYTHING
from neutrino.server.scheduling.agents_api import NULL


@dataclass(frozen=True)
class SpeakerAgents:
    db: Database
    agents: View
    scheduler: BgpScheduler

    def routes(self, authorizer: Authorizer) -> list[Route]:
        def index(request: Request) -> Reply:
            authorizer.require(request.context, "list_bgp_speaker_on_dragent", {})
            with self.db.read() as connection:
                ids = SPEAKER_PLACEMENTS.objects_on(connection, request.parent)
                if not ids:
                    check_agent(connection, request.parent)
                speakers = SPEAKERS.many(connection, EVERYTHING, "", bgp_speakers.c.id.in_(ids))
            return Reply(200, {"bgp_speakers": speakers})

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
                serving = self.agents.many(connection, EVERYTHING, "", agents.c.id.in_(placed))
            return Reply(200, {"agents": serving})

        of_agent = f"{PREFIX}/agents/{{parent}}/bgp-drinstances"
        return [
            Route("GET", of_agent, index),
            Route("POST", of_agent, add),
            Route("DELETE", f"{of_agent}/{{key}}", remove),
            Route("GET", f"{PREFIX}/bgp-speakers/{{parent}}/bgp-dragents", index_agents),
        ]


def _speaker_id(raw: bytes) -> str:
    body = bodies.decode(raw)
    speaker_id = body.get("bgp_speaker_id") if isinstance(body, dict) else None
    if not isinstance(speaker_id, str) or not speaker_id:
        raise errors.HTTPBadRequest('The body has to name the speaker: {"bgp_speaker_id": "..."}.')
    if "\x00" in speaker_id:  # PostgreSQL fails on it
        raise BgpSpeakerNotFound(id=speaker_id)
    return speaker_id
