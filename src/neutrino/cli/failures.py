"""Failed starts: one line with the cause and the fix, and an exit status; never a traceback."""

from __future__ import annotations

import os
import sys
import traceback

REFUSED = 2  # the options are wrong: starting again does not help
FAILED = 1  # the machine or a server it needs is not as expected: starting again may help
DEBUG = "NEUTRINO_DEBUG"


class CannotStart(Exception):
    """A command cannot do its work; the text says why and what to do about it."""

    def __init__(self, message: str, status: int = FAILED) -> None:
        super().__init__(message)
        self.status = status


def report(error: Exception) -> int:
    """Print the cause on one line of standard error; the exit status."""
    if isinstance(error, CannotStart):
        print(f"neutrino: {one_line(error)}", file=sys.stderr, flush=True)
        return error.status
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    text = f"{type(error).__name__}: {one_line(error)}" if str(error) else type(error).__name__
    print(f"neutrino: unexpected error: {text} ({DEBUG}=1 prints the traceback)", file=sys.stderr, flush=True)
    return FAILED


def one_line(error: object) -> str:
    """Drivers and libraries report in several lines, often with a hint that is only about themselves."""
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("(Background on this error at"))
