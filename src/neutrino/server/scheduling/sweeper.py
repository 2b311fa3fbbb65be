"""The sweep: a thread of the server that periodically moves networks and routers away from dead agents.

An agent is dead when it has not reported for a while, and no agent can report to a server that is down. So after its
start, and after its clock has jumped (a suspended machine, a corrected clock), the sweeper gives every agent the time
to report before it judges any.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from neutrino.server.hosts.registry import Registry
from neutrino.server.scheduling.scheduler import AgentScheduler, Move

LOG = logging.getLogger(__name__)


class Sweeper:
    def __init__(
        self, schedulers: Sequence[AgentScheduler], registry: Registry, interval: float, stop: threading.Event
    ) -> None:
        self._schedulers = schedulers
        self._registry = registry
        self._interval = interval
        self._stop = stop
        self._last = registry.clock()
        self._judges_from = self._last + registry.down_time

    def run(self) -> None:
        """Sweep until the event is set."""
        while not self._stop.wait(self._interval):
            self.sweep()

    def sweep(self) -> None:
        if not self._may_judge():
            return
        for scheduler in self._schedulers:
            placements = scheduler.placements
            try:
                for move in scheduler.reschedule_dead():
                    LOG.warning("%s", _describe(placements.kind, placements.agent_type, move))
            except Exception:  # a sweep that fails, as without a database, must not end the thread
                LOG.exception(
                    "%ss could not be moved away from dead agents; next try in %s s", placements.kind, self._interval
                )

    def _may_judge(self) -> bool:
        now, last = self._registry.clock(), self._last
        self._last = now
        if not last <= now <= last + self._interval + self._registry.down_time:
            LOG.warning(
                "The clock jumped from %.0f to %.0f: agents get time to report before any counts as dead", last, now
            )
            self._judges_from = now + self._registry.down_time
        return now >= self._judges_from


def _describe(kind: str, agent_type: str, move: Move) -> str:
    others = ", ".join(move.to_agents) or "the agents that it also has"
    left = ", ".join(move.from_agents)
    return f"{kind} {move.object_id} moved from {agent_type}s {left}, which are dead or disabled, to {others}"
