"""How requests survive a database that fails over: they wait a bounded time for the next connection, and repeat.

`Outage` measures how long the database has been failing, for all threads of the process: requests wait together for the
first seconds of an outage, and when it lasts longer they are refused at once instead of filling all workers.

A read is repeated on a new connection (`reads.ReadConnection`): reads are in autocommit, so each is independent.
"""

import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from neutrino.metrics.catalog import UNREACHABLE

LOG = logging.getLogger(__name__)
PAUSE_SECONDS: Final = (0.02, 0.5)  # between attempts: the first may find another node at once
FORGET_SECONDS: Final = 5.0  # without a failure: the next one begins another outage


class Outage:
    """The time since the database began to fail. Thread-safe."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic, name: str = "") -> None:
        self._limit = limit
        self._name = name  # of the database
        self._refused = float("-inf")
        self._clock = clock
        self._lock = threading.Lock()
        self._began: float | None = None
        self._last = 0.0

    def failed(self, cause: object) -> None:
        """A statement found the database unavailable; logged once for an outage and then every second."""
        now = self._clock()
        with self._lock:
            first = self._began is None or now - self._last > FORGET_SECONDS
            quiet = not first and now - self._last < 1.0
            if first:
                self._began = now
            self._last = now
        UNREACHABLE.inc()
        if not quiet:
            LOG.error("the database is unavailable: %s", cause)

    def not_writable(self, cause: object) -> None:
        """A statement could not be written to disk; logged once a second."""
        now = self._clock()
        if now - self._refused >= 1.0:
            self._refused = now
            LOG.error("the database %s cannot be written: %s", self._name, cause)

    def succeeded(self) -> None:
        """A connection was made, or a statement executed."""
        if self._began is not None:  # without the lock: nearly always None
            with self._lock:
                self._began = None

    def wait(self, tries: int, since: float) -> bool:
        """Wait before another attempt of work that began at `since`; False if it, or the outage, has lasted too long."""
        with self._lock:
            began = since if self._began is None else min(self._began, since)
        if self._clock() - began >= self._limit:
            return False
        shortest, longest = PAUSE_SECONDS
        # Jitter: all threads lost their connections at the same moment.
        time.sleep(min(longest, shortest * (1 << min(tries, 6))) * (0.5 + random.random() / 2))
        return True


def discard(connection: Connection) -> None:
    """Have the next statement use another connection of the driver: this one is lost, or its node executes nothing."""
    try:
        if connection.in_transaction():
            connection.rollback()
        if not connection.closed and not connection.invalidated:
            connection.invalidate()
    except sa.exc.SQLAlchemyError:  # the rollback of a lost connection fails too
        connection.invalidate()
        if connection.in_transaction():
            connection.rollback()
