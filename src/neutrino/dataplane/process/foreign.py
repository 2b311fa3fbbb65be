"""Processes that this agent did not start, such as the daemons of a Neutron agent: found by namespace, and ended.

Daemons of ours carry marks (`api.py`). Those of others do not, so all that is known of them is what /proc shows: the
network namespace that they are in, and their command line.
"""

import contextlib
import dataclasses
import os
import select
import signal
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import ForeignProcess, ProcessError
from neutrino.dataplane.process.real import OWNER, read_stat, start_time

STOP_SECONDS = 5.0


class RealForeignProcesses:
    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self._namespaces = namespaces or Namespaces()

    def inside(self, namespace: str) -> list[ForeignProcess]:
        with self._namespaces.open(namespace) as descriptor:
            wanted = _identity(os.stat(descriptor))
            return [each for pid in pids() if _namespace(pid) == wanted and (each := _read(pid)) is not None]

    def by_namespace(self, namespaces: Collection[str]) -> dict[str, list[ForeignProcess]]:
        names = dict[tuple[int, int] | None, str]()
        for name in namespaces:
            with contextlib.suppress(NetlinkError), self._namespaces.open(name) as descriptor:
                names[_identity(os.stat(descriptor))] = name
        found = defaultdict[str, list[ForeignProcess]](list)
        for pid in pids():
            inside = names.get(_namespace(pid))
            if inside is not None and (process := _read(pid)) is not None:
                found[inside].append(process)
        return dict(found)

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        stop(process.pid, process.argv, kill=kill)

    def send(self, process: ForeignProcess, number: int) -> bool:
        with _opened(process.pid, process.argv) as descriptor:
            if descriptor is None:
                return False
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
                return True
            return False


@dataclasses.dataclass(frozen=True)
class Circumstances:
    """How a process was started, apart from its command line and namespace."""

    directory: str
    environment: Mapping[str, str]


def circumstances(pid: int) -> Circumstances | None:
    """None for a process that has exited."""
    try:
        directory = os.readlink(f"/proc/{pid}/cwd")
        entries = Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
    except OSError:
        return None
    # A process that has set its title has overwritten a part of its environment.
    environment = {key: value for key, is_entry, value in (each.partition("=") for each in entries) if is_entry and key}
    return Circumstances(directory, environment)


def pids() -> Iterator[int]:
    return map(int, filter(str.isdigit, os.listdir("/proc")))


def command_line(pid: int) -> tuple[str, ...]:
    """Empty for a process that has exited."""
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[:-1])
    except OSError:
        return ()


def stop(pid: int, argv: tuple[str, ...], *, kill: bool = False) -> None:
    """End the process with this pid and command line; another one with the pid, as pids are reused, is left alone."""
    with _opened(pid, argv) as descriptor:
        if descriptor is None:
            return
        for number in (signal.SIGKILL,) if kill else (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], STOP_SECONDS)[0]:  # it is no child of ours: awaited by its pidfd
                return
    raise ProcessError(f"{Path(argv[0]).name} {pid} does not exit, not even by SIGKILL")


@contextlib.contextmanager
def _opened(pid: int, argv: tuple[str, ...]) -> Iterator[int | None]:
    """A pidfd of the process with this pid and command line; None if it has exited.

    The pidfd stands for this process for good, so the check holds for the signals.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor if command_line(pid) == argv else None
    finally:
        os.close(descriptor)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _namespace(pid: int) -> tuple[int, int] | None:
    """The identity of a process's network namespace; None if it has exited."""
    try:
        return _identity(os.stat(f"/proc/{pid}/ns/net"))
    except OSError:
        return None


def _read(pid: int) -> ForeignProcess | None:
    argv = command_line(pid)
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    mark = f"{OWNER}=".encode()
    owner = next(
        (entry.removeprefix(mark).decode(errors="replace") for entry in environment if entry.startswith(mark)), ""
    )
    stat = read_stat(pid)
    return ForeignProcess(pid, argv, owner, int(stat[1]), start_time(stat)) if argv and stat else None
