"""Daemons of a host as values: what should run, what runs, and how a daemon has exited.

A daemon runs in the foreground, in a session of its own, and outlives the agent. Marks in its environment identify it to
an agent that has lost its memory: the owner, the daemon's name, and a digest of how it was started. A pid file only makes
finding it quick; it is never trusted alone, since the kernel reuses pids.
"""

import dataclasses
import hashlib
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Protocol

from neutrino.dataplane.netlink.values import HOST

_TITLE = re.compile(r"\S+ \((.*)\)")


class ProcessError(Exception):
    """A daemon cannot be started or stopped."""


@dataclasses.dataclass(frozen=True)
class Daemon:
    """A daemon that should run. `argv` must keep it in the foreground; `name` is unique, such as `radvd <router>`."""

    name: str
    argv: tuple[str, ...]
    namespace: str = HOST
    pid_file: str = ""
    log_file: str = ""  # its output is appended here; empty: discarded
    environment: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    writes_pid_file: bool = False
    """The daemon writes `pid_file` itself once its sockets are open: a start is complete when the file is there."""

    def digest(self) -> str:
        """A running process with another digest was started in another way, and has to be restarted."""
        environment = (f"{key}={self.environment[key]}" for key in sorted(self.environment))
        return hashlib.sha256("\0".join([self.namespace, *self.argv, "", *environment]).encode()).hexdigest()[:16]


ADOPTED = "adopted"
"""The digest of a daemon that another program has started."""


@dataclasses.dataclass(frozen=True)
class Process:
    """A running or exited daemon; pid and start time together identify it, as pids are reused."""

    name: str
    pid: int
    started: int  # clock ticks since boot
    digest: str = ""  # how it was started; ADOPTED: by another program


ExitCode = int | None  # negative: the signal; None: unknown, as the process was not our child


def exit_text(code: ExitCode) -> str:
    if code is None or code >= 0:
        return "exited" if code is None else f"exited with status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


class Processes(Protocol):
    def running(self) -> dict[str, Process]:
        """All daemons of this owner by name, whichever agent started them."""
        ...

    def find(self, name: str, pid_file: str = "") -> Process | None:
        """Quick where the pid file is right; scans all processes otherwise."""
        ...

    def start(self, daemon: Daemon) -> Process:
        """ProcessError if the daemon cannot be started, or one of that name is running."""
        ...

    def adopt(self, daemon: Daemon, process: "ForeignProcess") -> None:
        """Have a process that another program has started as this daemon, until it exits.

        It carries no marks: an agent that is restarted knows it by a record beside the pid file, of pid and start time.
        """
        ...

    def send(self, process: Process, number: int) -> bool:
        """Send a signal, such as SIGHUP; False if the process has exited. Never signals another one with its pid."""
        ...

    def stop(self, process: Process, *, patience: float = 5.0, pid_file: str = "") -> None:
        """SIGTERM; after `patience` seconds SIGKILL to the daemon and its children. Removes the pid file.

        Returns when the process has exited; ProcessError if even SIGKILL does not end it.
        """
        ...

    async def wait(self, process: Process) -> ExitCode:
        """Wait for the exit, whether the process is our child or not."""
        ...


# --- processes that others have started ---


@dataclasses.dataclass(frozen=True)
class ForeignProcess:
    pid: int
    argv: tuple[str, ...]
    owner: str = ""
    """The state path of the neutrino agent that started it; empty: another program did."""
    parent: int = 0
    started: int = 0  # clock ticks since boot

    @property
    def command(self) -> tuple[str, ...]:
        """The command line that it was started with.

        A process that has set its title shows `NAME (COMMAND LINE)` as its only argument.
        """
        title = _TITLE.fullmatch(self.argv[0]) if len(self.argv) == 1 else None
        return tuple(title[1].split()) if title is not None else self.argv

    @property
    def programs(self) -> frozenset[str]:
        """Its program; of a script also the script, which is an argument of its interpreter; and that of its title."""
        title = self.argv[0].split()[:1] if self.argv else []
        return frozenset(PurePosixPath(word).name for word in (*self.command[:2], *title))


class ForeignProcesses(Protocol):
    def inside(self, namespace: str) -> list[ForeignProcess]:
        """All processes in a namespace. Reads all of /proc."""
        ...

    def by_namespace(self, namespaces: Collection[str]) -> Mapping[str, Sequence[ForeignProcess]]:
        """All processes in these namespaces, without those that have none. Reads all of /proc, once."""
        ...

    def stop(self, process: ForeignProcess, *, kill: bool = False) -> None:
        """SIGTERM, then SIGKILL; returns when the process has exited. ProcessError if even SIGKILL does not end it.

        `kill`: by SIGKILL at once, so that it sends no goodbye messages.
        """
        ...

    def send(self, process: ForeignProcess, number: int) -> bool:
        """Send a signal; False if the process has exited. Never signals another one with its pid."""
        ...
