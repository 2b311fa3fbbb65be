"""Granian's server with a higher limit on worker deaths.

Granian treats two deaths of one worker within seconds as a crash loop and stops. A worker that the OOM killer ended twice
must not take the network API down: here workers are respawned until MAX_DEATHS died within a minute.
"""

import time
from collections import deque
from typing import Any

from granian.server import Server

MAX_DEATHS = 30
WITHIN_SECONDS = 60.0


class Supervisor(Server):  # type: ignore[misc,valid-type]
    """Inherits from granian's class, and overrides a private method, as granian has no other hook."""

    def _respawn_workers(self, workers: Any, spawn_target: Any, target_loader: Any, delay: float = 0) -> None:
        super()._respawn_workers(workers, spawn_target, target_loader, delay)
        now = time.monotonic()
        deaths: deque[float] = self.__dict__.setdefault("_deaths", deque())
        deaths.extend(now for _ in workers)
        while deaths and now - deaths[0] > WITHIN_SECONDS:
            deaths.popleft()
        if len(deaths) < MAX_DEATHS:
            self.respawned_wrks.clear()  # granian's own record, by which it detects a loop
