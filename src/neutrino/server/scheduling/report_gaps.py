"""Gaps in the reports of agents: after one, agents get time to report before any of them is judged dead.

While the server, its database or the network to the hosts is down, no agent can report. The first agents that are back are
then the only ones alive, and would get everything that the others have. A process knows of a gap by its own start, by a
jump of its clock, and by finding no agent of the type alive. A sweep finds the last of these in time as long as agents
report at least twice per `down_time`: a gap that no sweep notices is shorter than `down_time` and the interval of sweeps
(half of it) together, so that no agent is silent for twice `down_time` by it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from neutrino.server.hosts.registry import seconds, timestamp

PATIENCE: Final = 4  # times `down_time`, after which agents are judged even if most have not come back


@dataclass(eq=False)
class ReportGap:
    """The last gap in the reports of one type of agents, as far as this process knows."""

    down_time: float
    end: float  # the last time at which agents could not report, or none was alive

    def is_over(self, now: float, heartbeats: Collection[str]) -> bool:
        """Whether the agents that were alive have had time to report. `heartbeats`: of all agents of the type."""
        if not any(at >= timestamp(now - self.down_time) for at in heartbeats):
            self.end = now
        if now < self.end + self.down_time:
            return False
        return now >= self.end + PATIENCE * self.down_time or _have_most_returned(heartbeats, self)


def _have_most_returned(heartbeats: Collection[str], gap: ReportGap) -> bool:
    """Whether at least half of the agents that were alive when the gap began have reported since its end."""
    missing = [at for at in heartbeats if at < timestamp(gap.end)]
    if not missing:
        return True
    alive_before = timestamp(seconds(max(missing)) - gap.down_time)
    lost = sum(at >= alive_before for at in missing)
    return len(heartbeats) - len(missing) >= lost
