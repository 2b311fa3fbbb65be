"""Progress of long commands: a bar on a terminal, lines elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import Final, TextIO

from neutrino.takeover.importer import Progress

_WIDTH: Final = 30
_CLEAR: Final = "\r\x1b[K"
EVERY: Final = 10.0  # seconds between lines of one step


def progress(stream: TextIO | None = None) -> Progress:
    """Shows the steps of a command on standard error; the step "" ends it."""
    to = stream or sys.stderr
    return bar(to) if to.isatty() else lines(to)


def bar(stream: TextIO) -> Progress:
    def show(step: str, done: int, total: int) -> None:
        if not step:
            stream.write(_CLEAR)
        else:
            filled = _WIDTH * min(done, total) // max(total, 1)
            stream.write(f"{_CLEAR}[{'#' * filled:<{_WIDTH}}] {step} {done}/{total}")
        stream.flush()

    return show


def lines(stream: TextIO, clock: Callable[[], float] = time.monotonic) -> Progress:
    """A line for each step when it is complete, and while it takes long; none for steps without objects."""
    last = clock()

    def show(step: str, done: int, total: int) -> None:
        nonlocal last
        is_complete = done >= total
        if not step or total == 0 or not (is_complete or clock() - last >= EVERY):
            return
        last = clock()
        print(f"{step}: {done}" if is_complete else f"{step}: {done} of {total}", file=stream, flush=True)

    return show
