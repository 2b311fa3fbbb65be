"""Waiting for what other processes do, by polling: there is no event to wait for."""

from __future__ import annotations

import time
from collections.abc import Callable

from neutrino.lab.timing import Deadline, pause_after

STEP_SECONDS = 0.01


def eventually(condition: Callable[[], object], seconds: float = 30.0) -> None:
    deadline = Deadline(seconds)
    began = deadline.started
    while not condition():
        assert not deadline.has_passed(), f"it did not happen in {seconds:.0f} s"
        time.sleep(pause_after(time.monotonic() - began, STEP_SECONDS))
        began = time.monotonic()


def paced(condition: Callable[[], bool], pause: float = 0.3) -> Callable[[], bool]:
    """For a condition that takes much CPU time to find out: with a pause after each time that it does not hold."""

    def holds() -> bool:
        if condition():
            return True
        time.sleep(pause)
        return False

    return holds
