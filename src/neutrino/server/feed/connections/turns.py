"""Turns: how many hosts are compared and get their snapshot at the same time, and whether many wait for theirs."""

import asyncio
from contextlib import suppress


class Turns:
    def __init__(self, most: int) -> None:
        self._most = most
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
            self._calm.clear()
        else:
            self._calm.set()

    async def calm(self, seconds: float) -> bool:
        """Wait while many hosts wait for their turn, and no longer than this; whether they do not any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._calm.wait()
        return self._calm.is_set()
