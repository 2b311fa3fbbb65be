"""Whether the database is frozen: a copy of Neutron's, whose takeover is not completed (`neutrino takeover open`), or which
was exported to Neutron again.

Meanwhile Neutron serves the hosts that are not converted, from the same objects. So nothing changes them here but the
reports of hosts: requests that write are refused, with the time to try again, and no network or router is moved to another
agent.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup, read, scalar
from neutrino.server.db.session import Database

KEPT_SECONDS: Final = 1.0  # every request that writes asks
_NOT_OPEN = Lookup(
    sa.select(t.takeovers.c.id)
    .where(t.takeovers.c.opened_at.is_(None) | t.takeovers.c.closed_at.is_not(None))
    .limit(1),
    scalar,
)


class Frozen:
    """Called: whether the database is frozen, as of at most a second ago."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._is_frozen = False
        self._until = float("-inf")

    def __call__(self) -> bool:
        if self._clock() < self._until:
            return self._is_frozen
        with self._lock:
            if self._clock() >= self._until:
                with self._db.read() as connection:
                    self._is_frozen = read(connection, _NOT_OPEN()) is not None
                self._until = self._clock() + KEPT_SECONDS
        return self._is_frozen
