"""A socket's name in the file system, which one process has at a time.

A lock beside it says whose it is. The kernel gives the lock back when its owner ends, however that happens, so a socket
that was left behind is taken over, and one that is served never is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neutrino import private


class InUse(OSError):
    """Somebody serves there already."""

    def __init__(self, reason: str) -> None:
        super().__init__(errno.EADDRINUSE, reason)


@contextmanager
def owned(path: str) -> Iterator[None]:
    """Have the name for as long as this lasts, or InUse. The socket is removed at the end."""
    private.make_directory(Path(path).parent)
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse("another process serves it") from None
        if os.path.lexists(path) and not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise InUse("it is there and is no socket")
        try:
            yield
        finally:
            Path(path).unlink(missing_ok=True)
    finally:
        os.close(lock)
