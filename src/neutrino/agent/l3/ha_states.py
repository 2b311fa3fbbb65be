"""Which HA routers are active on this host, as keepalived writes it into a fifo for each: heard at once, without asking."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

ACTIVE, STANDBY = "active", "standby"
_WORDS = {"MASTER": ACTIVE, "BACKUP": STANDBY, "FAULT": STANDBY, "STOP": STANDBY}


def parse_state(line: str) -> str | None:
    """`INSTANCE "VR_7" MASTER 50`, to a state; None for what is none."""
    words = line.split()
    return _WORDS.get(words[2]) if len(words) >= 3 and words[0] == "INSTANCE" else None


class HaStates:
    def __init__(self, told: Callable[[str, str], None]) -> None:
        self._told = told  # router, state
        self._open: dict[str, int] = {}
        self._rest: dict[str, str] = {}

    def listen(self, router_id: str, fifo: Path) -> None:
        if router_id in self._open:
            return
        # For writing too: a fifo whose last writer goes would be readable for ever.
        descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self._open[router_id] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._read, router_id)

    def forget(self, router_id: str) -> None:
        descriptor = self._open.pop(router_id, None)
        self._rest.pop(router_id, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for router_id in tuple(self._open):
            self.forget(router_id)

    def _read(self, router_id: str) -> None:
        try:
            data = os.read(self._open[router_id], 4096).decode(errors="replace")
        except BlockingIOError:
            return
        *lines, self._rest[router_id] = (self._rest.get(router_id, "") + data).split("\n")
        states = [state for line in lines if (state := parse_state(line)) is not None]
        if states:
            self._told(router_id, states[-1])
