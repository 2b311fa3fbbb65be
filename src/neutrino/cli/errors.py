"""Errors of commands: one line with cause and fix on standard error, and an exit status; a traceback only for debugging."""

import os
import select
import signal
import sys
import traceback

from neutrino.errors import OperatorError, RefusedToStart
from neutrino.lab.errors import LabError

INVALID = RefusedToStart.exit_status
DEBUG = "NEUTRINO_DEBUG"
BROKEN_PIPE = 128 + signal.SIGPIPE


class CommandError(OperatorError):
    def __init__(self, message: str, exit_status: int = OperatorError.exit_status) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def report(error: Exception) -> int:
    """Print the error to standard error; returns the exit status."""
    from oslo_config import cfg  # slow to import, and needed after an error only

    if isinstance(error, LabError):
        text = str(error)  # may end with several lines of a log
    elif isinstance(error, OperatorError | cfg.Error):
        text = one_line(error)
    else:
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        name = f"{type(error).__name__}: {one_line(error)}" if str(error) else type(error).__name__
        text = f"unexpected error: {name} ({DEBUG}=1 prints the traceback)"
    print_error(text)
    if isinstance(error, OperatorError):
        return error.exit_status
    return INVALID if isinstance(error, cfg.Error) else OperatorError.exit_status


def print_error(text: str) -> None:
    print(f"neutrino: {text}", file=sys.stderr, flush=True)


def one_line(error: object) -> str:
    """The error's text in one line, without SQLAlchemy's link to its own documentation."""
    lines = [line.strip() for line in str(error).splitlines()]
    return " ".join(line for line in lines if line and not line.startswith("(Background on this error at"))


# --- standard streams -------------------------------------------------------------------------------------------------


def open_standard_streams() -> None:
    """Open /dev/null for standard streams that are closed: the next file, as a database, would get their number."""
    for number, mode, name in ((0, "r", "stdin"), (1, "w", "stdout"), (2, "w", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def flush_output() -> int:
    """Write what is buffered for standard output; returns the exit status if that fails, else 0."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return _output_lost(error)
    return 0


def output_error(error: OSError) -> int:
    """The exit status after an error that may be one of writing to standard output; any other is raised again."""
    try:
        sys.stdout.flush()
    except OSError as lost:
        return _output_lost(lost)
    # A write that failed leaves nothing to flush if the output is not buffered, or larger than the buffer.
    if isinstance(error, BrokenPipeError) and _reader_is_gone():
        return _output_lost(error)
    raise error


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe or socket that is read no longer."""
    poll = select.poll()
    poll.register(1, 0)  # POLLERR and POLLHUP are always reported
    return bool(poll.poll(0))


def _output_lost(error: OSError) -> int:
    # Python flushes once more at its end, and would print that error with a traceback.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE  # the reader, such as `head`, has enough
    print_error(f"the output cannot be written: {error.strerror or error}")
    return OperatorError.exit_status


def unwind_on_sigterm() -> None:
    """Have SIGTERM raise SystemExit, so that cleanup runs as after Ctrl-C; by default it ends the process at once."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
