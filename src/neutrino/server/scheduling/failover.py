"""Networks of agents that serve no more, as they are dead or were set down, go to others, where there are others.

A network leaves its agent only when another takes it: with nobody to take over, the agent finds its work when it comes
back. It leaves and comes in one change, so that the DHCP port moves along with its addresses: clients go on asking the
server that they know.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.session import Database, Stale
from neutrino.server.dhcp.placements import AGENTS, CUTOFF, Placements
from neutrino.server.hosts.registry import Registry
from neutrino.server.scheduling.candidates import Candidate, lacking

LOG = logging.getLogger(__name__)
_a, _b, _n = t.agents.c, t.network_dhcp_agents.c, t.networks.c


def _on(agents: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """The networks of some agents, with all agents that they have."""
    theirs = sa.select(_b.network_id).select_from(t.network_dhcp_agents.join(t.agents)).where(agents).correlate(None)
    return (
        sa.select(_n.id, _n.revision_number, _n.availability_zone_hints, _b.agent_id)
        .select_from(t.network_dhcp_agents.join(t.networks))
        .where(_n.id.in_(theirs))
        .order_by(_n.id, _b.agent_id)
    )


_ON_LOST_AGENTS = _on(sa.or_(_a.heartbeat_timestamp < CUTOFF, sa.not_(_a.admin_state_up)))
_ON_AGENT = _on(_a.id == sa.bindparam("agent"))


@dataclass(frozen=True, slots=True)
class Move:
    network_id: str
    from_agents: tuple[str, ...]
    to_agents: tuple[str, ...]


@dataclass(slots=True)
class _Placed:
    """A network and the agents that have it."""

    revision: int
    hints: list[str]
    hosted: set[str]


class Failover:
    def __init__(self, db: Database, registry: Registry, placements: Placements, default_zones: Sequence[str]) -> None:
        self._db = db
        self._registry = registry
        self._placements = placements
        self._default_zones = list(default_zones)

    def relieve_all(self) -> list[Move]:
        """Agents that have been dead for a while, and those that are set down."""
        dead_before = self._registry.cutoff(times=2)
        with self._db.read() as connection:
            bindings = connection.execute(_ON_LOST_AGENTS, {"cutoff": dead_before}).all()
            agents = connection.execute(AGENTS, {"network": ""}).all() if bindings else []
        dead = {row.id for row in agents if row.heartbeat_timestamp < dead_before}
        moves = self._relieve(bindings, agents, dead | {row.id for row in agents if not row.admin_state_up})
        left = {row.id for row in bindings if row.agent_id in dead} - {move.network_id for move in moves}
        if left:
            LOG.warning("%d networks stay on dead DHCP agents: no other can take them", len(left))
        return moves

    def relieve(self, agent_id: str) -> list[Move]:
        """One agent, which serves no more from now on."""
        with self._db.read() as connection:
            bindings = connection.execute(_ON_AGENT, {"agent": agent_id}).all()
            agents = connection.execute(AGENTS, {"network": ""}).all() if bindings else []
        return self._relieve(bindings, agents, {agent_id})

    def _relieve(self, bindings: Sequence[Any], agents: Sequence[Any], lost: set[str]) -> list[Move]:
        candidates = {c.id: c for c in self._placements.candidates(agents)}
        placed: dict[str, _Placed] = {}
        for network_id, revision, hints, agent_id in bindings:
            placed.setdefault(network_id, _Placed(revision, msgspec.json.decode(hints), set())).hosted.add(agent_id)
        moves: list[Move] = []
        for network_id, network in placed.items():
            move = self._plan(network_id, network, list(candidates.values()), lost)
            carry_out = partial(self._carry_out, move, network.revision)
            if not move.from_agents or not self._db.retrying(carry_out):
                continue
            moves.append(move)
            for agent_id in move.to_agents:  # the next network finds it busier
                candidates[agent_id] = replace(candidates[agent_id], load=candidates[agent_id].load + 1)
        return moves

    def _plan(self, network_id: str, network: _Placed, candidates: Sequence[Candidate], lost: set[str]) -> Move:
        hints, wanted = network.hints or self._default_zones, self._placements.wanted
        leaving = sorted(network.hosted & lost)
        with self._db.read() as connection:
            chosen, _ = self._placements.choose(connection, network_id, candidates, hints, network.hosted, leaving)
        if lacking(candidates, wanted, network.hosted) > len(chosen):  # from the others nobody takes over
            leaving = leaving[: len(chosen)]
        return Move(network_id, tuple(leaving), tuple(chosen))

    def _carry_out(self, move: Move, revision: int) -> bool:
        """Whether the move was made; not if another server was faster, which then has seen to it."""
        leave = sa.delete(t.network_dhcp_agents).where(
            _b.network_id == move.network_id, _b.agent_id.in_(list(move.from_agents))
        )
        with self._db.read() as connection:
            steps = self._placements.steps(connection, move.network_id, coming=move.to_agents, going=move.from_agents)

        try:
            with self._placements.write(steps) as tx:
                if not tx.execute(leave).rowcount:
                    raise Stale
                for agent_id in move.to_agents:
                    self._placements.give(tx, [move.network_id], agent_id)
                tx.record("network", move.network_id, revision)
        except (Stale, sa.exc.IntegrityError):
            return False  # what it was planned on has changed: the next sweep plans anew
        self._placements.settle(move.network_id)
        return True
