"""When a router's addresses are announced: after a change, twice more, and then periodically."""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
REPEAT_SECONDS = (1.0, 4.0)  # after a change: a new port may not have been wired the first time


@dataclass
class Announcements:
    announce: Callable[[Router], None]  # blocks
    is_announced: Callable[[Router], bool]  # by this host
    routers: Callable[[], Iterable[Router]]
    interval: float
    _timers: dict[str, list[asyncio.TimerHandle]] = field(default_factory=dict)  # by router

    def now(self, router: Router) -> None:
        if self.is_announced(router):
            asyncio.get_running_loop().run_in_executor(None, self._announce, router)

    def repeat(self, router: Router) -> None:
        """Repetitions start anew with each change."""
        self.cancel(router.id)
        later = asyncio.get_running_loop().call_later
        self._timers[router.id] = [later(delay, self.now, router) for delay in REPEAT_SECONDS]

    def cancel(self, router_id: str) -> None:
        for timer in self._timers.pop(router_id, ()):
            timer.cancel()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.interval)
            for router in self.routers():
                if self.is_announced(router):
                    await asyncio.to_thread(self._announce, router)

    def _announce(self, router: Router) -> None:
        try:
            self.announce(router)
        except Exception as error:  # one router must not end the announcements of all others
            LOG.warning("addresses of router %s are not announced: %s", router.id, error)
