"""Files between an agent that is root and daemons that run as other users (bgpd, dnsmasq, radvd, the metadata proxy).

A daemon that was broken into must not become root by way of its files. So:

- A directory that the agent writes to belongs to the agent. What a daemon creates itself (sockets, pid files) is in a
  directory of its own, which the agent only reads.
- A file is created with O_EXCL, gets its owner and mode through its descriptor, and replaces the old one by rename: no
  link is followed, and no file of another directory gets another owner.
- A file is read only if it is a regular file with one name and of limited size: a fifo would block the agent, a link would
  name a file that only root can read, and a huge one would take the agent's memory.
"""

import contextlib
import errno
import logging
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from neutrino import private

LOG = logging.getLogger(__name__)
MAX_LOG, KEPT_LOG = 1 << 20, 1 << 16  # bytes
MAX_BYTES = 64 << 20  # of a file that the agent reads; leases of 100,000 ports are about 10 MB
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NO_FILE = (errno.ENOENT, errno.ENOTDIR)
_NO_REGULAR_FILE = (errno.ELOOP, errno.ENXIO, errno.EISDIR)  # a link, a socket, a directory
_OTHERS_WRITE = 0o022


class UnsafeFile(OSError):
    """The path is a link, a fifo, a directory, or a file with further names."""


# --- reading ----------------------------------------------------------------------------------------------------------


def read(path: str | Path, limit: int = MAX_BYTES) -> str | None:
    """The text of a file. None if there is none, or what is there is no regular file or above the limit."""
    try:
        with opened(path, os.O_RDONLY) as descriptor:
            data = _read(descriptor, 0, limit + 1)
    except UnsafeFile as error:
        LOG.warning("%s", error)
        return None
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    if len(data) > limit:
        LOG.warning("%s is ignored: it has more than %d bytes", path, limit)
        return None
    return data.decode(errors="replace")


def read_from(path: str | Path, start: int, limit: int) -> str:
    """Read at most `limit` bytes of a log from `start` on; empty if it cannot be read."""
    with contextlib.suppress(OSError), opened(path, os.O_RDONLY) as descriptor:
        return _read(descriptor, start, limit).decode(errors="replace")
    return ""


def _read(descriptor: int, start: int, limit: int) -> bytes:
    parts, left = [], limit
    while left > 0 and (part := os.pread(descriptor, min(left, 1 << 20), start + limit - left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@contextlib.contextmanager
def opened(path: str | Path, flags: int, mode: int = private.FILE) -> Iterator[int]:
    """The descriptor of a regular file with one name; UnsafeFile for anything else."""
    try:
        descriptor = os.open(path, flags | _SAFELY, mode)
    except OSError as error:
        if error.errno in _NO_REGULAR_FILE:
            raise UnsafeFile(f"{path} is no regular file") from None
        raise
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise UnsafeFile(f"{path} is no regular file")
        if found.st_nlink > 1:  # 0: it has been replaced since it was opened
            raise UnsafeFile(f"{path} is a hard link: the file has {found.st_nlink} names")
        yield descriptor
    finally:
        os.close(descriptor)


# --- writing ----------------------------------------------------------------------------------------------------------


def write(path: str | Path, text: str, *, mode: int = private.FILE, group: int = -1, new: Path | None = None) -> None:
    """Atomic: a daemon that reads the file meanwhile gets the old text or the new one.

    `group`: that may read it, by its mode. `new`: the name until the file is complete, in the same file system.
    """
    path = Path(path)
    if read(path) == text and _is_ours(path, mode, group):
        return
    private.make_directory(path.parent, passable=True)
    new = new or path.with_name(f".{path.name}.new")
    remove(new)  # of an agent that was killed
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, private.FILE)
    with os.fdopen(descriptor, "w") as file:
        if group >= 0:
            os.fchown(descriptor, -1, group)
        os.fchmod(descriptor, mode)  # not by open: the umask may take bits away that the daemon's user needs
        file.write(text)
    new.replace(path)


def _is_ours(path: Path, mode: int, group: int) -> bool:
    found = os.lstat(path)
    same_group = group < 0 or found.st_gid == group
    return found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == mode and same_group


def remove(path: str | Path) -> None:
    """Whatever has this name, if anything: links are not followed."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except IsADirectoryError:
        shutil.rmtree(path)


def open_fifo(path: str | Path) -> int:
    """A fifo of the agent, opened for both directions; anything else with this name is replaced."""
    for _ in range(2):
        with contextlib.suppress(FileExistsError):  # before the daemon is started, which would create a regular file
            os.mkfifo(path, private.FILE)
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDWR | _SAFELY)
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                return descriptor
            os.close(descriptor)
        remove(path)
    raise UnsafeFile(f"{path} is no fifo")


def bound_logs(paths: Iterable[str]) -> None:
    """Daemons run for years, and some log by what strangers send: DHCP requests, IKE, VRRP."""
    for path in paths:
        bound_log(path)


def bound_log(path: str) -> None:
    """Cut a log that is longer than MAX_LOG to its last lines. Daemons append to it, so they go on behind them.

    Blocking. What cannot be read is left as it is.
    """
    with contextlib.suppress(OSError), opened(path, os.O_RDWR | os.O_APPEND) as log:
        size = os.fstat(log).st_size
        if size > MAX_LOG:
            last = os.pread(log, KEPT_LOG, size - KEPT_LOG).partition(b"\n")[2]
            os.ftruncate(log, 0)
            os.write(log, last)


# --- directories ------------------------------------------------------------------------------------------------------


def own_directory(path: str | Path) -> None:
    """A directory of the agent, which other users may pass but not list or change.

    One that another user could change, as earlier releases made them, is taken back and emptied but for the agent's own
    files. After the change of its owner nothing can be planted in it any more, so what is found then is all there is.
    """
    private.make_directory(path, passable=True)
    with _opened_directory(path) as descriptor:
        found = os.fstat(descriptor)
        mode = stat.S_IMODE(found.st_mode)
        if found.st_uid != os.geteuid() or mode & _OTHERS_WRITE:
            os.fchown(descriptor, os.geteuid(), os.getegid())
            os.fchmod(descriptor, private.PASSABLE)
            _empty(descriptor, keep_own=True)
        elif mode != private.PASSABLE:
            os.fchmod(descriptor, private.PASSABLE)


def give_directory(path: str | Path, user: int, group: int) -> None:
    """An empty directory of a daemon's user, for what the daemon creates. Its parent must be the agent's own."""
    private.make_directory(path)
    with _opened_directory(path) as descriptor:
        os.fchown(descriptor, os.geteuid(), os.getegid())  # a daemon that still runs must not add to what is removed
        os.fchmod(descriptor, private.PRIVATE)
        _empty(descriptor, keep_own=False)
        os.fchown(descriptor, user, group)


@contextlib.contextmanager
def _opened_directory(path: str | Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise UnsafeFile(f"{path} is a link, not a directory") from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _empty(directory: int, *, keep_own: bool) -> None:
    for name in os.listdir(directory):
        found = os.lstat(name, dir_fd=directory)
        if keep_own and stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink == 1:
            continue
        if stat.S_ISDIR(found.st_mode):
            shutil.rmtree(name, dir_fd=directory)
        else:
            os.unlink(name, dir_fd=directory)
