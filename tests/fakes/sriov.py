"""SR-IOV cards in memory: functions as a card's driver has them, with what it cannot set."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping

from neutrino.dataplane.sriov.api import Card, Function, LinkState, SetFunction, Setting, SriovError


def slot(number: int, card: int = 0) -> str:
    return f"0000:{3 + card:02x}:10.{number}"


class FakeEvents:
    """Readable when a card has changed."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        return self._descriptor

    def notify(self) -> None:
        os.eventfd_write(self._descriptor, 1)

    def drain(self) -> None:
        try:
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self._descriptor)


class FakeSriov:
    """Implements `Sriov`."""

    def __init__(self, *devices: str, functions: int = 4) -> None:
        self.cards = {
            device: Card(device, tuple(Function(index, slot(index, number)) for index in range(functions)))
            for number, device in enumerate(devices)
        }
        self.unsupported: set[Setting] = set()
        self.refused: set[Setting] = set()
        self.not_kept: set[Setting] = set()  # accepted, and not shown
        self.applied: list[SetFunction] = []
        self.entries: dict[str, set[str]] = {device: set() for device in devices}
        self.events: list[FakeEvents] = []

    # --- what libvirt and the host do ---

    def plug(self, device: str, index: int, mac: str, vlan: int | None = None) -> None:
        """An instance gets a function."""
        function = self.function(device, index)
        settings = function.settings if vlan is None else dataclasses.replace(function.settings, vlan=vlan)
        self._put(device, dataclasses.replace(function, instance_mac=mac, settings=settings))

    def unplug(self, device: str, index: int) -> None:
        self._put(device, dataclasses.replace(self.function(device, index), instance_mac=""))

    def change(self, device: str, index: int, **settings: object) -> None:
        """Another program sets a function."""
        function = self.function(device, index)
        changed = dataclasses.replace(function.settings, **settings)  # type: ignore[arg-type]
        self._put(device, dataclasses.replace(function, settings=changed))

    def remove(self, device: str) -> Card:
        card = self.cards.pop(device)
        self._notify()
        return card

    def restore(self, card: Card) -> None:
        self.cards[card.device] = card
        self._notify()

    def function(self, device: str, index: int) -> Function:
        return next(each for each in self.cards[device].functions if each.index == index)

    # --- the driver ---

    def read(self, devices: Iterable[str]) -> Mapping[str, Card]:
        return {device: self.cards[device] for device in devices if device in self.cards}

    def set(self, change: SetFunction) -> None:
        if change.device not in self.cards:
            raise SriovError(f"there is no device {change.device}")
        if change.setting in self.unsupported:
            raise SriovError(f"{change.text()}: Operation not supported", is_unsupported=True)
        if change.setting in self.refused or _contradicts(change):
            raise SriovError(f"{change.text()}: Invalid argument")
        self.applied.append(change)
        kept = {} if change.setting in self.not_kept else _values(change)
        self.change(change.device, change.index, **kept)  # the kernel notifies in any case

    def forwarded(self, device: str) -> frozenset[str]:
        if device not in self.cards:
            raise SriovError(f"there is no device {device}")
        return frozenset(self.entries[device])

    def forward(self, device: str, mac: str) -> None:
        self.entries[device].add(mac)

    def unforward(self, device: str, mac: str) -> None:
        self.entries[device].discard(mac)

    def watch(self) -> FakeEvents:
        self.events.append(FakeEvents())
        return self.events[-1]

    def _put(self, device: str, function: Function) -> None:
        others = tuple(each for each in self.cards[device].functions if each.index != function.index)
        self.cards[device] = Card(device, tuple(sorted((*others, function), key=lambda each: each.index)))
        self._notify()

    def _notify(self) -> None:
        for events in self.events:
            events.notify()


def _contradicts(change: SetFunction) -> bool:
    """Whether the minimum rate would be above the maximum, which the kernel refuses."""
    if change.setting is Setting.MAX_RATE:
        return 0 < change.value < change.other
    return change.setting is Setting.MIN_RATE and 0 < change.other < change.value


def _values(change: SetFunction) -> dict[str, object]:
    match change.setting:
        case Setting.LINK_STATE:
            return {"link_state": LinkState(change.value)}
        case Setting.VLAN:
            return {"vlan": change.value}
        case Setting.SPOOF_CHECK:
            return {"spoof_check": bool(change.value)}
        case Setting.TRUST:
            return {"trust": bool(change.value)}
        case Setting.MAX_RATE:
            return {"max_rate": change.value, "min_rate": change.other}
    return {"min_rate": change.value, "max_rate": change.other}
