"""Named network namespaces, and running code inside one.

A name is a file on which the namespace is mounted, as with `ip netns`. A thread can be in another namespace than the
rest of its process, and a socket, a file under /proc/sys or a process that it opens or starts there belongs to that
namespace for good. So code runs inside a namespace in a thread of its own, which ends there and never has to switch
back. That takes a tenth of a millisecond, and nothing forks.
"""

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.values import HOST

T = TypeVar("T")

DIRECTORY = "/run/netns"

_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED = 1 << 12, 1 << 14, 1 << 20
_MNT_DETACH = 2
_MOST_MOUNTS = 16  # of one name over itself, which a race between two creators leaves

_libc = ctypes.CDLL(None, use_errno=True)


@dataclasses.dataclass(frozen=True)
class Namespaces:
    directory: str = DIRECTORY

    def names(self) -> frozenset[str]:
        """Without files on which no namespace is mounted, as a creator that was killed leaves them."""
        try:
            return frozenset(entry.name for entry in os.scandir(self.directory) if _is_namespace(entry.path))
        except FileNotFoundError:
            return frozenset()

    def exists(self, name: str) -> bool:
        """Whether `names` has it, without a look at all the others."""
        return _is_namespace(self.path(name))

    def path(self, name: str) -> str:
        if name in (".", "..") or "/" in name or not 0 < len(name) < 256:
            raise NetlinkError(f"{name!r} is not a valid name of a namespace")
        return f"{self.directory}/{name}"

    def create(self, name: str) -> None:
        path = self.path(name)
        try:
            with self._locked():
                if not _is_namespace(path):  # completes one whose creator was killed between these two steps
                    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o444))
                    _in_thread(lambda: _mount_new(path))
        except OSError as error:
            raise NetlinkError(f"namespace {name} cannot be created: {error.strerror}") from error

    def delete(self, name: str) -> None:
        path = self.path(name)
        try:
            # Until nothing is mounted: with a mount left, unlink would fail and the name could not be used again.
            for _ in range(_MOST_MOUNTS):
                # Detached: the namespace may be in use, and lives until its last process has ended.
                if _libc.umount2(os.fsencode(path), _MNT_DETACH) < 0:
                    break
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise NetlinkError(f"namespace {name} cannot be deleted: {error.strerror}") from error

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[int]:
        """A file descriptor of the namespace."""
        try:
            # The host's is that of the process: its main thread never enters another.
            descriptor = os.open(self.path(name) if name else "/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise NetlinkError(f"namespace {name} does not exist") from None
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def run(self, name: str, work: Callable[[], T]) -> T:
        """Runs `work` inside the namespace, and returns or raises what it does."""
        if name == HOST:
            return work()
        with self.open(name) as descriptor:

            def inside() -> T:
                if _libc.setns(descriptor, _CLONE_NEWNET) < 0:
                    reason = os.strerror(ctypes.get_errno())
                    raise NetlinkError(f"namespace {name} cannot be entered: {reason}")
                return work()

            return _in_thread(inside)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks the directory against other creators, also `ip netns`, and prepares it for mounts as that does."""
        os.makedirs(self.directory, mode=0o755, exist_ok=True)
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # two creators would mount two namespaces on one name
            self._share()
            yield
        finally:
            os.close(descriptor)

    def _share(self) -> None:
        """Makes the mount shared: processes in other mount namespaces see namespaces created or deleted here."""
        directory = os.fsencode(self.directory)
        try:
            _call(_libc.mount, b"", directory, b"none", _MS_SHARED | _MS_REC, None)
        except OSError as error:
            if error.errno != errno.EINVAL:  # EINVAL: the directory is no mount point yet
                raise
            _call(_libc.mount, directory, directory, b"none", _MS_BIND | _MS_REC, None)
            _call(_libc.mount, b"", directory, b"none", _MS_SHARED | _MS_REC, None)


def _mount_new(path: str) -> None:
    """Moves this thread into a new namespace and mounts that on the path."""
    _call(_libc.unshare, _CLONE_NEWNET)
    _call(_libc.mount, b"/proc/thread-self/ns/net", os.fsencode(path), b"none", _MS_BIND, None)


def _is_namespace(path: str) -> bool:
    # A mounted namespace is a file of the kernel's nsfs, as our own is; a name without a mount is a file of /run.
    try:
        return os.stat(path).st_dev == os.stat("/proc/thread-self/ns/net").st_dev
    except FileNotFoundError:
        return False


def _in_thread(work: Callable[[], T]) -> T:
    future: Future[T] = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    # Not from a pool: a thread that has entered a namespace must never run anything else.
    thread = threading.Thread(target=body, name="namespace")
    thread.start()
    thread.join()
    return future.result()


def _call(function: Callable[..., int], *arguments: object) -> None:
    if function(*arguments) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
