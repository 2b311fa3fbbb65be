"""What the checks share: expectations, and waiting for them."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_SECONDS = 0.2


class CheckError(Exception):
    """The cloud does not do what it should."""


def expect(condition: object, message: str) -> None:
    if not condition:
        raise CheckError(message)


def until(ready: Callable[[], object], what: str, seconds: float = 60.0) -> float:
    """Wait until `ready` is true, or CheckError; returns the seconds that it took."""
    began = time.monotonic()
    while not ready():
        if time.monotonic() - began > seconds:
            raise CheckError(f"{what}: not within {seconds:.0f} s")
        time.sleep(STEP_SECONDS)
    return time.monotonic() - began
