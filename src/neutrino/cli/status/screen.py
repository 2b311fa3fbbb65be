"""A live screen: redrawn in place every two seconds, until `q` or Ctrl-C. Standard library only.

The server is asked in a thread, one request at a time: a server that does not respond leaves the keys working, and the last
state on the screen with its age.
"""

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from neutrino.cli.errors import one_line
from neutrino.cli.tables import duration
from neutrino.errors import OperatorError
from neutrino.model.objects import Object

SECONDS = 2.0
_ENTER = "\x1b[?1049h\x1b[?25l"  # the alternate screen, without a cursor: the terminal is as before when it is left
_LEAVE = "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
QUIT = (
    "\x03",
    "\x04",
    "\x1b",
)  # besides q: Ctrl-C and Ctrl-D, and Escape alone: with more, it is a key such as an arrow
Render = Callable[[Object, int], list[str]]


@dataclass
class Source:
    """The newest document, read again and again in a thread."""

    read: Callable[[], Object]
    interval: float = SECONDS
    document: Object | None = None
    at: float = 0.0  # monotonic time of the document
    error: str = ""
    changed: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self.stop.is_set():
            try:
                self.document, self.at, self.error = self.read(), time.monotonic(), ""
            except OperatorError as error:
                self.error = one_line(error)
            except Exception as error:  # of the response of another program: shown, and tried again
                self.error = f"{type(error).__name__}: {one_line(error)}"
            self.changed.set()
            self.stop.wait(self.interval)


def watch(read: Callable[[], Object], render: Render, interval: float = SECONDS) -> int:
    """Show the state until the user quits; return the exit status of the last one: 0 ok, 1 degraded, 3 unknown."""
    source = Source(read, interval)
    try:
        # Started in here: an interrupt may arrive as soon as the first request is on its way.
        threading.Thread(target=source.run, daemon=True, name="status").start()
        if sys.stdout.isatty():
            _draw_until_quit(source, render)
        else:
            _print_until_interrupted(source, render)
    except KeyboardInterrupt:  # the usual way to end it
        pass
    finally:
        source.stop.set()
    if source.error or source.document is None:
        return 3
    return 0 if source.document.get("verdict") == "ok" else 1


def _print_until_interrupted(source: Source, render: Render) -> None:
    """Print each state in full, to a pipe or a file."""
    while True:
        source.changed.wait()
        source.changed.clear()
        lines = [f"cannot read the state: {source.error}"] if source.error else render(source.document or {}, 100)
        print("\n".join(lines), flush=True)


def _draw_until_quit(source: Source, render: Render) -> None:
    with _terminal() as keys:
        while True:
            width, height = shutil.get_terminal_size()
            sys.stdout.write(frame(_lines(source, render, width), width, height))
            sys.stdout.flush()
            pressed = keys(0.5)  # short: the age on the screen and a resized terminal are followed too
            if pressed in QUIT or "q" in pressed.lower():
                return


def _lines(source: Source, render: Render, width: int) -> list[str]:
    now = time.strftime("%H:%M:%S")
    if source.document is None:
        state = f"cannot read the state: {source.error}" if source.error else "reading the state …"
        return [f"neutrino status  {now}  q: quit", state]
    age = time.monotonic() - source.at
    first = f"neutrino status  {now}  q: quit"
    lost = [f"NO RESPONSE for {duration(age)}, the last state is shown: {source.error}"] if source.error else []
    return [first, *lost, *render(source.document, width)]


def frame(lines: Sequence[str], width: int, height: int) -> str:
    """Return what is written to the terminal: every line cut to the width, and no more lines than fit."""
    if len(lines) > height:
        lines = [*lines[: max(height - 1, 0)], f"… {len(lines) - height + 1} more lines: enlarge the terminal"]
    shown = "\r\n".join(f"{line[:width]}{_CLEAR_LINE}" for line in lines[:height])
    return f"{_HOME}{shown}{_CLEAR_BELOW}"


@contextlib.contextmanager
def _terminal() -> Iterator[Callable[[float], str]]:
    """Turn off echo and line buffering until the end; yield a function that waits for a key."""
    try:
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
    except (OSError, ValueError, termios.error):  # input is no terminal: Ctrl-C ends it
        number, before = -1, None
    previous = signal.signal(signal.SIGTERM, _interrupt)

    def key(seconds: float) -> str:
        if number < 0:
            time.sleep(seconds)
            return ""
        ready, _, _ = select.select([number], [], [], seconds)
        # Not through sys.stdin, which reads ahead: what is in its buffer, select does not see.
        return os.read(number, 64).decode(errors="replace") if ready else ""

    try:
        if before is not None:
            mode = termios.tcgetattr(number)
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(number, termios.TCSADRAIN, mode)
        sys.stdout.write(_ENTER)
        yield key
    finally:
        if before is not None:
            termios.tcsetattr(number, termios.TCSADRAIN, before)
        with contextlib.suppress(OSError):  # the terminal is gone
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        signal.signal(signal.SIGTERM, previous)


def _interrupt(number: int, stack: object) -> None:
    raise KeyboardInterrupt
