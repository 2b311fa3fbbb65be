"""Reconciles the objects of one kind, each by its key: the loop that the DHCP and L3 roles share.

A key is queued when the feed or the dataplane changes something of its object, at the first `synced`, and by the periodic
resync. A worker then reconciles the newest state of the object, so a thousand changes cost only as many reconciliations as
there is time for. An object that fails is requeued with back-off and reported; the others are not affected.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field

from neutrino.agent.runtime.measures import Measure, of_loop
from neutrino.agent.runtime.queue import RESYNC, USUAL, WorkQueue
from neutrino.agent.runtime.role import Drift, RoleFeed
from neutrino.metrics.catalog import DONE, FAILED, RECONCILE_SECONDS

LOG = logging.getLogger(__name__)
LIST_SECONDS = 5.0  # between attempts to list what is on the host


@dataclass
class ReconcileLoop:
    feed: RoleFeed
    kind: str
    label: str  # of an object, in log messages
    reconcile: Callable[[str], Awaitable[str]]  # gives the problem of the object that remains; empty: none
    known: Callable[[], AbstractSet[str]]  # objects that have any state on this host; blocking
    _: KW_ONLY
    failures: tuple[type[Exception], ...]  # of the drivers; any other exception is a bug, and logged with its traceback
    interval: Callable[[], float]  # of the resync, in seconds
    served: Callable[[], Iterable[str]]  # objects for the resync
    role: str = ""  # for metrics
    report_soon: Callable[[], None] = lambda: None
    notify_failed: Callable[[str, str], Awaitable[None]] | None = None
    workers: int = 4
    queue: WorkQueue[str] = field(default_factory=WorkQueue)
    problems: dict[str, str] = field(default_factory=dict)  # by key
    position: int | None = None  # of the feed: everything up to it is applied
    first_sync: asyncio.Event = field(default_factory=asyncio.Event)
    _sync: asyncio.Event = field(default_factory=asyncio.Event)
    _resynced: set[str] = field(default_factory=set)  # queued by the resync alone

    @property
    def is_synced(self) -> bool:
        """Whether the desired state is complete. Before that it is from the cache, and nothing may be deleted."""
        return self.first_sync.is_set()

    def put(self, key: str, priority: int = USUAL) -> None:
        self._resynced.discard(key)
        self.queue.put(key, priority)

    def synced(self) -> None:
        if not self.is_synced:
            self.first_sync.set()
            # Objects that were reconciled from the cache got additions only: they are reconciled again, in full.
            for key in self.feed.state.objects[self.kind]:
                self.put(key, RESYNC)
        self._sync.set()

    def is_drift(self, key: str) -> bool:
        """Whether a difference is drift: only the resync has queued the key, no change of the desired state."""
        return key in self._resynced

    def find(self, role: str, plan: Callable[[str], tuple[list[str], str]]) -> Drift:
        """The drift of all objects; `plan` gives the lines and the remaining problem of one. Blocking."""
        served = sorted(self.served())
        lines: list[str] = []
        problems: dict[str, str] = {}
        for key in served:
            try:
                changes, problems[key] = plan(key)
                lines += changes
            except Exception as error:  # a problem of this object alone
                problems[key] = str(error)
        if self.feed.is_synced:
            stale = sorted(self.known() - set(served))
            lines += [f"{self.label} {key} is not served here any more" for key in stale]
        return Drift(role, "\n".join(lines), {key: text for key, text in problems.items() if text})

    async def run(self) -> None:
        for key in self.feed.state.objects[self.kind]:
            self.put(key)  # from the cache, while the server is not reachable
        async with asyncio.TaskGroup() as group:
            for _ in range(self.workers):
                group.create_task(self._work())
            group.create_task(self._track_position())
            group.create_task(self._resync())
            group.create_task(self._resync_stale())

    async def _work(self) -> None:
        while True:
            await self._reconcile(await self.queue.get())

    def measures(self) -> Iterator[Measure]:
        yield from of_loop(self.role, len(self.queue), len(self.problems), self.position)

    async def _reconcile(self, key: str) -> None:
        began = time.monotonic()
        try:
            problem = await self.reconcile(key)
        except Exception as error:  # of this object alone: the others are served
            expected = isinstance(error, self.failures)
            delay, problem = self.queue.failed(key), str(error) if expected else f"{type(error).__name__}: {error}"
            if not expected and self.problems.get(key) != problem:
                LOG.exception("%s %s: unexpected error", self.label, key)  # once, not at every retry
            LOG.warning("%s %s cannot be applied, next attempt in %.1f s: %s", self.label, key, delay, problem)
            self.set_problem(key, problem)
            RECONCILE_SECONDS.observe(time.monotonic() - began, self.role, FAILED)
            if self.notify_failed is not None:
                await self.notify_failed(key, problem)
        else:
            if problem and self.problems.get(key) != problem:
                LOG.warning("%s %s: %s", self.label, key, problem)
            self.set_problem(key, problem)
            RECONCILE_SECONDS.observe(time.monotonic() - began, self.role, FAILED if problem else DONE)
            self.queue.done(key)

    def set_problem(self, key: str, problem: str) -> None:
        """Report the problem; empty: there is none any more."""
        if self.problems.get(key, "") == problem:
            return
        if problem:
            self.problems[key] = problem
            self.feed.error(self.kind, key, problem)
        else:
            del self.problems[key]
        self.report_soon()

    async def _track_position(self) -> None:
        """After the first sync, queue stale objects; after each, note the position once the queue is empty."""
        await self.first_sync.wait()
        # Deleted or moved to another host while no agent was running: the feed has no change for them.
        for key in await self._list_known() - self.feed.state.objects[self.kind].keys():
            self.put(key, RESYNC)
        while True:
            await self._sync.wait()
            self._sync.clear()
            position = self.feed.position  # before waiting: later changes are covered by the next `synced`
            await self.queue.empty()  # failed keys too: a position stands for what is applied, not for what was tried
            self.position = position

    async def _resync_stale(self) -> None:
        """Queue objects that are on the host and not served, once in the interval: no change of the feed names them."""
        await self.first_sync.wait()
        while True:
            await asyncio.sleep(self.interval())
            for key in await self._list_known() - set(self.served()):
                if key not in self.queue:
                    self.put(key, RESYNC)

    async def _list_known(self) -> AbstractSet[str]:
        while True:
            try:
                return await asyncio.to_thread(self.known)
            except self.failures as error:
                LOG.warning("stale %ss cannot be listed, retrying in %.0f s: %s", self.label, LIST_SECONDS, error)
            await asyncio.sleep(LIST_SECONDS)

    async def _resync(self) -> None:
        """Queue every object once in the interval, evenly spread: never all at once."""
        while True:
            keys = list(self.served())
            if not keys:
                await asyncio.sleep(min(1.0, self.interval()))
            for key in keys:
                await asyncio.sleep(self.interval() / len(keys))
                if key not in self.queue:  # else a change has queued it, and its differences are no drift
                    self.queue.put(key, RESYNC)
                    self._resynced.add(key)
