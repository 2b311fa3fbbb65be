"""Real daemons: spawned inside their namespace, identified by marks in /proc, signalled and awaited through pidfds."""

import asyncio
import contextlib
import dataclasses
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from neutrino import daemon_files
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import ADOPTED, Daemon, ExitCode, ForeignProcess, Process, ProcessError

OWNER, NAME, DIGEST = "NEUTRINO_OWNER", "NEUTRINO_PROCESS", "NEUTRINO_DIGEST"
_DEAD = (b"Z", b"X", b"x")
_MAX_ENVIRONMENT = 1 << 16  # our marks are first in the environments that we make
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SIGKILL_SECONDS = 5.0
_SECOND_SIGTERM_SECONDS = 1.0  # see `_end`
_MARKS_SECONDS = 1.0  # for a new program's environment to be readable
_READY_SECONDS = 20.0  # for a daemon to open its sockets, shown by its pid file
_MAX_REASON, _MAX_PID = 4096, 64  # bytes: of a log as the reason of a failed start, of a pid file
_MAX_EXIT_STATUSES = 1000  # of exits that nobody waits for

# Python ignores some signals, and our own parent may have ignored or blocked others: a daemon starts with the defaults.
_DEFAULTS = {each for each in signal.Signals if each < signal.SIGRTMIN} - {signal.SIGKILL, signal.SIGSTOP}


@dataclasses.dataclass(frozen=True)
class _Marked:
    """A live process that carries our marks, as /proc shows it; a daemon's children inherit them."""

    process: Process
    owner: str
    parent: int
    leads_session: bool


class RealProcesses:
    """`owner` separates our daemons from those of other agents on the machine; it is the agent's state path.

    A daemon is our child while the agent lives, so that its exit status is known; nothing ties it to the agent's life.
    """

    def __init__(self, owner: str, namespaces: Namespaces | None = None) -> None:
        self._owner = owner
        self._namespaces = namespaces or Namespaces()
        self._lock = threading.Lock()
        self._children: dict[int, Process] = {}
        self._exited: dict[tuple[int, int], ExitCode] = {}  # by pid and start time
        # Names with any process, as seen by the first scan of /proc or started since. Only this agent starts daemons of
        # its owner, so other names need no scan: starting a thousand dnsmasq would otherwise read /proc a thousand times.
        self._names: set[str] | None = None

    def running(self) -> dict[str, Process]:
        self._reap()
        marked = {each.process.pid: each for each in self._marked()}
        with self._lock:
            self._names = (self._names or set()) | {each.process.name for each in marked.values()}
        return {each.process.name: each.process for each in marked.values() if _is_daemon(each, marked)}

    def find(self, name: str, pid_file: str = "") -> Process | None:
        self._reap()
        found = _read_marked(_read_pid(pid_file)) if pid_file else None
        if found is not None and self._is(found, name) and found.leads_session:
            return found.process
        adopted = _read_adopted(name, pid_file) if pid_file else None
        if adopted is not None and _is_alive(adopted):
            return adopted
        return self.running().get(name) if self._may_run(name) else None

    def _may_run(self, name: str) -> bool:
        with self._lock:
            return self._names is None or name in self._names

    def _is(self, found: _Marked, name: str) -> bool:
        return found.owner == self._owner and found.process.name == name

    def _marked(self, name: str = "") -> Iterator[_Marked]:
        """Our daemons and their children; with a name, those of one daemon."""
        for entry in os.listdir("/proc"):
            found = _read_marked(int(entry)) if entry.isdigit() else None
            if found is not None and found.owner == self._owner and name in ("", found.process.name):
                yield found

    # --- starting ---

    def start(self, daemon: Daemon) -> Process:
        if self._may_run(daemon.name):
            self._kill_leftovers(daemon.name)
        marks = {OWNER: self._owner, NAME: daemon.name, DIGEST: daemon.digest()}
        # The marks are first, for reading, and last, as the daemon's environment must not override them.
        environment = {**marks, "PATH": os.environ.get("PATH", _PATH), **daemon.environment, **marks}
        if daemon.writes_pid_file:
            # The file of a killed daemon must not count as the sign that this one serves.
            daemon_files.remove(daemon.pid_file)
        try:
            with _opened_log(daemon.log_file) as log:
                logged = os.fstat(log).st_size
                pid = self._namespaces.run(daemon.namespace, lambda: _spawn(daemon, environment, log))
                _set_usual_priority(pid)
        except (OSError, NetlinkError) as error:
            raise ProcessError(f"{daemon.name} cannot be started: {error}") from error
        process = Process(daemon.name, pid, start_time(read_stat(pid)), daemon.digest())
        # The kernel lets us continue a moment before the new program's environment can be read.
        _poll(lambda: _read_marked(pid) is not None or _has_exited(pid), _MARKS_SECONDS, interval=0.0002)
        with self._lock:
            self._children[pid] = process
            if self._names is not None:
                self._names.add(daemon.name)
        if daemon.writes_pid_file:
            self._await_ready(daemon, process, logged)
        elif daemon.pid_file:
            _write_pid(daemon.pid_file, pid)
        return process

    def _await_ready(self, daemon: Daemon, process: Process, logged: int) -> None:
        pid = process.pid
        if _poll(lambda: _read_pid(daemon.pid_file) == pid or _has_exited(pid), _READY_SECONDS, interval=0.002):
            if not _has_exited(pid):
                return
            reason = "it exited"
        else:
            self.stop(process)
            reason = f"it is not ready after {_READY_SECONDS:g} s"
        self._reap()
        reason = daemon_files.read_from(daemon.log_file, logged, _MAX_REASON).strip() or reason
        raise ProcessError(f"{daemon.name} cannot be started: {reason}")

    def _kill_leftovers(self, name: str) -> None:
        """A killed daemon leaves its children behind, which would hold its sockets against the next one."""
        self._reap()
        found = {each.process.pid: each for each in self._marked(name)}
        for pid, each in found.items():
            if _is_daemon(each, found):  # two would fight for sockets and files
                raise ProcessError(f"{name} is already running as {pid}")
        self._kill(found.values())

    def adopt(self, daemon: Daemon, process: ForeignProcess) -> None:
        daemon_files.write(_adopted(daemon.pid_file), f"{_boot()} {process.pid} {process.started}\n")

    # --- stopping ---

    def send(self, process: Process, number: int) -> bool:
        with self._opened(process) as descriptor:
            return descriptor is not None and _signal(descriptor, number)

    def stop(self, process: Process, *, patience: float = 5.0, pid_file: str = "") -> None:
        with self._opened(process, exiting=True) as descriptor:
            if descriptor is not None:
                self._end(process, descriptor, patience)
        self._reap()
        if pid_file:
            daemon_files.remove(pid_file)
            daemon_files.remove(_adopted(pid_file))

    def _end(self, process: Process, descriptor: int, patience: float) -> None:
        # SIGTERM twice: keepalived loses one that arrives while it reads its configuration again.
        first = min(_SECOND_SIGTERM_SECONDS, patience)
        terms = [(signal.SIGTERM, first)] + [(signal.SIGTERM, patience - first)] * (patience > first)
        for number, seconds in (*terms, (signal.SIGKILL, _SIGKILL_SECONDS)):
            _signal(descriptor, number)
            if _exits_within(descriptor, seconds):
                break
        else:
            raise ProcessError(f"{process.name} ({process.pid}) does not exit, not even by SIGKILL")
        if number == signal.SIGKILL:
            self._kill(self._marked(process.name))

    def _kill(self, leftovers: Iterable[_Marked]) -> None:
        for leftover in list(leftovers):
            with self._opened(leftover.process) as descriptor:
                if descriptor is not None and _signal(descriptor, signal.SIGKILL):
                    _exits_within(descriptor, _SIGKILL_SECONDS)

    # --- waiting ---

    async def wait(self, process: Process) -> ExitCode:
        with self._opened(process, exiting=True) as descriptor:
            if descriptor is not None:
                loop, exited = asyncio.get_running_loop(), asyncio.Event()
                loop.add_reader(descriptor, exited.set)  # a pidfd is readable when its process has exited
                try:
                    await exited.wait()
                finally:
                    loop.remove_reader(descriptor)
        self._reap()
        with self._lock:
            return self._exited.pop((process.pid, process.started), None)

    @contextlib.contextmanager
    def _opened(self, process: Process, *, exiting: bool = False) -> Iterator[int | None]:
        """A pidfd of exactly this process, None if it has exited. `exiting`: one that is about to exit will do.

        A pidfd stands for one process for good: the identity that is checked after opening it holds for the signal.
        """
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # A child that is not reaped keeps its pid, although its environment is gone before it exits.
            with self._lock:
                is_child = exiting and self._children.get(process.pid) == process
            yield descriptor if is_child or self._is_same(process) else None
        finally:
            os.close(descriptor)

    def _is_same(self, process: Process) -> bool:
        if process.digest == ADOPTED:
            return _is_alive(process)
        found = _read_marked(process.pid)
        return found is not None and self._is(found, process.name) and found.process.started == process.started

    def _reap(self) -> None:
        """Collect exit statuses of children, which stay zombies until then."""
        with self._lock:
            for pid, process in list(self._children.items()):
                try:
                    done, status = os.waitpid(pid, os.WNOHANG)
                    code = os.waitstatus_to_exitcode(status) if done else None
                except ChildProcessError:
                    done, code = pid, None  # other code of this process has waited for it
                if done:
                    del self._children[pid]
                    self._exited[pid, process.started] = code
            while len(self._exited) > _MAX_EXIT_STATUSES:
                del self._exited[next(iter(self._exited))]


def _is_daemon(each: _Marked, others: dict[int, _Marked]) -> bool:
    """Whether this is the daemon itself; its children inherit the marks."""
    parent = others.get(each.parent)
    return each.leads_session and (parent is None or parent.process.name != each.process.name)


@contextlib.contextmanager
def _opened_log(path: str) -> Iterator[int]:
    if path:
        with daemon_files.opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640) as log:
            yield log
    else:
        with open(os.devnull, "ab") as nothing:
            yield nothing.fileno()


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
            setsid=True,  # a Ctrl-C in the agent's terminal must not reach it
            setsigmask=(),
            setsigdef=_DEFAULTS,
        )


def _set_usual_priority(pid: int) -> None:
    """An agent of low priority yields to others; a keepalived that does loses its routers to another host."""
    if os.getpriority(os.PRIO_PROCESS, 0) > 0:
        with contextlib.suppress(PermissionError, ProcessLookupError):  # without CAP_SYS_NICE; it has exited
            os.setpriority(os.PRIO_PROCESS, pid, 0)


def _inherited() -> Iterator[int]:
    """Descriptors that our parent left open: a daemon would hold them for as long as it lives."""
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(entry) > 2 and os.get_inheritable(int(entry)):
                yield int(entry)


def _poll(condition: Callable[[], bool], seconds: float, *, interval: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(interval)
    return True


def _signal(descriptor: int, number: int) -> bool:
    """False if the process has exited."""
    try:
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    return True


def _exits_within(descriptor: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


# --- pid files and /proc ---


def _read_pid(pid_file: str) -> int:
    """0: none. The file may be the daemon's: the process it names is one of ours only if it carries our marks."""
    try:
        return int(daemon_files.read(pid_file, _MAX_PID) or 0)
    except (OSError, ValueError):
        return 0


def _write_pid(pid_file: str, pid: int) -> None:
    """Atomic. The daemon is found without it too, so failing to write it does not fail the start."""
    with contextlib.suppress(OSError):
        daemon_files.write(pid_file, f"{pid}\n", mode=0o644)


def _adopted(pid_file: str) -> str:
    return f"{pid_file}.{ADOPTED}"


def _read_adopted(name: str, pid_file: str) -> Process | None:
    """The process of the record that `adopt` has written, which may have exited since."""
    match (daemon_files.read(_adopted(pid_file)) or "").split():
        case [boot, pid, at] if boot == _boot() and pid.isdigit() and at.isdigit():
            return Process(name, int(pid), int(at), ADOPTED)
    return None


def _boot() -> str:
    """Start times count from the boot, so another boot may have another process with the same pid and start time."""
    return _read("/proc/sys/kernel/random/boot_id").decode().strip()


def _is_alive(process: Process) -> bool:
    stat = read_stat(process.pid)
    return bool(stat) and stat[0] not in _DEAD and start_time(stat) == process.started


def _read_marked(pid: int) -> _Marked | None:
    """None for a process without marks, a dead one, and one whose environment we may not read."""
    try:
        environment = _read(f"/proc/{pid}/environ")
    except OSError:
        return None
    stat = read_stat(pid) if OWNER.encode() in environment else []
    if not stat or stat[0] in _DEAD:
        return None
    entries = (entry.partition(b"=") for entry in environment.split(b"\0"))
    marks = {
        key.decode(errors="replace"): value.decode(errors="replace")
        for key, _, value in entries
        if key.startswith(b"NEUTRINO_")
    }
    process = Process(marks.get(NAME, ""), pid, start_time(stat), marks.get(DIGEST, ""))
    return _Marked(process, marks.get(OWNER, ""), parent=int(stat[1]), leads_session=int(stat[3]) == pid)


def _has_exited(pid: int) -> bool:
    stat = read_stat(pid)
    return not stat or stat[0] in _DEAD


def start_time(stat: list[bytes]) -> int:
    """The start time in clock ticks since boot; 0 for no process."""
    return int(stat[19]) if stat else 0


def read_stat(pid: int) -> list[bytes]:
    """Read the fields from the third one on: the second is the program's name in parentheses, which may hold any character.

    Zombies have it too; empty if there is no such process.
    """
    try:
        return _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    except OSError:
        return []


def _read(path: str) -> bytes:
    """Without Python's file objects, which take three times as long: a host may have thousands of processes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MAX_ENVIRONMENT)
    finally:
        os.close(descriptor)
