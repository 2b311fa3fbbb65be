"""Turns: how many hosts are compared and get their snapshot at the same time, and whether many wait for theirs."""

import asyncio
from contextlib import suppress
from typing import Final

# Of a storm, in which other work may wait: a host whose ports wait to be written reports no state of its agents meanwhile,
# and must not look dead.
STORM_SECONDS: Final = 30.0


class Turns:
    def __init__(self, most: int, storm_seconds: float = STORM_SECONDS) -> None:
        self._most = most
        self._storm_seconds = storm_seconds
        self._storm_ends = 0.0  # as far as other work waits for it
        self._free = asyncio.Semaphore(most)
        self._waiting = 0
        self._calm = asyncio.Event()
        self._calm.set()

    async def take(self) -> None:
        self._wait(1)
        try:
            await self._free.acquire()
        finally:
            self._wait(-1)

    def end(self) -> None:
        self._free.release()

    def _wait(self, change: int) -> None:
        self._waiting += change
        # More than a few: hosts that connect again and again hold up each other, not the reports of all.
        if self._waiting > self._most:
            if self._calm.is_set():
                self._storm_ends = asyncio.get_running_loop().time() + self._storm_seconds
            self._calm.clear()
        else:
            self._calm.set()

    async def calm(self, seconds: float) -> None:
        """Wait while many hosts wait for their turn, and no longer than this."""
        now = asyncio.get_running_loop().time()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(now + seconds, self._storm_ends)):
                await self._calm.wait()
