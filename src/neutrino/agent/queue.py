"""Work to do, by key: what is asked for again while it waits is done once, what fails waits longer each time.

A key stands for a thing (a network, a router, all of a host's ports), never for an event: whoever takes it looks at the
newest state. So a thousand changes to one router cost as many rounds as there is time for, and the last round sees the
last state.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_DELAY = 0.1
LONGEST_DELAY = 30.0


class WorkQueue(Generic[K]):
    """`get` gives the most urgent key (the lowest number), of equals the one that waits longest; one taker per key."""

    def __init__(self, *, first_delay: float = FIRST_DELAY, longest_delay: float = LONGEST_DELAY) -> None:
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._count = itertools.count()
        self._waiting: dict[K, tuple[int, int]] = {}  # key, to (priority, turn)
        self._heap: list[tuple[int, int, K]] = []
        self._working: set[K] = set()
        self._again: dict[K, int] = {}  # asked for while it was worked on
        self._failures: dict[K, int] = {}
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._ready = asyncio.Event()
        self._waking: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._delayed) + len(self._working)

    def is_working(self, key: K) -> bool:
        return key in self._working

    async def idle(self) -> None:
        """Until nobody works on anything."""
        await self._until(lambda: not self._working)

    async def tried(self) -> None:
        """Until all that was asked for has been done or has failed, and waits to be tried again."""
        await self._until(lambda: not self._working and not self._waiting)

    async def empty(self) -> None:
        """Until all that was asked for is done."""
        await self._until(lambda: len(self) == 0)

    def put(self, key: K, priority: int = 10) -> None:
        """Ask for it; a key that waits after a failure is tried now, as its state may be another."""
        timer = self._delayed.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        known = self._waiting.get(key)
        if known is not None and known[0] <= priority:
            return
        turn = known[1] if known is not None else next(self._count)
        self._waiting[key] = priority, turn
        heapq.heappush(self._heap, (priority, turn, key))
        self._ready.set()

    async def get(self) -> K:
        while True:
            while self._heap:
                priority, turn, key = heapq.heappop(self._heap)
                if self._waiting.get(key) == (priority, turn):  # else it became more urgent, and is there twice
                    del self._waiting[key]
                    self._working.add(key)
                    return key
            self._ready.clear()
            await self._ready.wait()

    def done(self, key: K) -> None:
        self._failures.pop(key, None)
        self._release(key)
        self._wake()

    def failed(self, key: K, priority: int = 10) -> float:
        """It has to be tried again; after how many seconds, if nobody asks before."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay: float = min(self._longest_delay, self._first_delay * 2.0 ** min(failures - 1, 30))
        self._release(key)
        if key not in self._waiting:
            self._delay(key, delay, priority)
        self._wake()
        return delay

    def later(self, key: K, delay: float, priority: int = 10) -> None:
        """Ask for it in some time, if nobody does before."""
        if key not in self._waiting and key not in self._delayed and key not in self._working:
            self._delay(key, delay, priority)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    def forget(self, key: K) -> None:
        """The thing is gone."""
        timer = self._delayed.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._waiting.pop(key, None)
        self._failures.pop(key, None)
        self._again.pop(key, None)
        self._wake()

    def _delay(self, key: K, delay: float, priority: int) -> None:
        def due() -> None:
            self._delayed.pop(key, None)
            self.put(key, priority)

        self._delayed[key] = asyncio.get_running_loop().call_later(delay, due)

    def _release(self, key: K) -> None:
        self._working.discard(key)
        priority = self._again.pop(key, None)
        if priority is not None:
            self.put(key, priority)

    async def _until(self, reached: Callable[[], bool]) -> None:
        if not reached():
            woken = asyncio.get_running_loop().create_future()
            self._waking.append((reached, woken))
            await woken

    def _wake(self) -> None:
        """Whoever waits for a moment like this one: it counts even if the next key is taken before they run."""
        for waiting in self._waking.copy():
            reached, woken = waiting
            if woken.done() or reached():
                self._waking.remove(waiting)
                if not woken.done():
                    woken.set_result(None)


async def work(queue: WorkQueue[K], do: Callable[[K], object], *, workers: int = 1) -> None:
    """Take keys for ever; `do` is awaited and answers for its own errors, with `done` or `failed`."""

    async def one() -> None:
        while True:
            key = await queue.get()
            await do(key)  # type: ignore[misc]

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(one())
