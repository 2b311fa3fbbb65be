"""The scheduler of BGP speakers: a speaker gets one agent, and an agent serves one speaker at most, as in Neutron."""

import logging
import math
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.features.bgp.errors import (
    BgpSpeakerNotFound,
    DrAgentAssociationError,
    DrAgentInvalid,
    DrAgentNotHostingBgpSpeaker,
)
from neutrino.features.bgp.tables import bgp_speaker_agents, bgp_speakers
from neutrino.features.bgp.views import SPEAKERS
from neutrino.model import agents as words
from neutrino.server import errors
from neutrino.server.db import tables as t
from neutrino.server.db.objects import exists, update_row
from neutrino.server.db.session import retried
from neutrino.server.db.sql import NamedRow
from neutrino.server.hosts.registry import AgentReport
from neutrino.server.scheduling.loads import Loads
from neutrino.server.scheduling.placements import PlacementTable, choose
from neutrino.server.scheduling.scheduler import AgentScheduler, Move, PlacementChange

LOG = logging.getLogger(__name__)
SPEAKER_PLACEMENTS = PlacementTable(
    "bgp_speaker", words.BGP, "bgp", bgp_speaker_agents, bgp_speakers, BgpSpeakerNotFound
)


@dataclass(eq=False)
class BgpScheduler(AgentScheduler):
    placements: PlacementTable = field(default=SPEAKER_PLACEMENTS, kw_only=True)
    # Always exact, for an agent has at most one speaker.
    loads: Loads = field(default_factory=lambda: Loads(most=math.inf), init=False)

    def schedule(self, speaker_id: str) -> None:
        """Give a new speaker an agent, if one is free; else the next one that reports takes it."""
        if self.options.automatic:
            self.try_place(speaker_id, PlacementChange(fill=True))

    @retried
    def place(self, object_id: str, change: PlacementChange) -> Move | None:
        with self.db.read() as connection:
            speaker = SPEAKERS.get(connection, object_id, more=("revision_number",))
            found = self.candidates(connection, object_id)
            agents, hosted = found.candidates, found.hosted
            staying, leaving = hosted - set(change.leave), hosted & set(change.leave)
            joining = list(change.join)
            for agent in agents:
                if agent.id in joining and agent.load:  # checked here, as the operator's request may lose a race
                    raise DrAgentAssociationError(agent_id=agent.id)
            if change.fill:
                free = [c for c in agents if c.id not in change.leave and (c.load == 0 or c.id in staying)]
                joining = choose(free, self.options.agents_per_object, (), staying)
                if leaving and not joining and not staying and not change.force:
                    return None  # no other agent: this one finds the speaker when it is back
        if not joining and not leaving:
            return None
        with self.db.transaction() as tx:
            update_row(tx, bgp_speakers, speaker, {})  # Stale if its agents have changed since
            if leaving:
                gone = sa.delete(bgp_speaker_agents).where(bgp_speaker_agents.c.bgp_speaker_id == object_id)
                tx.change(gone.where(bgp_speaker_agents.c.agent_id.in_(sorted(leaving))), rows=len(leaving))
            tx.insert(bgp_speaker_agents, [{"agent_id": key, "bgp_speaker_id": object_id} for key in joining])
        return Move(object_id, tuple(sorted(leaving)), tuple(sorted(joining)))

    # --- the life of agents ---------------------------------------------------------------------------------------

    def reported(self, report: AgentReport) -> int:
        """After a report of an agent that is new, back or restarted: it gets a speaker that lacks an agent."""
        return self.auto_schedule(report.host) if report.agent_type == words.BGP and report.needs_everything else 0

    def auto_schedule(self, host: str) -> int:
        if not self.options.automatic:
            return 0
        without = sa.select(bgp_speakers.c.id).where(SPEAKER_PLACEMENTS.placed == 0).order_by(bgp_speakers.c.id)
        with self.db.read() as connection:
            speakers = list(connection.execute(without).scalars())
            agents = self.candidates(connection).candidates
        if not any(agent.host == host and agent.serves and agent.load == 0 for agent in agents):
            return 0
        moves = (self.try_place(speaker, PlacementChange(fill=True)) for speaker in speakers)
        return sum(move is not None for move in moves)

    # --- by the operator ------------------------------------------------------------------------------------------

    def add(self, agent_id: str, object_id: str) -> None:
        with self.db.read() as connection:
            agent = _agent(connection, agent_id)
            if agent.agent_type != words.BGP or not agent.admin_state_up:
                raise DrAgentInvalid(id=agent_id)
            SPEAKERS.get(connection, object_id)
        self.place(object_id, PlacementChange(join=[agent_id]))

    def remove(self, agent_id: str, object_id: str) -> None:
        with self.db.read() as connection:
            if _agent(connection, agent_id).agent_type != words.BGP:
                raise DrAgentInvalid(id=agent_id)
            hosted = exists(
                connection, bgp_speaker_agents.c.agent_id == agent_id, bgp_speaker_agents.c.bgp_speaker_id == object_id
            )
        if not hosted or self.place(object_id, PlacementChange(leave=[agent_id])) is None:
            raise DrAgentNotHostingBgpSpeaker(bgp_speaker_id=object_id, agent_id=agent_id)


def _agent(connection: Connection, agent_id: str) -> NamedRow:
    found = connection.execute(
        sa.select(t.agents.c.agent_type, t.agents.c.admin_state_up).where(t.agents.c.id == agent_id)
    ).first()
    if found is None:
        raise errors.AgentNotFound(id=agent_id)
    return found
