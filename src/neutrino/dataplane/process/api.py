"""Daemons as values: what should run, what runs, and how one has ended.

A daemon runs in the foreground, in a session of its own, and goes on when the agent ends. It carries marks in its
environment, by which an agent without memory finds it again: whose it is, its name, and a digest of how it was started. A
pid file is written too, for operators; it is never believed by itself, as numbers are used again.
"""

from __future__ import annotations

import dataclasses
import hashlib
import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from neutrino.dataplane.netlink.values import HOST


class ProcessError(Exception):
    """A daemon cannot be started, or not be ended."""


@dataclasses.dataclass(frozen=True)
class Daemon:
    """What should run. `name` is what it is known by, such as `dnsmasq qdhcp-…`; `argv` keeps it in the foreground."""

    name: str
    argv: tuple[str, ...]
    namespace: str = HOST
    pid_file: str = ""
    log_file: str = ""  # what it prints is added here; empty: it is thrown away
    environment: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        if not self.argv or "\0" in "".join((self.name, *self.argv)) or not self.name:
            raise ValueError(f"daemon {self.name!r}: it needs a name and a program")

    def digest(self) -> str:
        """Another one means that it would be started otherwise today."""
        parts = [
            self.namespace,
            *self.argv,
            "",
            *(f"{key}={self.environment[key]}" for key in sorted(self.environment)),
        ]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True)
class Process:
    """A daemon that runs, or ran: a number alone does not say which, as it may be another's by now."""

    name: str
    pid: int
    started: int  # in clock ticks since the machine started
    digest: str = ""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How it ended: a status, or a signal, or neither where it was not our child and nobody can know."""

    status: int | None = None
    signal: int | None = None

    def text(self) -> str:
        if self.signal is not None:
            try:
                return f"ended by {signal.Signals(self.signal).name}"
            except ValueError:
                return f"ended by signal {self.signal}"
        return "ended" if self.status is None else f"ended with status {self.status}"


class Processes(Protocol):
    def running(self) -> dict[str, Process]:
        """All of ours by name, whoever started them."""
        ...

    def find(self, name: str, pid_file: str = "") -> Process | None:
        """Quick where the pid file is right; all processes are looked at otherwise."""
        ...

    def start(self, daemon: Daemon) -> Process:
        """ProcessError if one of that name runs already, or if it cannot be started."""
        ...

    def send(self, process: Process, number: int) -> bool:
        """Send a signal, such as SIGHUP; False if it does not run any more. Never to another that got its number."""
        ...

    def stop(self, process: Process, *, patience: float = 5.0, pid_file: str = "") -> None:
        """SIGTERM, and SIGKILL to it and all that it has started if it runs on after `patience` seconds.

        Returns when it is gone; ProcessError if even that does not help. The pid file is removed.
        """
        ...

    async def wait(self, process: Process) -> Ended:
        """Returns when it has ended, be it our child or not."""
        ...
