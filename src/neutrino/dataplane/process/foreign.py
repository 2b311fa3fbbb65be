"""Processes that this agent did not start, such as the daemons of a Neutron agent: found by namespace, and ended.

Daemons of ours carry marks (`api.py`). Those of others do not, so all that is known of them is what /proc shows: the
network namespace that they are in, and their command line.
"""

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import ForeignProcess, ProcessError
from neutrino.dataplane.process.real import OWNER

STOP_SECONDS = 5.0


class RealForeignProcesses:
    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self._namespaces = namespaces or Namespaces()

    def inside(self, namespace: str) -> list[ForeignProcess]:
        with self._namespaces.open(namespace) as descriptor:
            wanted = _identity(os.stat(descriptor))
            return [each for pid in pids() if _is_in(pid, wanted) and (each := _read(pid)) is not None]

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        stop(process.pid, process.argv, kill=kill)


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
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if command_line(pid) != argv:  # the pidfd stands for this process for good, so the check holds for the signals
            return
        for number in (
            (signal.SIGKILL,) if kill else (signal.SIGTERM, signal.SIGKILL)
        ):  # it is no child of ours: awaited by its pidfd
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], STOP_SECONDS)[0]:
                return
    finally:
        os.close(descriptor)
    raise ProcessError(f"{Path(argv[0]).name} {pid} does not exit, not even by SIGKILL")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _is_in(pid: int, namespace: tuple[int, int]) -> bool:
    try:
        return _identity(os.stat(f"/proc/{pid}/ns/net")) == namespace
    except OSError:  # it has exited
        return False


def _read(pid: int) -> ForeignProcess | None:
    argv = command_line(pid)
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    mark = f"{OWNER}=".encode()
    owner = next((entry.removeprefix(mark).decode() for entry in environment if entry.startswith(mark)), "")
    return ForeignProcess(pid, argv, owner) if argv else None
