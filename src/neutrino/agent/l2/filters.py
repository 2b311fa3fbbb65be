"""Filters and queue lengths of devices that extensions contribute: planned, applied, compared.

They are read once and then remembered, like flows. With the queues of a port its filters are gone, too, so those of a
device without contributions need no removal.
"""

import dataclasses
import logging
from collections.abc import Mapping

from neutrino.dataplane.tc.api import Item, Tc, TcError

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class FilterPlan:
    """The devices whose filters differ from the actual ones, and what they become."""

    changes: Mapping[str, frozenset[Item]] = dataclasses.field(default_factory=dict)

    def text(self) -> str:
        lines = (
            (device, each)
            for device, filters in self.changes.items()
            for each in sorted(filters, key=lambda item: item.text())
        )
        return "\n".join(f"{device} {each.text()}" for device, each in lines)


class Filters:
    """The packet filters of ports, for one thread at a time."""

    def __init__(self, tc: Tc) -> None:
        self._tc = tc
        self._actual: dict[str, frozenset[Item]] = {}

    def forget(self, device: str | None = None) -> None:
        for name in [*self._actual] if device is None else [device]:
            self._actual.pop(name, None)

    def plan(self, wanted: Mapping[str, frozenset[Item]], *, complete: bool) -> FilterPlan:
        """Unless `complete`, only of devices that have none."""
        self._actual = {device: known for device, known in self._actual.items() if device in wanted}
        changes = {}
        for device, filters in wanted.items():
            actual = self._read(device)
            if actual != filters and (complete or not actual):
                changes[device] = filters
        return FilterPlan(changes)

    def apply(self, difference: FilterPlan) -> dict[str, str]:
        """The problems, by device."""
        problems = {}
        for device, filters in difference.changes.items():
            self._actual.pop(device, None)
            try:
                self._tc.replace(device, filters)
                self._actual[device] = filters
            except TcError as error:
                problems[f"uplink {device}"] = str(error)
        return problems

    def drift(self) -> dict[str, tuple[int, int]]:
        """Devices whose filters are not as applied: how many are missing, and how many too many."""
        found = {}
        for device, applied in self._actual.items():
            try:
                actual = self._tc.read(device)
            except TcError as error:  # the device may be gone; a reconciliation reports it
                LOG.debug("%s", error)
                actual = frozenset()
            if actual != applied:
                found[device] = len(applied - actual), len(actual - applied)
        return found

    def _read(self, device: str) -> frozenset[Item]:
        if device not in self._actual:
            try:
                self._actual[device] = self._tc.read(device)
            except TcError as error:
                LOG.debug("%s", error)  # writing them fails in turn, and is reported
                return frozenset()
        return self._actual[device]
