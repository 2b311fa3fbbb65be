"""When a router's addresses are told on its links: soon after a change, twice more, and then now and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from neutrino.model.routing import Router

LOG = logging.getLogger(__name__)
AGAIN_SECONDS = (1.0, 4.0)  # until addresses are told once more: the port may not have been wired the first time


class Announcements:
    """`say` blocks; `speaks` says whether this host speaks for a router, of `routers` that are here."""

    def __init__(
        self,
        say: Callable[[Router], None],
        speaks: Callable[[Router], bool],
        routers: Callable[[], Iterable[Router]],
        interval: float,
    ) -> None:
        self._say = say
        self._speaks = speaks
        self._routers = routers
        self._interval = interval
        self._again: dict[str, list[asyncio.TimerHandle]] = {}  # by router

    def soon(self, router: Router) -> None:
        if self._speaks(router):
            task = asyncio.get_running_loop().run_in_executor(None, self._say, router)
            task.add_done_callback(_ignore)

    def again(self, router: Router) -> None:
        """After the last of several changes: what is new was said with each of them."""
        self.forget(router.id)
        later = asyncio.get_running_loop().call_later
        self._again[router.id] = [later(delay, self.soon, router) for delay in AGAIN_SECONDS]

    def forget(self, router_id: str) -> None:
        for timer in self._again.pop(router_id, ()):
            timer.cancel()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            for router in self._routers():
                if self._speaks(router):
                    try:
                        await asyncio.to_thread(self._say, router)
                    except Exception as error:  # of this router alone
                        LOG.warning("router %s could not be announced: %s", router.id, error)


def _ignore(done: asyncio.Future[None]) -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        LOG.info("addresses could not be announced: %s", error)
