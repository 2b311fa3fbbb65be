"""The host's Open vSwitch, as all roles share it: one replica of its database, made when it can be reached."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TypeVar

from neutrino.dataplane.ovsdb.api import InterfaceEvent, Ovsdb, OvsdbError

LOG = logging.getLogger(__name__)
FIRST_RETRY, LONGEST_RETRY = 0.1, 5.0  # seconds
T = TypeVar("T")
Events = tuple[InterfaceEvent, ...]


async def wait_connected(connect: Callable[[], T], failed: Callable[[str], None] = lambda reason: None) -> T:
    """What `connect` gives, in a thread, once Open vSwitch can be reached; until then `failed` hears why not."""
    delay = FIRST_RETRY
    while True:
        try:
            return await asyncio.to_thread(connect)
        except OvsdbError as error:
            LOG.warning("Open vSwitch cannot be reached, again in %.1f s: %s", delay, error)
            failed(str(error))
        await asyncio.sleep(delay)
        delay = min(2 * delay, LONGEST_RETRY)


def subscribe(ovsdb: Ovsdb, happened: Callable[[Events], None]) -> None:
    """Call this with every event of the switch, in this event loop."""
    loop = asyncio.get_running_loop()

    def told(events: Events) -> None:
        with contextlib.suppress(RuntimeError):  # we have ended; the driver, which others use, has not
            loop.call_soon_threadsafe(happened, events)

    ovsdb.subscribe(told)


class Switch:
    """`ovsdb` may be asked for from any thread; it blocks while it connects, and raises OvsdbError where it cannot."""

    def __init__(self, address: str, timeout: float = 30) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._ovsdb: Ovsdb | None = None

    def ovsdb(self) -> Ovsdb:
        with self._lock:
            if self._ovsdb is None:
                from neutrino.dataplane.ovsdb.real import RealOvsdb  # slow to load, and not needed to say what is wrong

                self._ovsdb = RealOvsdb(self._address, timeout=self._timeout)
            return self._ovsdb

    def close(self) -> None:
        with self._lock:
            if self._ovsdb is not None:
                self._ovsdb.close()
