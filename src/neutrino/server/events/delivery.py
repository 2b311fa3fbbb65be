"""A bounded queue with one delivering thread, so that a slow or dead service never blocks an API request.

When the queue is full, its oldest item is dropped, counted and logged: old notifications are worth less than new ones, and
memory is not spent on a service that may never come back.

The thread starts at the first `put`: a server is built before it forks its workers, and a thread does not survive a fork.
It takes everything that has gathered while it was busy, so batches grow under load, a single item is sent at once, and
there is no interval to tune.
"""

import logging
import os
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """What became of the items: `dropped` because the queue was full or closed, `failed` after attempts to deliver."""

    delivered: int = 0
    dropped: int = 0
    failed: int = 0
    waiting: int = 0


def backoff(first: float, ceiling: float) -> Iterator[float]:
    """Delays that double up to a ceiling, with jitter so that workers do not retry at the same moment."""
    delay = first
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, ceiling)


class DeliveryQueue(Generic[Item]):
    def __init__(
        self,
        name: str,
        deliver: Callable[[Sequence[Item]], int],
        *,
        limit: int,
        batch: int,
        key: Callable[[Item], Hashable] | None = None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """`deliver` gets batches in order and returns how many items it gave up.

        An item with the same `key` as a waiting one replaces it, at the end of the queue; without `key` all are kept.
        `finish` runs last in the delivering thread, after `close`.
        """
        if limit < 1 or batch < 1:
            raise ValueError("a delivery queue needs room for at least one item, and batches of at least one")
        self._name = name
        self._deliver = deliver
        self._limit = limit
        self._batch = batch
        self._key = key
        self._finish = finish
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._items: OrderedDict[Hashable, Item] = OrderedDict()
        self._serial = 0
        self._in_flight = 0
        self._overflow = 0  # dropped since the last batch was taken
        self._delivered = self._dropped = self._failed = 0
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    @property
    def counts(self) -> DeliveryCounts:
        with self._changed:
            waiting = len(self._items) + self._in_flight
            return DeliveryCounts(self._delivered, self._dropped, self._failed, waiting)

    def put(self, item: Item) -> None:
        """Queue one item and return at once, whatever the state of the service."""
        with self._changed:
            self._reset_after_fork()
            if self._closing.is_set():
                self._dropped += 1
                return
            self._serial += 1
            key: Hashable = self._serial if self._key is None else self._key(item)
            # Moved to the end: an equal event that is sent too early would precede events that it follows.
            self._items.pop(key, None)
            self._items[key] = item
            overflow_begins = False
            if len(self._items) > self._limit:
                self._items.popitem(last=False)
                self._dropped += 1
                overflow_begins = self._overflow == 0
                self._overflow += 1
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        if overflow_begins:  # logged once per overflow: one line per dropped item would fill the log
            LOG.warning("%s: the queue is full with %d items; the oldest are dropped", self._name, self._limit)

    def pause(self, seconds: float) -> bool:
        """For `deliver`: wait before another attempt. False: give up.

        `close` ends the wait early and leaves one last attempt, so that a stop lasts no longer than that attempt.
        """
        if self._closing.is_set():
            return False
        self._closing.wait(seconds)
        return True

    def close(self, timeout: float) -> int:
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
            self._dropped += len(self._items)
            self._items.clear()
        if left:
            LOG.warning("%s: closed with %d items undelivered", self._name, left)
        return left

    def _reset_after_fork(self) -> None:
        """A forked child inherits the items but not the thread; the parent still delivers them."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._thread = None
            self._items.clear()
            self._in_flight = 0

    def _run(self) -> None:
        while batch := self._take():
            try:
                failed = self._deliver(batch)
            except Exception:
                LOG.exception("%s: delivery failed; %d items are lost", self._name, len(batch))
                failed = len(batch)
            with self._changed:
                self._in_flight = 0
                self._failed += failed
                self._delivered += len(batch) - failed
        self._finish()

    def _take(self) -> list[Item]:
        """The next batch; empty when the queue is closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closing.is_set())
            size = min(len(self._items), self._batch)
            batch = [self._items.popitem(last=False)[1] for _ in range(size)]
            self._in_flight = len(batch)
            overflow, self._overflow = self._overflow, 0
        if overflow:
            LOG.warning("%s: dropped %d items while the service was slow or unreachable", self._name, overflow)
        return batch
