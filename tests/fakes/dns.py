"""A DNS service in memory: records by zone, name and type; it can be down, and be waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from neutrino.features.dns.driver_api import ForeignRecords, RecordSet, Refused, Unreachable

Key = tuple[str, str]  # name and type


class FakeDns:
    """As a driver: `DnsDriver`. As the DNS: `records`."""

    def __init__(self, zones: tuple[str, ...] = ("example.net.", "example.com.")) -> None:
        self.zones = set(zones)
        self.records: dict[Key, frozenset[str]] = {}
        self.calls: list[tuple[RecordSet, frozenset[str]]] = []
        self.is_down = False
        self.loses_answers = False  # updates are made, and then there is no answer
        self.before_replace: Callable[[RecordSet], object] = lambda record_set: None
        self._changed = threading.Condition()

    def replace(
        self,
        record_set: RecordSet,
        addresses: frozenset[str],
        ours: frozenset[str],
        private: frozenset[str] = frozenset(),
    ) -> None:
        self.before_replace(record_set)
        with self._changed:
            self.calls.append((record_set, addresses))
            self._changed.notify_all()
            if self.is_down:
                raise Unreachable("down")
            if not any(record_set.zone == zone for zone in self.zones):
                raise Refused(f"no zone {record_set.zone}")
            key = record_set.name, record_set.type
            foreign = self.records.get(key, frozenset()) - ours
            if foreign and addresses:
                raise ForeignRecords(record_set, ", ".join(sorted(foreign)))
            left = addresses | foreign
            if left:
                self.records[key] = left
            else:
                self.records.pop(key, None)
            if self.loses_answers:
                raise Unreachable("no answer")

    def of(self, name: str, type_: str = "A") -> set[str]:
        return set(self.records.get((name, type_), ()))

    def wait(self, condition: Callable[[], bool], seconds: float = 30.0) -> None:
        """Until the condition holds, which is checked whenever the driver is called."""
        with self._changed:
            assert self._changed.wait_for(condition, seconds), self.calls
