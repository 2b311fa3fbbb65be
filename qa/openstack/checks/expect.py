"""What the checks share: expectations, and waiting for them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

STEP_SECONDS = 0.2
LONGEST_FACTOR = 5.0


class CheckError(Exception):
    """The cloud does not do what it should."""


def expect(condition: object, message: str) -> None:
    if not condition:
        raise CheckError(message)


def until(ready: Callable[[], object], what: str, seconds: float = 60.0) -> float:
    """Wait until `ready` is true, or CheckError; returns the seconds that it took. On a busy machine it waits longer."""
    began = time.monotonic()
    while not ready():
        passed = time.monotonic() - began
        if passed > seconds * slowness(os.getloadavg()[0], os.cpu_count() or 1):
            raise CheckError(f"{what}: not within {passed:.0f} s")
        time.sleep(STEP_SECONDS)
    return time.monotonic() - began


def slowness(load: float, processors: int) -> float:
    """By how much longer an emulated guest takes while so many processes share the processors: 1 on an idle machine."""
    return min(max(load / processors, 1.0), LONGEST_FACTOR)
