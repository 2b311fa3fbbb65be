"""Watching over the daemons of a host: one that ends is started again, or the agent ends too, as configured.

The kernel tells of an end at once, so a daemon is back in a moment, not at the next look. One that keeps ending is tried
again ever less often, up to a bound, and for ever. `check_child_processes_interval` is for doubts: every so many seconds
what runs is compared with what should. 0 turns watching off, as operators know it: daemons are started, and then left.
`check_child_processes_action` is `respawn`, or `exit`: then the end of a daemon ends `run`, and with it the agent.

Daemons are left running when the agent ends; the next one finds them by their marks, and leaves alone those that it would
start in the same way.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import signal
from collections.abc import Callable
from typing import Literal

from neutrino.dataplane.process.api import Daemon, Ended, Process, ProcessError, Processes

LOG = logging.getLogger(__name__)


class DaemonExited(Exception):
    """A daemon has ended, and the agent shall end with it."""


@dataclasses.dataclass(frozen=True)
class ProcessEvent:
    """For the role that wants the daemon: it ended, is back, or cannot be started."""

    name: str
    what: Literal["ended", "started", "failed"]
    text: str


@dataclasses.dataclass(frozen=True)
class Delays:
    """Seconds. The first attempt is made at once, the next after `first`, and each later one waits twice as long."""

    first: float = 0.5
    longest: float = 60.0
    steady: float = 60.0  # one that has run for so long starts with no past

    def after(self, failures: int) -> float:
        return 0.0 if failures == 0 else min(self.longest, self.first * 2.0 ** min(failures - 1, 30))


@dataclasses.dataclass(eq=False)
class _Kept:
    daemon: Daemon
    process: Process | None = None  # None while it does not run
    since: float = 0.0
    failures: int = 0
    following: asyncio.Task[None] | None = None
    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)


class Supervisor:
    """`told` hears of every event, in the event loop."""

    def __init__(
        self,
        processes: Processes,
        *,
        action: Literal["respawn", "exit"] = "respawn",
        interval: float = 60.0,
        delays: Delays | None = None,
        told: Callable[[ProcessEvent], None] = lambda event: None,
    ) -> None:
        self._processes = processes
        self._action = action
        self._interval = interval
        self._delays = delays or Delays()
        self._told = told
        self._kept: dict[str, _Kept] = {}
        self._fatal: asyncio.Queue[DaemonExited] = asyncio.Queue()

    async def keep(self, daemon: Daemon) -> Process:
        """Let it run from now on: what runs in the same way stays, what runs otherwise is stopped and started anew.

        ProcessError if it cannot be started now; then nothing is watched.
        """
        kept = self._kept.setdefault(daemon.name, _Kept(daemon))
        async with kept.lock:
            self._kept[daemon.name] = kept  # it may have been dropped while we waited
            self._unfollow(kept)
            kept.daemon, kept.failures = daemon, 0
            try:
                process = await asyncio.to_thread(self._ensure, daemon)
            except ProcessError:
                self._kept.pop(daemon.name, None)
                raise
            self._runs(kept, process)
            self._follow(kept)
            return process

    async def restart(self, daemon: Daemon) -> Process:
        """Even if it runs in the same way already: what it has read may be another."""
        await self.drop(daemon.name)
        return await self.keep(daemon)

    async def drop(self, name: str, *, pid_file: str = "", kill: bool = False) -> None:
        """Stop it, if it runs, and watch it no more. `kill`: before it can say farewell to anybody."""
        kept = self._kept.pop(name, None)
        async with kept.lock if kept else contextlib.nullcontext():
            if kept is not None:
                self._unfollow(kept)
                pid_file = pid_file or kept.daemon.pid_file
            found = await asyncio.to_thread(self._processes.find, name, pid_file)
            if found is not None:
                if kill:
                    await asyncio.to_thread(self._processes.send, found, signal.SIGKILL)
                await asyncio.to_thread(self._processes.stop, found, pid_file=pid_file)

    def running(self, name: str) -> Process | None:
        """What is kept and runs now."""
        kept = self._kept.get(name)
        return kept.process if kept else None

    async def run(self) -> None:
        """Until cancelled; DaemonExited where an end is to end the agent. Daemons are left as they are."""
        try:
            while True:
                fatal = await self._fatal_within(self._interval)
                if fatal is not None:
                    raise fatal
                await self._look()
        finally:
            for kept in self._kept.values():
                self._unfollow(kept)

    async def _fatal_within(self, seconds: float) -> DaemonExited | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds or None):
                return await self._fatal.get()
        return None

    async def _look(self) -> None:
        running = await asyncio.to_thread(self._processes.running)
        for name, kept in list(self._kept.items()):
            if kept.process is None or kept.lock.locked():
                continue
            if running.get(name) != kept.process and await self._is_gone(kept):
                LOG.warning("%s does not run, and no event has told of it", name)
                self._unfollow(kept)
                self._follow(kept, Ended())
            elif kept.following is None or kept.following.done():
                self._follow(kept)

    async def _is_gone(self, kept: _Kept) -> bool:
        """It may have been started after the look."""
        found = await asyncio.to_thread(self._processes.find, kept.daemon.name, kept.daemon.pid_file)
        return kept.process is not None and found != kept.process

    # --- one daemon ---

    def _ensure(self, daemon: Daemon) -> Process:
        found = self._processes.find(daemon.name, daemon.pid_file)
        if found is not None and found.digest == daemon.digest():
            return found
        if found is not None:
            self._processes.stop(found, pid_file=daemon.pid_file)
        return self._processes.start(daemon)

    def _runs(self, kept: _Kept, process: Process) -> None:
        kept.process, kept.since = process, asyncio.get_running_loop().time()

    def _follow(self, kept: _Kept, ended: Ended | None = None) -> None:
        if self._interval:
            kept.following = asyncio.create_task(self._keep_alive(kept, ended), name=f"watch {kept.daemon.name}")

    def _unfollow(self, kept: _Kept) -> None:
        if kept.following is not None:
            kept.following.cancel()
            kept.following = None

    async def _keep_alive(self, kept: _Kept, ended: Ended | None) -> None:
        while kept.process is not None:
            try:
                how = ended or await self._processes.wait(kept.process)
            except OSError as error:
                LOG.warning("%s cannot be watched, only looked for now and then: %s", kept.daemon.name, error)
                return
            ended = None
            lived = asyncio.get_running_loop().time() - kept.since
            kept.process = None
            self._tell(ProcessEvent(kept.daemon.name, "ended", how.text()))
            if self._action == "exit":
                self._fatal.put_nowait(DaemonExited(f"{kept.daemon.name} {how.text()}: the agent ends, as configured"))
                return
            if lived >= self._delays.steady:
                kept.failures = 0
            await self._respawn(kept)

    async def _respawn(self, kept: _Kept) -> None:
        while kept.process is None:
            await asyncio.sleep(self._delays.after(kept.failures))
            kept.failures += 1
            try:
                async with kept.lock:
                    process = await asyncio.to_thread(self._ensure, kept.daemon)
            except ProcessError as error:
                self._tell(ProcessEvent(kept.daemon.name, "failed", str(error)))
                continue
            self._runs(kept, process)
            self._tell(ProcessEvent(kept.daemon.name, "started", f"started again, as {process.pid}"))

    def _tell(self, event: ProcessEvent) -> None:
        LOG.log(logging.INFO if event.what == "started" else logging.ERROR, "%s: %s", event.name, event.text)
        self._told(event)
