"""What a host has to say, kept until the server has said that it is done: the newest of each, whatever the connection does.

Pure. A message is sent once in a connection; what was not acknowledged is sent again in the next. How much waits is
bounded: beyond that the oldest errors and then the oldest reports of ports go, and that is counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from neutrino.feed.messages import PortDown, PortReady, PortUp, Problem, Report, Status

MOST: Final = 20_000
Outward = Report | PortUp | PortDown | PortReady | Status | Problem


class UnacknowledgedReports:
    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._serial = 0
        self._waiting: dict[tuple[str, ...], Outward] = {}  # not acknowledged, by what it is about
        self._unsent: dict[tuple[str, ...], None] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, about: tuple[str, ...], make: Callable[[int], Outward]) -> None:
        """Say something about this; what was said of it before and has not gone out is not said any more."""
        self._serial += 1
        self._waiting.pop(about, None)
        self._unsent.pop(about, None)
        if len(self._waiting) >= self._most:
            self._drop()
        self._waiting[about] = make(self._serial)
        self._unsent[about] = None

    def _drop(self) -> None:
        errors = (about for about in self._waiting if about[0] == "error")
        oldest = next(errors, next(iter(self._waiting)))
        del self._waiting[oldest]
        self._unsent.pop(oldest, None)
        self.dropped += 1

    def take(self, most: int = 500) -> list[Outward]:
        """The next messages to send in this connection."""
        out: list[Outward] = []
        while self._unsent and len(out) < most:
            about = next(iter(self._unsent))
            del self._unsent[about]
            out.append(self._waiting[about])
        return out

    def acknowledged(self, serial: int) -> None:
        about = next((a for a, message in self._waiting.items() if message.serial == serial), None)
        if about is not None and about not in self._unsent:
            del self._waiting[about]

    def reconnected(self) -> None:
        """All that was not acknowledged is to be sent again, in the order in which it was said."""
        self._unsent = dict.fromkeys(self._waiting)
