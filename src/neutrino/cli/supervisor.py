"""Granian's server, which gives up less soon.

Granian takes two deaths of one worker within seconds for a crash loop and ends. A worker that the kernel killed for
memory, twice, is no reason to leave a cloud without its network API: here workers are replaced until so many died in
a minute that something must be wrong with them.
"""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from granian.server import Server

MOST_DEATHS = 30
WITHIN_SECONDS = 60.0


class Supervisor(Server):  # type: ignore[misc,valid-type]
    """The one place where a class of another project is inherited from: granian offers no other way in."""

    _deaths: deque[float]

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        now = time.monotonic()
        deaths = self.__dict__.setdefault("_deaths", deque())
        deaths.extend(now for _ in workers)
        while deaths and now - deaths[0] > WITHIN_SECONDS:
            deaths.popleft()
        if len(deaths) < MOST_DEATHS:
            self.respawned_wrks.clear()  # what granian would take for a loop if another came soon
