"""Which agents take a network: a pure choice, without a database or a clock.

Agents that are alive and up and do not have the network yet are candidates, those of the hinted zones alone where there
are hints. Zones that have fewest of the network's agents come first, then the agents with the least load, then the
smallest id: so agents of one network stand in different zones, and the same question has the same answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    id: str
    zone: str | None = None
    load: int = 0  # networks that it has
    alive: bool = True
    admin_state_up: bool = True
    host: str = ""

    @property
    def serves(self) -> bool:
        return self.alive and self.admin_state_up


def lacking(candidates: Iterable[Candidate], wanted: int, hosted: Collection[str]) -> int:
    """How many agents a network lacks; those that are dead or down do not count."""
    return max(wanted - sum(c.serves and c.id in hosted for c in candidates), 0)


def choose(candidates: Sequence[Candidate], wanted: int, hints: Sequence[str], hosted: Collection[str]) -> list[str]:
    """The agents to add to those that have the network (`hosted`) so that `wanted` serve it, or as many as can be."""
    free = [c for c in candidates if c.serves and c.id not in hosted and (not hints or c.zone in hints)]
    in_zone = Counter(c.zone for c in candidates if c.serves and c.id in hosted)
    chosen: list[str] = []
    for _ in range(min(lacking(candidates, wanted, hosted), len(free))):
        best = min(free, key=lambda c: (in_zone[c.zone], c.load, c.id))
        free.remove(best)
        in_zone[best.zone] += 1
        chosen.append(best.id)
    return chosen
