"""The state of HA routers on this host: active or standby, as keepalived reports it, and two active hosts at once."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from neutrino.model.routing import Router

ACTIVE, STANDBY = "active", "standby"
_STATES = {"MASTER": ACTIVE, "BACKUP": STANDBY, "FAULT": STANDBY, "STOP": STANDBY}
CONFLICT_SECONDS = 10.0


def parse_state(line: str) -> str | None:
    """The state in a line such as `INSTANCE "VR_7" MASTER 50`; None for other lines."""
    words = line.split()
    return _STATES.get(words[2]) if len(words) >= 3 and words[0] == "INSTANCE" else None


class HaStateReader:
    """Reads the fifo of each router, into which keepalived writes its state when it changes."""

    def __init__(self, notify: Callable[[str, str], None]) -> None:
        self._notify = notify  # called with router and state
        self._open: dict[str, int] = {}
        self._partial_lines: dict[str, str] = {}

    def open(self, router_id: str, fifo: Path) -> None:
        if router_id in self._open:
            return
        # Opened for writing too: with no writer left, a fifo is readable (end of file) all the time.
        descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
        self._open[router_id] = descriptor
        asyncio.get_running_loop().add_reader(descriptor, self._read, router_id)

    def close(self, router_id: str) -> None:
        descriptor = self._open.pop(router_id, None)
        self._partial_lines.pop(router_id, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close_all(self) -> None:
        for router_id in tuple(self._open):
            self.close(router_id)

    def _read(self, router_id: str) -> None:
        try:
            data = os.read(self._open[router_id], 4096).decode(errors="replace")
        except BlockingIOError:
            return
        *lines, self._partial_lines[router_id] = (self._partial_lines.get(router_id, "") + data).split("\n")
        states = [state for line in lines if (state := parse_state(line)) is not None]
        if states:  # of several, only the last is true
            self._notify(router_id, states[-1])


class HaConflicts:
    """Detects an HA router that is active on this host and on another, as when the HA network is partitioned.

    The server records which host reported last that it is active. During a failover two hosts may both be active for a
    moment: only what lasts is a conflict. The host that was active before detects it, as the server names the other
    one.
    """

    def __init__(self, host: str, seconds: float = CONFLICT_SECONDS) -> None:
        self._host = host
        self._seconds = seconds
        self._since: dict[str, float] = {}

    def check(self, router: Router, *, active: bool, now: float) -> tuple[str, float | None]:
        """The problem, if there is one; and after how many seconds to check again, if so."""
        other = router.ha.active_host if router.ha is not None else ""
        if not active or other in ("", self._host):
            self.forget(router.id)
            return "", None
        since = self._since.setdefault(router.id, now)
        if now - since < self._seconds:
            return "", self._seconds - (now - since)
        return (
            f"is active here and on {other} at once: the hosts do not receive each other's VRRP advertisements, "
            "check the HA network between them",
            None,
        )

    def forget(self, router_id: str) -> None:
        self._since.pop(router_id, None)
