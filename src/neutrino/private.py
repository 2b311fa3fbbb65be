"""Directories and files that are for their owner alone, whatever the umask: states of the server and of agents.

What is there already is closed to others as well, where it is ours: a release that left it open must not leave it so.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

PRIVATE, PASSABLE = 0o700, 0o711
FILE = 0o600
_OTHERS_READ_OR_WRITE = 0o066
_SYSTEMS = 3  # parts of a path such as /var/lib: the system's own, which is not ours to close


def make_directory(path: str | Path, *, passable: bool = False) -> None:
    """Make a directory if there is none. `passable`: others reach, by its name, what is below and open to them."""
    path, mode = Path(path), PASSABLE if passable else PRIVATE
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(mode)


def own_directory(path: str | Path, *, passable: bool = False) -> None:
    """The same for a directory that is all ours: one that is there is closed to readers and writers."""
    make_directory(path, passable=passable)
    close_directory(path)


def close_directory(path: str | Path) -> None:
    """Take reading and writing of others from a directory. Passing stays: somebody may be meant to reach what is below."""
    with contextlib.suppress(FileNotFoundError):
        found, mode = os.stat(path), stat.S_IMODE(os.stat(path).st_mode)
        shared = bool(mode & stat.S_ISVTX) or len(Path(path).resolve().parts) <= _SYSTEMS
        if found.st_uid == os.geteuid() and mode & _OTHERS_READ_OR_WRITE and not shared:
            os.chmod(path, mode & ~_OTHERS_READ_OR_WRITE)


def make_file(path: str | Path) -> None:
    """Make an empty file if there is none, before somebody else makes it open; close one that is there.

    The file is never opened: closing it again would give back the locks that this process has on it, such as SQLite's.
    """
    with contextlib.suppress(FileExistsError):
        os.mknod(path, stat.S_IFREG | FILE)
    close_file(path)


def close_file(path: str | Path) -> None:
    """Take from others what they may do with a file, if it is there and ours."""
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != FILE:
            os.chmod(path, FILE)
