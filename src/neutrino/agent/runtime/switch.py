"""The host's Open vSwitch as all roles share it: one replica of its database, created once it is reachable."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from neutrino.dataplane.ovsdb.api import ClientFiles, InterfaceEvent, Ovsdb, OvsdbError

LOG = logging.getLogger(__name__)
FIRST_RETRY, LONGEST_RETRY = 0.1, 5.0  # seconds
T = TypeVar("T")
Events = tuple[InterfaceEvent, ...]


async def wait_connected(connect: Callable[[], T], failed: Callable[[str], None] = lambda reason: None) -> T:
    """Call `connect` in a thread until it succeeds, with back-off; `failed` gets the reason of each failure."""
    delay = FIRST_RETRY
    while True:
        try:
            return await asyncio.to_thread(connect)
        except OvsdbError as error:
            LOG.warning("Open vSwitch is not reachable, next attempt in %.1f s: %s", delay, error)
            failed(str(error))
        await asyncio.sleep(delay)
        delay = min(2 * delay, LONGEST_RETRY)


def subscribe(ovsdb: Ovsdb, notify: Callable[[Events], None]) -> None:
    """Call `notify` with events of the switch's interfaces, in this event loop."""
    loop = asyncio.get_running_loop()

    def from_driver(events: Events) -> None:
        with contextlib.suppress(RuntimeError):  # this loop is closed, while the driver serves others
            loop.call_soon_threadsafe(notify, events)

    ovsdb.subscribe(from_driver)


class SwitchStarts:
    """How often the switch was found running, for those who wait for its next start."""

    def __init__(self) -> None:
        self._number = 0
        self._counted = asyncio.Event()

    def count(self) -> None:
        self._number += 1
        self._counted.set()
        self._counted = asyncio.Event()

    async def more_than(self, number: int) -> int:
        """Return the number once it is larger than this one."""
        while self._number <= number:
            await self._counted.wait()
        return self._number


class Switch:
    """`ovsdb` may be called from any thread; it blocks while it connects, and raises OvsdbError on failure."""

    def __init__(self, address: str, timeout: float = 30, tls: ClientFiles | None = None) -> None:
        self._address = address
        self._tls = tls
        self._timeout = timeout
        self._lock = threading.Lock()  # roles connect at the same time, from threads: one replica for all
        self._ovsdb: Ovsdb | None = None

    def ovsdb(self) -> Ovsdb:
        with self._lock:
            if self._ovsdb is None:
                from neutrino.dataplane.ovsdb.real import RealOvsdb  # slow to import: a refused start does without it

                self._ovsdb = RealOvsdb(self._address, timeout=self._timeout, tls=self._tls)
            return self._ovsdb

    def close(self) -> None:
        with self._lock:
            if self._ovsdb is not None:
                self._ovsdb.close()
