"""Choice of the agents that get a network or a router: pure, by what the registry has of the agents.

Agents that are alive, enabled and do not serve the object yet are candidates; with availability zone hints only those of
the hinted zones. Zones with the fewest agents of the object come first, then the least loaded agent, then the smallest
id: so the agents of one object are spread over zones, and the same input always gives the same choice.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent as the schedulers see it."""

    id: str
    zone: str | None = None
    load: int = 0  # objects placed on it
    alive: bool = True
    admin_state_up: bool = True
    host: str = ""
    configurations: Mapping[str, Any] = field(default_factory=dict)  # of its last report

    @property
    def serves(self) -> bool:
        return self.alive and self.admin_state_up


def lacking(candidates: Iterable[Candidate], wanted: int, hosted: Collection[str]) -> int:
    """How many agents an object lacks. Dead and disabled agents do not count as agents that it has."""
    return max(wanted - sum(c.serves and c.id in hosted for c in candidates), 0)


def choose(candidates: Sequence[Candidate], wanted: int, hints: Sequence[str], hosted: Collection[str]) -> list[str]:
    """The agents to add to those that have the object (`hosted`) so that `wanted` serve it, or as many as possible."""
    free = [c for c in candidates if c.serves and c.id not in hosted and (not hints or c.zone in hints)]
    in_zone = Counter(c.zone for c in candidates if c.serves and c.id in hosted)
    chosen: list[str] = []
    for _ in range(min(lacking(candidates, wanted, hosted), len(free))):
        best = min(free, key=lambda c: (in_zone[c.zone], c.load, c.id))
        free.remove(best)
        in_zone[best.zone] += 1
        chosen.append(best.id)
    return chosen
