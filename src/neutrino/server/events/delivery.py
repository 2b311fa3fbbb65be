"""A bounded queue with one delivering thread, so that a slow or dead service never blocks an API request.

When the queue is full, its oldest item is dropped, counted and logged: old notifications are worth less than new ones, and
memory is not spent on a service that may never come back.

The thread starts at the first `put`: a server is built before it forks its workers, and a thread does not survive a fork.
It takes everything that has gathered while it was busy, so batches grow under load, a single item is sent at once, and
there is no interval to tune. Items that the service does not accept now are retried with back-off, before later ones.
"""

import logging
import math
import os
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    limit: int = 10_000  # waiting items
    batch: int = 100  # items in one delivery
    first_retry: float = 0.1  # seconds
    slowest_retry: float = 10.0
    retry_for: float = math.inf  # seconds, after which a batch is given up
    clock: Callable[[], float] = time.monotonic


@dataclass(frozen=True, slots=True)
class Undelivered(Generic[Item]):
    """The items of a batch, its last ones, that the service does not accept now. They are retried."""

    items: Sequence[Item]
    reason: str
    some_accepted: bool = False  # the service is there: back-off starts again


def backoff(first: float, ceiling: float) -> Iterator[float]:
    """Delays that double up to a ceiling, with jitter so that workers do not retry at the same moment."""
    delay = first
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, ceiling)


@dataclass(eq=False)
class DeliveryQueue(Generic[Item]):
    name: str
    deliver: Callable[[Sequence[Item]], Undelivered[Item] | None]  # gets batches in order
    options: DeliveryOptions
    merge_equal: bool = False  # an item replaces a waiting one that equals it, at the end of the queue
    finish: Callable[[], None] = lambda: None  # runs last in the delivering thread, after `close`

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._items: OrderedDict[Hashable, Item] = OrderedDict()
        self._serial = 0
        self._in_flight = 0
        self._overflow = 0  # dropped since the last batch was taken
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def put(self, item: Item) -> None:
        """Queue one item and return at once, whatever the state of the service."""
        with self._changed:
            self._reset_after_fork()
            if self._closing.is_set():
                return
            self._serial += 1
            key: Hashable = item if self.merge_equal else self._serial
            # Moved to the end: an equal event that is sent too early would precede events that it follows.
            self._items.pop(key, None)
            self._items[key] = item
            if len(self._items) > self.options.limit:
                self._items.popitem(last=False)
                if self._overflow == 0:  # logged once per overflow: one line per dropped item would fill the log
                    LOG.warning(
                        "%s: the queue is full with %d items; the oldest are dropped", self.name, len(self._items)
                    )
                self._overflow += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is left; False if the time was not enough."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._items and not self._in_flight, timeout)

    def close(self, timeout: float = 5.0) -> int:
        """Accept no more items and deliver what is possible within `timeout`; returns how many are left."""
        with self._changed:
            self._reset_after_fork()
            self._closing.set()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(timeout)
        with self._changed:
            left = len(self._items) + self._in_flight
            self._items.clear()
        if left:
            LOG.warning("%s: closed with %d items undelivered", self.name, left)
        return left

    def _reset_after_fork(self) -> None:
        """A forked child inherits the items but not the thread; the parent still delivers them."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._thread = None
            self._items.clear()
            self._in_flight = 0

    # --- the delivering thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while batch := self._take():
            try:
                self._deliver_or_give_up(batch)
            except Exception:
                LOG.exception("%s: delivery failed; %d items are lost", self.name, len(batch))
            with self._changed:
                self._in_flight = 0
                self._changed.notify_all()
        self.finish()

    def _take(self) -> list[Item]:
        """The next batch; empty when the queue is closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closing.is_set())
            size = min(len(self._items), self.options.batch)
            batch = [self._items.popitem(last=False)[1] for _ in range(size)]
            self._in_flight = len(batch)
            overflow, self._overflow = self._overflow, 0
        if overflow:
            LOG.warning("%s: dropped %d items while the service was slow or unreachable", self.name, overflow)
        return batch

    def _deliver_or_give_up(self, batch: Sequence[Item]) -> None:
        """Deliver a batch in as many attempts as it takes, but within the time limit."""
        options = self.options
        give_up_at = options.clock() + options.retry_for
        delays = backoff(options.first_retry, options.slowest_retry)
        while undelivered := self.deliver(batch):
            if undelivered.some_accepted:
                delays = backoff(options.first_retry, options.slowest_retry)
            batch, delay = undelivered.items, next(delays)
            LOG.warning("%s are delayed, %d in this batch: %s", self.name, len(batch), undelivered.reason)
            # `close` ends a wait and leaves one last attempt, so that a stop lasts no longer than that attempt.
            if self._closing.is_set() or options.clock() + delay > give_up_at:
                LOG.error("%s: %d items are given up: the service did not accept them in time", self.name, len(batch))
                return
            self._closing.wait(delay)
