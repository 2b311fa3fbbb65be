"""Filters and queue lengths of devices in memory."""

from __future__ import annotations

from collections.abc import Collection

from neutrino.dataplane.tc.api import Item, TcError


class FakeTc:
    """Implements `Tc`."""

    def __init__(self) -> None:
        self.items: dict[str, frozenset[Item]] = {}
        self.broken: set[str] = set()
        self.writes = 0

    def read(self, device: str) -> frozenset[Item]:
        return self.items.get(device, frozenset())

    def replace(self, device: str, items: Collection[Item]) -> None:
        if device in self.broken:
            raise TcError(f"the filters of {device} cannot be changed: no discipline")
        self.writes += 1
        self.items[device] = frozenset(items)
