"""Lines that daemons and their scripts write into a named pipe, read in the event loop."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path


class Fifo:
    """Created and opened at once. `notify` gets the complete lines of each read."""

    def __init__(self, path: Path, notify: Callable[[list[str]], None]) -> None:
        self._notify = notify
        self._partial_line = ""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():  # a writer would create a regular file
            os.mkfifo(path, 0o600)
        # Opened for writing too: with no writer left, a fifo is readable (end of file) all the time.
        self._descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, 4096).decode(errors="replace")
        except BlockingIOError:
            return
        *lines, self._partial_line = (self._partial_line + data).split("\n")
        self._notify(lines)
