"""How many objects each agent serves, which the schedulers balance.

Counting reads every placement: with 10,000 networks that takes longer than all else of a request. Therefore counts are
exact while there are few placements, and kept for some seconds when there are many. What this process places meanwhile is
added, so that a burst of requests is spread as well; what others place, or delete, is seen with the next count.

Objects may weigh differently: with `parts`, such as ports, an agent's load is the number of parts of its objects.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

COUNTED: Final = 1000  # placements that are counted with each request
KEPT_SECONDS: Final = 10.0


@dataclass(eq=False)
class Loads:
    """Counts by the id of the agent, for one kind of placement."""

    most: float = COUNTED
    parts: sa.Table | None = None  # with the id of their object, as a foreign key to it; None: objects are counted
    clock: Callable[[], float] = time.monotonic
    by_chance: bool = False  # agents are chosen at random, whatever they serve
    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _until: float = field(default=0.0, init=False)

    def kept(self) -> Mapping[str, int] | None:
        """The counts, unless they have to be read."""
        return self._counts if self.by_chance or self.clock() < self._until else None

    def drawn(self, agent_ids: Iterable[str]) -> Mapping[str, int]:
        """Random numbers in place of counts."""
        return {agent_id: random.randrange(1 << 30) for agent_id in agent_ids}

    def read(self, counts: Mapping[str, int]) -> None:
        """Keep what has been read, if it is too much to be read with each request."""
        if sum(counts.values()) > self.most:
            self._counts, self._until = Counter(counts), self.clock() + KEPT_SECONDS

    def placed(self, agent_ids: Iterable[str]) -> None:
        """These agents get one object more; if that fails, the next count corrects it."""
        self._counts.update(agent_ids)
