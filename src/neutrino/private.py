"""Directories and files that only their owner can access, whatever the umask: state of the server and of agents.

Existing ones are restricted too, if this user owns them: an earlier release may have left them readable for others.
"""

import contextlib
import os
import stat
from pathlib import Path

PRIVATE, PASSABLE = 0o700, 0o711
FILE = 0o600
_OTHERS_READ_OR_WRITE = 0o066
_SYSTEM_DEPTH = 3  # parts of a path such as /var/lib, which belongs to the system and must not be restricted


def make_directory(path: str | Path, *, passable: bool = False) -> None:
    """Create a directory unless it exists. `passable`: others can access what is below by its path, but not list it."""
    path, mode = Path(path), PASSABLE if passable else PRIVATE
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir(mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(mode)  # mkdir applies the umask


def own_directory(path: str | Path, *, passable: bool = False) -> None:
    """The same for a directory that only this program uses: an existing one is restricted."""
    make_directory(path, passable=passable)
    close_directory(path)


def close_directory(path: str | Path) -> None:
    """Remove read and write permissions of others. Execute stays: dnsmasq, for one, reads files below as another user."""
    with contextlib.suppress(FileNotFoundError):
        found, mode = os.stat(path), stat.S_IMODE(os.stat(path).st_mode)
        shared = bool(mode & stat.S_ISVTX) or len(Path(path).resolve().parts) <= _SYSTEM_DEPTH
        if found.st_uid == os.geteuid() and mode & _OTHERS_READ_OR_WRITE and not shared:
            os.chmod(path, mode & ~_OTHERS_READ_OR_WRITE)


def make_file(path: str | Path) -> None:
    """Create an empty file unless it exists, so that no library creates it with the umask; restrict an existing one.

    The file is never opened: closing it would release all POSIX locks of this process on it, such as SQLite's.
    """
    with contextlib.suppress(FileExistsError):
        os.mknod(path, stat.S_IFREG | FILE)
    close_file(path)


def close_file(path: str | Path) -> None:
    """Remove all permissions of others from a file, if it exists and this user owns it."""
    with contextlib.suppress(FileNotFoundError):
        found = os.stat(path)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != FILE:
            os.chmod(path, FILE)
