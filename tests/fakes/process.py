"""Daemons in memory: they run until a test ends or the driver stops them."""

from __future__ import annotations

import asyncio
import functools
import itertools
import signal
from collections.abc import Callable

from neutrino.dataplane.process.api import ADOPTED, Daemon, ExitCode, ForeignProcess, Process, ProcessError

_KILLED = -signal.SIGKILL


class FakeProcesses:
    """`started` and `signals` record the calls."""

    def __init__(self, *, namespace_exists: Callable[[str], bool] = lambda _: True) -> None:
        self._namespace_exists = namespace_exists
        self._pids = itertools.count(1000)
        self._running: dict[str, Process] = {}
        self._ended: dict[Process, ExitCode] = {}
        self._waiting: dict[Process, list[Callable[[], object]]] = {}
        self.started: list[Daemon] = []
        self.signals: list[tuple[str, int]] = []
        self.broken: set[str] = set()
        """Programs that cannot be started."""
        self.stubborn: set[str] = set()
        """Names of those that do not heed SIGTERM."""

    def running(self) -> dict[str, Process]:
        return dict(self._running)

    def find(self, name: str, pid_file: str = "") -> Process | None:
        return self._running.get(name)

    def start(self, daemon: Daemon) -> Process:
        if daemon.name in self._running:
            raise ProcessError(f"{daemon.name} is already running as {self._running[daemon.name].pid}")
        if daemon.argv[0] in self.broken:
            raise ProcessError(f"{daemon.name} cannot be started: [Errno 2] No such file or directory")
        if daemon.namespace and not self._namespace_exists(daemon.namespace):
            raise ProcessError(f"{daemon.name} cannot be started: namespace {daemon.namespace} does not exist")
        pid = next(self._pids)
        process = Process(daemon.name, pid, pid, daemon.digest())
        self._running[daemon.name] = process
        self.started.append(daemon)
        return process

    def adopt(self, daemon: Daemon, process: ForeignProcess) -> None:
        self._running[daemon.name] = Process(daemon.name, process.pid, process.started, ADOPTED)

    def send(self, process: Process, number: int) -> bool:
        if self._running.get(process.name) != process:
            return False
        self.signals.append((process.name, number))
        if number == signal.SIGKILL or (number == signal.SIGTERM and process.name not in self.stubborn):
            self.end(process.name, -number)
        return True

    def stop(self, process: Process, *, patience: float = 5.0, pid_file: str = "") -> None:
        self.send(process, signal.SIGTERM)
        self.send(process, signal.SIGKILL)

    async def wait(self, process: Process) -> ExitCode:
        if self._running.get(process.name) == process:
            event, loop = asyncio.Event(), asyncio.get_running_loop()
            notify = functools.partial(
                loop.call_soon_threadsafe, event.set
            )  # the process may be ended in another thread
            waiting = self._waiting.setdefault(process, [])
            waiting.append(notify)
            try:
                await event.wait()
            finally:
                if notify in waiting:
                    waiting.remove(notify)  # cancelled: the loop may be closed when the process ends
        return self._ended.pop(process, None)

    def end(self, name: str, how: ExitCode = _KILLED) -> None:
        """The process is killed, or exits."""
        process = self._running.pop(name)
        self._ended[process] = how
        for notify in self._waiting.pop(process, []):
            notify()
