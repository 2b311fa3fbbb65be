"""LabError, and bounded waiting that ends in one."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_SECONDS = 0.03


class LabError(Exception):
    """An error that the command line prints in one line, without a traceback."""


def wait_until(ready: Callable[[], bool], timeout: float, what: str) -> float:
    """Poll `ready` until it holds; returns the seconds that it took. `ready` raises when waiting longer is pointless.

    Polling, as the conditions are in other processes (the API, the kernel, Open vSwitch) without a common event source.
    """
    started = time.monotonic()
    while not ready():
        if time.monotonic() - started > timeout:
            raise LabError(f"{what} after {timeout:.0f} s")
        time.sleep(STEP_SECONDS)
    return time.monotonic() - started
