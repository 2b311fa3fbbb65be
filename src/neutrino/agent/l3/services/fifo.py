"""Named pipes by which daemons notify the agent."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from neutrino import daemon_files, private


class Fifo:
    """A named pipe that daemons write lines to, opened at once. `notify` gets the complete lines of each read."""

    def __init__(self, path: Path, notify: Callable[[list[str]], None]) -> None:
        self._notify = notify
        self._partial_line = ""
        private.make_directory(path.parent)
        # Opened for writing too: with no writer left, a fifo is readable (end of file) all the time.
        self._descriptor = daemon_files.open_fifo(path)
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
