"""Supervises the daemons of all roles: dnsmasq, radvd, keepalived, DHCPv6 clients, the BFD speaker, the metadata proxy.

A role gives a `Service` (a daemon and its configuration files) to `Supervisor.ensure`, which starts, restarts or reloads
the daemon, or leaves it alone. Daemons outlive the agent; the next agent recognises them by their marks.

- Reload is SIGHUP, sent when a file differs from what the daemon has loaded. The digest of the loaded files is stored next
  to the pid file after the signal: an agent that was killed between writing and signalling repeats the signal.
- An exit is noticed at once, through a pidfd. The daemon is respawned with back-off, without end, or the agent exits, as
  `check_child_processes_action` says (`respawn`, `exit`).
- The logs of daemons are bounded while the agent runs.
- A daemon whose exit the kernel cannot notify is looked for every `interval` seconds.
"""

import asyncio
import contextlib
import dataclasses
import enum
import hashlib
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Literal

from neutrino import daemon_files
from neutrino.daemon_files import bound_logs
from neutrino.dataplane.process.api import ADOPTED, Daemon, ExitCode, Process, ProcessError, Processes, exit_text
from neutrino.metrics.catalog import RESPAWNS
from neutrino.model import agents

LOG = logging.getLogger(__name__)
RESPAWN: Literal["respawn"] = "respawn"
EXIT: Literal["exit"] = "exit"
RESPAWNED_SECONDS = 3600.0  # for how long a respawn is reported
MAX_RESPAWNED = 20  # daemons that are named in a report
YOUNG_SECONDS = 10.0  # an older daemon handles SIGHUP, whatever its log has
POLL_SECONDS = 0.02


class DaemonExited(Exception):
    """A daemon has exited, and the agent has to exit with it."""


@dataclasses.dataclass(frozen=True)
class Service:
    """A daemon that should run, and the files that it reads at its start and at SIGHUP, by path."""

    daemon: Daemon
    files: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}))
    mode: int = 0o600  # of the files; keepalived's has a password
    reloadable_after: str = ""  # the line in the daemon's log before which it loses a SIGHUP
    kill: bool = False  # replaced after SIGKILL, as it would say goodbye to its clients: radvd withdraws default routes
    before_start: Callable[[], None] = dataclasses.field(default=lambda: None, compare=False)
    """Runs in a thread when no such daemon runs, right before it is started or respawned."""
    after_start: Callable[[], None] = dataclasses.field(default=lambda: None, compare=False)
    """Runs in a thread when the daemon was started or respawned; raises nothing."""

    def digest(self) -> str:
        parts = (f"{path}\0{text}" for path, text in sorted(self.files.items()))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    @property
    def loaded(self) -> Path:
        """Holds the digest of the files that the daemon has loaded."""
        return Path(f"{self.daemon.pid_file}.loaded")


class Action(enum.Enum):
    NOTHING = "nothing"
    RELOAD = "reload"
    RESTART = "restart"
    START = "start"


def plan_service(service: Service, processes: Processes) -> tuple[Action, Process | None]:
    """What makes the service current, and the process that runs now. Blocking."""
    daemon = service.daemon
    found = processes.find(daemon.name, daemon.pid_file)
    if found is None:
        return Action.START, None
    if found.digest not in (daemon.digest(), ADOPTED):
        return Action.RESTART, found
    differs = any(daemon_files.read(path) != text for path, text in service.files.items())
    if service.files and (differs or daemon_files.read(service.loaded) != service.digest()):
        return Action.RELOAD, found
    return Action.NOTHING, found


def apply_service(service: Service, processes: Processes) -> tuple[Action, Process]:
    """Make the service current. Blocking; ProcessError if the daemon cannot be started."""
    daemon = service.daemon
    action, found = plan_service(service, processes)
    if action is Action.NOTHING and found is not None:
        return action, found
    # Stopped before files are written: a daemon that exits may still write some, as dnsmasq does with its leases.
    if action is Action.RESTART and found is not None:
        if service.kill:  # `stop` reaps it and removes the pid file
            processes.send(found, signal.SIGKILL)
        processes.stop(found, pid_file=daemon.pid_file)
    for path, text in service.files.items():
        daemon_files.write(path, text, mode=service.mode)
    if action is Action.RELOAD and found is not None:
        wait_reloadable(found, Path(daemon.log_file), service.reloadable_after)
        processes.send(found, signal.SIGHUP)
    else:
        service.before_start()
        found = processes.start(daemon)
    # After the signal: an agent that dies in between leaves the old digest, and the next one signals again.
    if service.files:
        daemon_files.write(service.loaded, service.digest())
    if action is not Action.RELOAD:
        service.after_start()
    return action, found


def wait_reloadable(process: Process, log: Path, text: str) -> None:
    """Wait until the log has the text that the daemon handles signals, or the daemon is old enough to. Blocking."""
    # `started` is in ticks since boot, including suspended time, as /proc has it.
    old = process.started / os.sysconf("SC_CLK_TCK") + YOUNG_SECONDS
    while text and time.clock_gettime(time.CLOCK_BOOTTIME) < old and text not in (daemon_files.read(log) or ""):
        time.sleep(POLL_SECONDS)


def list_directory(path: Path) -> list[str]:
    """The names in a directory, sorted; none if it does not exist."""
    return sorted(os.listdir(path)) if path.is_dir() else []


def program_of(argv: Sequence[str]) -> str:
    """The name of a daemon's program; of one of ours, which Python runs, that of its command."""
    is_ours = len(argv) > 3 and argv[1] == "-m"
    return f"neutrino-{argv[3]}" if is_ours else PurePath(argv[0]).name


@dataclasses.dataclass(frozen=True)
class ProcessEvent:
    """Notification for a role: its daemon has exited, was respawned, or cannot be respawned."""

    name: str
    what: Literal["exited", "started", "failed"]
    text: str


@dataclasses.dataclass(frozen=True)
class Delays:
    """Back-off in seconds: the first respawn is immediate, the second waits `first`, each later one twice as long."""

    first: float = 0.5
    longest: float = 60.0
    steady: float = 60.0  # a daemon that ran for so long has its failures forgotten

    def after(self, failures: int) -> float:
        return 0.0 if failures == 0 else min(self.longest, self.first * 2.0 ** min(failures - 1, 30))


@dataclasses.dataclass(frozen=True)
class _Respawned:
    """Respawns of a daemon, none of them older than RESPAWNED_SECONDS before the next."""

    times: int
    at: float  # of the last
    reason: str

    def text(self) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at))
        times = "once" if self.times == 1 else f"{self.times} times"
        return f"respawned {times}, last at {when}: {self.reason}"


@dataclasses.dataclass(eq=False)
class _Supervised:
    service: Service
    process: Process | None = None  # None while it is not running
    watching: asyncio.Task[None] | None = None
    lock: asyncio.Lock = dataclasses.field(default_factory=asyncio.Lock)

    def unwatch(self) -> None:
        if self.watching is not None:
            self.watching.cancel()
            self.watching = None


@dataclasses.dataclass
class Supervisor:
    """`notify` is called with every event, in the event loop."""

    processes: Processes
    _: dataclasses.KW_ONLY
    action: Literal["respawn", "exit"] = RESPAWN
    interval: float = 60.0
    log_interval: float = 10.0  # a daemon that writes very much fills no disk within this time
    delays: Delays = Delays()
    notify: Callable[[ProcessEvent], None] = lambda event: None
    clock: Callable[[], float] = time.time
    _respawned: dict[str, _Respawned] = dataclasses.field(default_factory=dict, init=False)
    _supervised: dict[str, _Supervised] = dataclasses.field(default_factory=dict, init=False)
    _fatal: asyncio.Queue[DaemonExited] = dataclasses.field(default_factory=asyncio.Queue, init=False)

    async def ensure(self, service: Service, *, complete: bool = True) -> tuple[Action, Process]:
        """Have the service run from now on; ProcessError if it cannot be started, then it is not supervised.

        Not `complete`: the service is from the cache, and the running daemon's configuration may be newer. A missing
        daemon is started, a running one is only watched.
        """
        name = service.daemon.name
        supervised = self._supervised.setdefault(name, _Supervised(service))
        async with supervised.lock:
            self._supervised[name] = supervised  # `stop` may have removed it while we waited for the lock
            supervised.unwatch()  # an exit that `ensure` causes is no failure
            supervised.service = service
            try:
                action, process = await asyncio.to_thread(self._apply, service, complete)
            except BaseException:  # the caller retries: a respawn in parallel would compete with it
                self._supervised.pop(name, None)
                raise
            supervised.process = process
            supervised.watching = asyncio.create_task(self._respawn_forever(supervised, process), name=f"watch {name}")
            return action, process

    async def stop(self, name: str, *, pid_file: str = "", kill: bool = False) -> None:
        """Stop the daemon, if it runs, and its supervision. `kill`: by SIGKILL, so that it sends no goodbye messages."""
        supervised = self._supervised.pop(name, None)
        async with supervised.lock if supervised else contextlib.nullcontext():
            if supervised is not None:
                supervised.unwatch()
                pid_file = pid_file or supervised.service.daemon.pid_file
            found = await asyncio.to_thread(self.processes.find, name, pid_file)
            if found is not None:
                if kill:  # `stop` reaps it and removes the pid file
                    await asyncio.to_thread(self.processes.send, found, signal.SIGKILL)
                await asyncio.to_thread(self.processes.stop, found, pid_file=pid_file)

    def running(self, name: str) -> Process | None:
        """The process of a supervised daemon."""
        supervised = self._supervised.get(name)
        return supervised.process if supervised else None

    def running_programs(self) -> dict[str, int]:
        """The programs of supervised daemons that run, with their number."""
        running = [each.service.daemon for each in tuple(self._supervised.values()) if each.process is not None]
        return Counter(program_of(daemon.argv) for daemon in running)

    def described(self) -> dict[str, object]:
        """The daemons that were respawned lately, for the agent's report."""
        self._respawned = {n: r for n, r in self._respawned.items() if self.clock() - r.at < RESPAWNED_SECONDS}
        newest = sorted(self._respawned, key=lambda name: -self._respawned[name].at)[:MAX_RESPAWNED]
        return {agents.RESPAWNED: {name: self._respawned[name].text() for name in sorted(newest)}} if newest else {}

    def is_running(self, daemon: Daemon) -> bool:
        """Whether the daemon runs, supervised or not. Blocking."""
        return self.processes.find(daemon.name, daemon.pid_file) is not None

    def plan(self, service: Service) -> list[str]:
        """What `ensure` would do, as a line for `--dry-run`. Blocking."""
        action, _ = plan_service(service, self.processes)
        return [f"{action.value} {service.daemon.name}"] if action is not Action.NOTHING else []

    async def run(self) -> None:
        """Until cancelled; raises DaemonExited with action `exit`. Daemons are left running."""
        bounding = asyncio.create_task(self._bound_logs(), name="bound logs")
        try:
            raise await self._fatal.get()
        finally:
            bounding.cancel()
            for supervised in self._supervised.values():
                supervised.unwatch()

    async def _bound_logs(self) -> None:
        while True:
            await asyncio.sleep(self.log_interval)
            daemons = [each.service.daemon for each in self._supervised.values()]
            await asyncio.to_thread(bound_logs, [daemon.log_file for daemon in daemons if daemon.log_file])

    # --- one daemon ---

    def _apply(self, service: Service, complete: bool) -> tuple[Action, Process]:
        found = None if complete else self.processes.find(service.daemon.name, service.daemon.pid_file)
        return (Action.NOTHING, found) if found is not None else apply_service(service, self.processes)

    async def _wait_exited(self, process: Process, pid_file: str) -> ExitCode:
        try:
            return await self.processes.wait(process)
        except OSError as error:  # the kernel has no pidfd of it
            LOG.warning("%s: no notification of its exit, only periodic checks: %s", process.name, error)
        while await asyncio.to_thread(self.processes.find, process.name, pid_file) == process:
            await asyncio.sleep(self.interval)
        return None

    async def _respawn_forever(self, supervised: _Supervised, process: Process) -> None:
        service, failures, loop = supervised.service, 0, asyncio.get_running_loop()
        while True:
            started = loop.time()
            status = await self._wait_exited(process, service.daemon.pid_file)
            supervised.process = None
            self._publish(ProcessEvent(process.name, "exited", exit_text(status)))
            if self.action == EXIT:
                reason = f"{process.name} {exit_text(status)}, and check_child_processes_action is exit"
                self._fatal.put_nowait(DaemonExited(reason))
                return
            # A crash loop keeps its back-off; a daemon that was stable for a while is respawned at once.
            if loop.time() - started >= self.delays.steady:
                failures = 0
            while supervised.process is None:
                await asyncio.sleep(self.delays.after(failures))
                failures += 1
                try:
                    async with supervised.lock:  # a role may call `ensure` meanwhile
                        _, process = await asyncio.to_thread(apply_service, service, self.processes)
                except (ProcessError, OSError) as error:  # on `failed` the role may create what it lacks
                    self._publish(ProcessEvent(process.name, "failed", str(error)))
                else:
                    supervised.process = process
            RESPAWNS.inc(program_of(service.daemon.argv))
            self._record_respawn(process.name, exit_text(status))
            self._publish(ProcessEvent(process.name, "started", f"respawned as {process.pid}"))

    def _record_respawn(self, name: str, reason: str) -> None:
        before, now = self._respawned.get(name), self.clock()
        times = before.times if before is not None and now - before.at < RESPAWNED_SECONDS else 0
        self._respawned[name] = _Respawned(times + 1, now, reason)

    def _publish(self, event: ProcessEvent) -> None:
        LOG.log(logging.INFO if event.what == "started" else logging.ERROR, "%s: %s", event.name, event.text)
        self.notify(event)
