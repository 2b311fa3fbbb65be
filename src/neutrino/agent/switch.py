"""The host's Open vSwitch, as all roles share it: one replica of its database, made when it can be reached."""

from __future__ import annotations

import threading

from neutrino.dataplane.ovsdb.api import Ovsdb


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
