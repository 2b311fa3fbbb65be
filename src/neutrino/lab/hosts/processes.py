"""The processes of a lab: start, find and end them.

`neutrino lab down` must end every process of the lab, even after a command was killed half-way and whatever the processes
did (daemons fork, change user, overwrite their environment), and must not touch any other. So membership is read from the
kernel: a process belongs to the lab if its mount namespace has the lab's mark, a tmpfs whose source names the lab; if it
shares its mount namespace with such a process (after chroot it does not see the mark); or if its environment names the lab.
Pid files only map names to processes.
"""

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from neutrino.lab.errors import LabError, wait_until
from neutrino.lab.settings import LabPaths
from neutrino.lab.timing import scaled

ENVIRONMENT = "NEUTRINO_LAB"
NOTHING: Mapping[str, str] = {}
STOP_SECONDS = 60.0
START_SECONDS = 15.0
REAP_SECONDS = 3.0
_TMPFS = re.compile(r" - tmpfs (\S+) ")
_OCTAL = re.compile(r"\\([0-7]{3})")
ISOLATE = Path(__file__).with_name("isolate.sh")


def mark(state: Path) -> str:
    return f"neutrino-lab:{state}"


# --- reading /proc ----------------------------------------------------------------------------------------------------


def read_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def is_member(pid: int, state: Path) -> bool:
    """Whether the process has the lab's mark or environment. False for a zombie, which has neither."""
    if has_mark(pid, state):
        return True
    try:
        return os.fsencode(f"{ENVIRONMENT}={state}") in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def has_mark(pid: int, state: Path) -> bool:
    """Whether the lab's mark is mounted in the mount namespace of the process."""
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return False
    # A space in the path is written as \040.
    sources = (_OCTAL.sub(lambda code: chr(int(code[1], 8)), source) for source in _TMPFS.findall(mounts))
    return mark(state) in sources


def read_namespace(pid: int | str, kind: str) -> str:
    """The process' namespace of the kind `net` or `mnt`; empty if the process has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def read_members(state: Path) -> frozenset[int]:
    """Every process of the lab except this one."""
    pids = [pid for pid in read_pids() if pid != os.getpid()]
    members = {pid for pid in pids if is_member(pid, state)}
    machine = {read_namespace(pid, "mnt") for pid in ("self", 1)}
    # Daemons of an agent have a cleared environment, and the mark disappears when a user deletes the lab's directory by
    # hand. They are found by the mount namespace that they share with other members.
    own = {read_namespace(pid, "mnt") for pid in members} - machine - {""}
    return frozenset(members.union(pid for pid in pids if read_namespace(pid, "mnt") in own))


def _read_state(pid: int) -> tuple[str, int]:
    """The process' state letter (Z for a zombie; empty if there is no such process) and its parent's pid."""
    try:
        # The command name, in parentheses, may itself contain spaces and parentheses.
        letter, parent, *_ = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return "", 0
    return letter, int(parent)


def is_alive(pid: int) -> bool:
    return _read_state(pid)[0] not in ("", "Z", "X")


# --- ending -----------------------------------------------------------------------------------------------------------


def wait_for_end(pid: int, timeout: float) -> bool:
    """Whether the process ended in time. By pidfd, as it need not be a child of this process."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([pidfd], [], [], scaled(timeout))[0])
    finally:
        os.close(pidfd)


def end_all(state: Path, timeout: float = STOP_SECONDS) -> int:
    """Kill the lab's processes until none is left, as they may fork meanwhile; returns their number."""
    ended: set[int] = set()
    give_up = time.monotonic() + scaled(timeout)
    while members := read_members(state):
        if time.monotonic() > give_up:
            raise LabError(f"processes of the lab do not end: {', '.join(map(str, sorted(members)))}")
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in members:
            wait_for_end(pid, max(0.0, give_up - time.monotonic()))
        ended |= members
    _wait_for_reaping(ended)
    return len(ended)


def _wait_for_reaping(ended: set[int]) -> None:
    """Orphans stay visible as zombies until process 1 reaps them. Bounded, as in a container process 1 may never do it."""

    def are_reaped() -> bool:
        return not any((state := _read_state(pid))[0] and state[1] != os.getpid() for pid in ended)

    with contextlib.suppress(LabError):
        wait_until(are_reaped, REAP_SECONDS, "processes are not reaped")


# --- starting ---------------------------------------------------------------------------------------------------------


class Processes:
    """The named processes that the lab starts: `h1`, `h1-agent`, `server`, …"""

    def __init__(self, paths: LabPaths) -> None:
        self._paths = paths
        self._children: list[subprocess.Popen[bytes]] = []  # kept: Python warns of one that is dropped while it runs

    def start(self, name: str, argv: Sequence[str], environment: Mapping[str, str] = NOTHING) -> int:
        """Start a process that outlives this one, with its output in the log `name`; returns its pid once it has entered
        the lab's namespaces, where a concurrent `down` finds it.
        """
        with self._paths.log(name).open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal of `lab up` must not reach it
                env={**self.environment(), **environment},
                cwd="/",
            )
        self._children.append(process)
        for child in self._children:
            child.poll()  # reaps those that have ended
        (self._paths.pids / name).write_text(f"{process.pid}\n")
        what = f"{name} has not entered its namespaces"
        wait_until(lambda: self._is_marked(process.pid) or not is_alive(process.pid), START_SECONDS, what)
        return process.pid

    def hold(self, name: str) -> int:
        """Create a network and a mount namespace, held by a sleeping process."""
        title = f"neutrino-lab-{name}"
        return self._start_in_namespaces(name, ["--mount", "--net"], "host", title, "sleep", "infinity")

    def start_isolated(self, name: str, argv: Sequence[str], environment: Mapping[str, str] = NOTHING) -> int:
        """Start a process in a new mount namespace with the lab's mark."""
        return self._start_in_namespaces(name, ["--mount"], "process", argv[0], *argv, environment=environment)

    def _start_in_namespaces(
        self,
        name: str,
        namespaces: Sequence[str],
        kind: str,
        title: str,
        *argv: str,
        environment: Mapping[str, str] = NOTHING,
    ) -> int:
        state = self._paths.state
        values = [kind, mark(state), str(self._paths.mark), str(state), title]
        pid = self.start(name, ["unshare", *namespaces, "bash", str(ISOLATE), *values, *argv], environment)
        if not self._is_marked(pid):
            reason = self._paths.log(name).read_text(errors="replace").strip()
            raise LabError(f"cannot create namespaces for {name}: {reason or 'it does not start'}")
        return pid

    def pid(self, name: str) -> int | None:
        """The pid if the process runs and is the lab's: the pid of a stale file may be reused by another process."""
        try:
            pid = int((self._paths.pids / name).read_text())
        except (OSError, ValueError):
            return None
        return pid if is_alive(pid) and self._is_marked(pid) else None

    def _is_marked(self, pid: int) -> bool:
        # Not by the environment, which /proc shows as empty during execve.
        return has_mark(pid, self._paths.state)

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, ENVIRONMENT: str(self._paths.state)}
