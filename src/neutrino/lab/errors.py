"""LabError, and what ends in one: waiting with a timeout, and taking a lock."""

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from neutrino.errors import OperatorError
from neutrino.lab.timing import Deadline, pause_after, scaled

STEP_SECONDS = 0.03


class LabError(OperatorError):
    """A lab or a stand-in instance cannot be created, changed or removed."""


def wait_until(ready: Callable[[], bool], timeout: float, what: str) -> float:
    """Poll `ready` until it holds; returns the seconds that it took. `ready` raises when waiting longer is pointless.

    Polling, as the conditions are in other processes (the API, the kernel, Open vSwitch) without a common event source.
    """
    deadline = Deadline(scaled(timeout))
    began = deadline.started
    while not ready():
        if deadline.has_passed():
            raise LabError(f"{what} after {time.monotonic() - deadline.started:.0f} s")
        time.sleep(pause_after(time.monotonic() - began, STEP_SECONDS))
        began = time.monotonic()
    return time.monotonic() - deadline.started


@contextlib.contextmanager
def locked(path: Path, message: str) -> Iterator[None]:
    """Hold a lock file, or LabError with the message. The kernel releases the lock of a process that is killed."""
    with path.open("w") as file:
        path.chmod(0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LabError(message) from None
        yield
