"""Waiting for something that tells nobody when it happens, with an end."""

from __future__ import annotations

import time
from collections.abc import Callable

from neutrino.lab.errors import LabError

STEP_SECONDS = 0.03


def wait_until(ready: Callable[[], bool], timeout: float, what: str) -> float:
    """Ask until it is so; the seconds that it took. `ready` raises when waiting longer is of no use."""
    started = time.monotonic()
    while not ready():
        if time.monotonic() - started > timeout:
            raise LabError(f"{what} after {timeout:.0f} s")
        time.sleep(STEP_SECONDS)
    return time.monotonic() - started
