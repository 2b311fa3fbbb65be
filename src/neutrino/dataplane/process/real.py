"""Real daemons, started inside their namespace, found by their marks, signalled and watched through pidfds.

A daemon is our child while we live, so that how it ended is known; nothing binds it to us, and when we end it is init's. A
pidfd stands for one process for good: what is checked after it was opened holds when the signal is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Iterable, Iterator

from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import Daemon, Ended, Process, ProcessError
from neutrino.dataplane.process.proc import DIGEST, NAME, OWNER, Found, all_of, has_ended, look_at, started_at

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_AFTER_KILL = 5.0
_ASKED_AGAIN = 1.0
_SEEN_WITHIN = 1.0
_MOST_ENDED = 1000  # how many endings are remembered that nobody has asked for

# Python ignores some, and whoever started us may have ignored others: a daemon starts with none ignored and none blocked.
_DEFAULTS = {each for each in signal.Signals if each < signal.SIGRTMIN} - {signal.SIGKILL, signal.SIGSTOP}


class RealProcesses:
    """`owner` tells our daemons from those of other agents on the machine, such as the agent's state path."""

    def __init__(self, owner: str, namespaces: Namespaces | None = None) -> None:
        self._owner = owner
        self._namespaces = namespaces or Namespaces()
        self._lock = threading.Lock()
        self._children: dict[int, Process] = {}
        self._ended: dict[tuple[int, int], Ended] = {}  # by number and start

    # --- finding ---

    def running(self) -> dict[str, Process]:
        self._reap()
        found = {each.pid: each for each in all_of(self._owner)}
        return {each.marks[NAME]: _process(each) for each in found.values() if _is_leader(each, found)}

    def find(self, name: str, pid_file: str = "") -> Process | None:
        self._reap()
        found = look_at(_read_pid(pid_file)) if pid_file else None
        if found is not None and self._is(found, name) and found.session == found.pid:
            return _process(found)
        return self.running().get(name)

    def _is(self, found: Found, name: str) -> bool:
        return found.marks.get(OWNER) == self._owner and found.marks.get(NAME) == name

    # --- starting ---

    def start(self, daemon: Daemon) -> Process:
        self._make_way(daemon.name)
        marks = {OWNER: self._owner, NAME: daemon.name, DIGEST: daemon.digest()}
        environment = {**marks, "PATH": os.environ.get("PATH", _PATH), **daemon.environment, **marks}
        try:
            with _output(daemon.log_file) as output:
                pid = self._namespaces.run(daemon.namespace, lambda: _spawn(daemon, environment, output))
        except (OSError, NetlinkError) as error:
            raise ProcessError(f"{daemon.name} cannot be started: {error}") from error
        process = Process(daemon.name, pid, started_at(pid), daemon.digest())
        _await_marks(pid)
        with self._lock:
            self._children[pid] = process
        if daemon.pid_file:
            _write_pid(daemon.pid_file, pid)
        return process

    def _make_way(self, name: str) -> None:
        self._reap()
        found = {each.pid: each for each in all_of(self._owner) if each.marks.get(NAME) == name}
        for each in found.values():
            if _is_leader(each, found):
                raise ProcessError(f"{name} runs already, as {each.pid}")
        self._kill(found.values())

    # --- ending ---

    def send(self, process: Process, number: int) -> bool:
        with self._opened(process) as descriptor:
            if descriptor is None:
                return False
            try:
                signal.pidfd_send_signal(descriptor, number)
            except ProcessLookupError:
                return False
            return True

    def stop(self, process: Process, *, patience: float = 5.0, pid_file: str = "") -> None:
        with self._opened(process, ending=True) as descriptor:
            if descriptor is not None:
                self._end(process, descriptor, patience)
        self._reap()
        if pid_file:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(pid_file)

    def _end(self, process: Process, descriptor: int, patience: float) -> None:
        for number, seconds in (*_terms(patience), (signal.SIGKILL, _AFTER_KILL)):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if _ends_within(descriptor, seconds):
                break
        else:
            raise ProcessError(f"{process.name} ({process.pid}) does not end, not even by SIGKILL")
        if number == signal.SIGKILL:
            self._kill([each for each in all_of(self._owner) if each.marks.get(NAME) == process.name])

    def _kill(self, leftovers: Iterable[Found]) -> None:
        """What a daemon has started and left behind, as one that was killed does: it would get in the next one's way."""
        for each in leftovers:
            with self._opened(_process(each)) as descriptor:
                if descriptor is not None:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                    _ends_within(descriptor, _AFTER_KILL)

    # --- watching ---

    async def wait(self, process: Process) -> Ended:
        with self._opened(process, ending=True) as descriptor:
            if descriptor is not None:
                await _readable(descriptor)
        self._reap()
        with self._lock:
            return self._ended.pop((process.pid, process.started), Ended())

    @contextlib.contextmanager
    def _opened(self, process: Process, *, ending: bool = False) -> Iterator[int | None]:
        """A pidfd of exactly this process, None if it has ended. `ending`: one that is about to will do."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            yield descriptor if (ending and self._is_child(process)) or self._is_same(process) else None
        finally:
            os.close(descriptor)

    def _is_same(self, process: Process) -> bool:
        found = look_at(process.pid)
        return found is not None and self._is(found, process.name) and found.started == process.started

    def _is_child(self, process: Process) -> bool:
        """A child that we have not waited for keeps its number, though its marks go before it does."""
        with self._lock:
            return self._children.get(process.pid) == process

    def _reap(self) -> None:
        """Take note of how children have ended; until then they would be zombies."""
        with self._lock:
            for pid, process in list(self._children.items()):
                try:
                    done, status = os.waitpid(pid, os.WNOHANG)
                    ended = _ended(status)
                except ChildProcessError:
                    done, ended = pid, Ended()  # somebody else in this process has waited for it
                if done:
                    del self._children[pid]
                    self._ended[pid, process.started] = ended
            while len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]


def _terms(patience: float) -> Iterator[tuple[signal.Signals, float]]:
    """Twice: keepalived forgets a SIGTERM that comes while it reads its configuration again."""
    first = min(_ASKED_AGAIN, patience)
    yield signal.SIGTERM, first
    if patience > first:
        yield signal.SIGTERM, patience - first


def _process(found: Found) -> Process:
    return Process(found.marks.get(NAME, ""), found.pid, found.started, found.marks.get(DIGEST, ""))


def _is_leader(each: Found, others: dict[int, Found]) -> bool:
    """Whether it is the daemon itself, and not one that it has started: those carry its marks too."""
    parent = others.get(each.parent)
    child = parent is not None and parent.marks.get(NAME) == each.marks.get(NAME)
    return each.session == each.pid and not child


def _spawn(daemon: Daemon, environment: dict[str, str], output: int) -> int:
    with open(os.devnull, "rb") as nothing:
        files = [(nothing.fileno(), 0), (output, 1), (output, 2)]
        return os.posix_spawnp(
            daemon.argv[0],
            daemon.argv,
            environment,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, old, new) for old, new in files),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited()),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_DEFAULTS,
        )


def _inherited() -> Iterator[int]:
    """Files that whoever started us has left open: a daemon would hold them for as long as it lives."""
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(entry) > 2 and os.get_inheritable(int(entry)):
                yield int(entry)


def _await_marks(pid: int) -> None:
    """The kernel lets us go on a moment before the environment of what we started can be seen."""
    deadline = time.monotonic() + _SEEN_WITHIN
    while look_at(pid) is None and not has_ended(pid) and time.monotonic() < deadline:
        time.sleep(0.0002)


@contextlib.contextmanager
def _output(log_file: str) -> Iterator[int]:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(log_file, flags, 0o640) if log_file else os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read_pid(pid_file: str) -> int:
    try:
        with open(pid_file) as file:
            return int(file.read(20))
    except (OSError, ValueError):
        return 0


def _write_pid(pid_file: str, pid: int) -> None:
    """Whole or not at all. Without it the daemon is still found, so that it cannot be written is no failure of starting."""
    with contextlib.suppress(OSError):
        temporary = f"{pid_file}.new"
        with open(temporary, "w") as file:
            file.write(f"{pid}\n")
        os.rename(temporary, pid_file)


def _ended(status: int) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    return Ended(status=code) if code >= 0 else Ended(signal=-code)


def _ends_within(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


async def _readable(descriptor: int) -> None:
    """A pidfd can be read when its process has ended."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
