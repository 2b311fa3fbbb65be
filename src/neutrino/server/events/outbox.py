"""A bounded outbox with one delivering thread, so that a neighbour that is slow or dead never holds an API request.

`put` only appends and returns. When the outbox is full its oldest item goes, is counted and is logged: news that is old
is worth less than news that is fresh, and memory is not spent on a neighbour that may never come back.

The thread starts at the first `put`, because a server builds its parts before it forks its workers, and a thread does
not survive a fork. It takes whatever has gathered since it was last free: under load batches grow by themselves, and
a lone item leaves at once. There is no interval to tune.
"""

from __future__ import annotations

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
class OutboxCounts:
    """What became of the items so far. `dropped` had to make room; `failed` were tried and given up."""

    delivered: int = 0
    dropped: int = 0
    failed: int = 0
    waiting: int = 0


def backoff(first: float, ceiling: float) -> Iterator[float]:
    """Waits that double up to a ceiling, with jitter so that many workers do not knock at the same moment."""
    wait = first
    while True:
        yield wait * random.uniform(0.5, 1.0)
        wait = min(wait * 2, ceiling)


class Outbox(Generic[Item]):
    """Items wait here in order until `deliver` has had them; `deliver` returns how many of them it gave up."""

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
        """An item with the same `key` as a waiting one takes its place, at the end. Without `key`, all are kept.

        `finish` runs last in the delivering thread, when the outbox is closed.
        """
        if limit < 1 or batch < 1:
            raise ValueError("an outbox needs room for at least one item, and batches of at least one")
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
        self._overflow = 0
        self._delivered = 0
        self._dropped = 0
        self._failed = 0
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    @property
    def counts(self) -> OutboxCounts:
        with self._changed:
            waiting = len(self._items) + self._in_flight
            return OutboxCounts(self._delivered, self._dropped, self._failed, waiting)

    def put(self, item: Item) -> None:
        """Queue one item and return at once, whatever the state of the other side."""
        with self._changed:
            self._settle_after_fork()
            if self._closing.is_set():
                self._dropped += 1
                return
            self._serial += 1
            key: Hashable = self._serial if self._key is None else self._key(item)
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
        if overflow_begins:
            LOG.warning("%s: %d items wait and the outbox is full; the oldest are dropped", self._name, self._limit)

    def pause(self, seconds: float) -> bool:
        """For `deliver`: wait before another attempt. False means give up.

        `close` ends the wait early and leaves one last attempt, so that a stop takes no longer than that attempt.
        """
        if self._closing.is_set():
            return False
        self._closing.wait(seconds)
        return True

    def close(self, timeout: float) -> int:
        """Take no more items, deliver what can be delivered within `timeout`, and say how many were left."""
        with self._changed:
            self._settle_after_fork()
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

    def _settle_after_fork(self) -> None:
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
        """The next batch; empty when the outbox is closed and nothing waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._closing.is_set())
            size = min(len(self._items), self._batch)
            batch = [self._items.popitem(last=False)[1] for _ in range(size)]
            self._in_flight = len(batch)
            overflow, self._overflow = self._overflow, 0
        if overflow:
            LOG.warning("%s: dropped %d items while the other side was slow or away", self._name, overflow)
        return batch
