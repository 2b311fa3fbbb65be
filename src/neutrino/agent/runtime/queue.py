"""Work queue by key, with priorities and back-off.

A key stands for an object (a network, a router, all ports of a host), never for an event: a worker reads the newest state
of the object. A thousand changes of one router cost only as many reconciliations as there is time for, and the last one
sees the last state.
"""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from neutrino import request_ids

K = TypeVar("K", bound=Hashable)

FIRST_DELAY, LONGEST_DELAY = 0.1, 30.0  # seconds
URGENT, USUAL, RESYNC = 1, 10, 20  # priorities; the resync is after everything that has changed


class WorkQueue(Generic[K]):
    """`get` gives the key with the lowest priority number, then the longest waiting; a key has one worker at a time."""

    def __init__(self, *, first_delay: float = FIRST_DELAY, longest_delay: float = LONGEST_DELAY) -> None:
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._count = itertools.count()
        self._waiting: dict[K, tuple[int, int]] = {}  # key → (priority, turn)
        self._heap: list[tuple[int, int, K]] = []
        self._working: set[K] = set()
        self._again: dict[K, int] = {}  # put while a worker had it → priority
        self._failures: dict[K, int] = {}
        self._delayed: dict[K, asyncio.TimerHandle] = {}
        self._requests: dict[K, str] = {}  # ids of the newest requests for which keys were put
        self._ready = asyncio.Event()
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def __len__(self) -> int:
        return len(self._waiting) + len(self._delayed) + len(self._working)

    def __contains__(self, key: K) -> bool:
        """Whether the key waits, is delayed, or has a worker."""
        return key in self._waiting or key in self._delayed or key in self._working

    async def idle(self) -> None:
        """Wait until no worker has a key."""
        await self._wait_for(lambda: not self._working)

    async def tried(self) -> None:
        """Wait until every key is done, or waits after a failure."""
        await self._wait_for(lambda: not self._working and not self._waiting)

    async def empty(self) -> None:
        """Wait until every key is done."""
        await self._wait_for(lambda: len(self) == 0)

    def put(self, key: K, priority: int = USUAL) -> None:
        """Queue a key. One that waits after a failure is tried at once, as its state may have changed."""
        self.note_request(key)
        timer = self._delayed.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._working:  # its worker may have read the state before this change
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        known = self._waiting.get(key)
        if known is not None and known[0] <= priority:
            return
        turn = known[1] if known is not None else next(self._count)  # a raised priority keeps its turn
        self._waiting[key] = priority, turn
        heapq.heappush(self._heap, (priority, turn, key))
        self._ready.set()

    def note_request(self, key: K) -> None:
        """Keep the current request id for the next work on this key, whose log lines then show it."""
        if request_id := request_ids.get():
            self._requests[key] = request_id

    async def get(self) -> K:
        """The next key; the calling task works for the request that caused it from then on."""
        while True:
            while self._heap:
                priority, turn, key = heapq.heappop(self._heap)
                # Otherwise the key was put again with a higher priority, and the heap has two entries of it.
                if self._waiting.get(key) == (priority, turn):
                    del self._waiting[key]
                    self._working.add(key)
                    request_ids.CURRENT.set(self._requests.pop(key, ""))
                    return key
            self._ready.clear()
            await self._ready.wait()

    def done(self, key: K) -> None:
        self._failures.pop(key, None)
        self._release(key)
        self._wake()

    def failed(self, key: K, priority: int = USUAL) -> float:
        """Requeue with back-off; gives the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay: float = min(self._longest_delay, self._first_delay * 2.0 ** min(failures - 1, 30))  # 2.0**1024 overflows
        self._release(key)
        if key not in self._waiting:  # else it was put meanwhile: the reason of the failure may be gone
            self._delay(key, delay, priority)
        self._wake()
        return delay

    def later(self, key: K, delay: float, priority: int = USUAL) -> None:
        """Queue a key after a delay, unless it is queued already."""
        if key not in self:
            self._delay(key, delay, priority)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

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

    async def _wait_for(self, reached: Callable[[], bool]) -> None:
        if not reached():
            woken = asyncio.get_running_loop().create_future()
            self._waiters.append((reached, woken))
            await woken

    def _wake(self) -> None:
        """Conditions are checked here, not by the waiters: by the time they run, a worker may have the next key."""
        for waiter in self._waiters.copy():
            reached, woken = waiter
            if woken.done() or reached():
                self._waiters.remove(waiter)
                if not woken.done():
                    woken.set_result(None)
