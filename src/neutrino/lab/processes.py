"""The processes of a lab: starting them, finding them, ending them.

A lab must be able to end everything that is its own, also when a command died half-way and whatever the processes did
(daemons fork, change their user, overwrite their environment), and must never touch anything else. So belonging is read
from the kernel: a process is the lab's when its mount namespace has the lab's mark (see `isolate`), which one that changed
its root does not show but shares with others; or when its environment names the lab. Pid files only say which is which.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from neutrino.lab import isolate
from neutrino.lab.errors import LabError
from neutrino.lab.settings import Places

ENVIRONMENT = "NEUTRINO_LAB"
STOP_SECONDS = 15.0
START_SECONDS = 15.0
BURIAL_SECONDS = 3.0
_OCTAL = re.compile(r"\\([0-7]{3})")


def mark(state: Path) -> str:
    return f"neutrino-lab:{state}"


# --- looking ----------------------------------------------------------------------------------------------------------


def read_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def has_mark(pid: int, state: Path) -> bool:
    """Whether the process is in a mount namespace of the lab's. One that has ended, waited for or not, is not."""
    try:
        mounts = Path(f"/proc/{pid}/mountinfo").read_text(errors="surrogateescape")
    except OSError:
        return False
    return mark(state) in _sources(mounts)


def names_lab(pid: int, state: Path) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return os.fsencode(f"{ENVIRONMENT}={state}") in environment.split(b"\0")


def is_member(pid: int, state: Path) -> bool:
    return has_mark(pid, state) or names_lab(pid, state)


def _sources(mounts: str) -> Iterator[str]:
    for line in mounts.splitlines():
        _, _, kind_source_options = line.partition(" - ")
        source = kind_source_options.split(" ")[1:2]
        yield from (_OCTAL.sub(lambda found: chr(int(found[1], 8)), text) for text in source)


def read_namespace(pid: int | str, kind: str) -> str:
    """Which one of the kind `net` or `mnt` the process is in; nothing if it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def read_members(state: Path) -> frozenset[int]:
    """Every process of the lab, ourselves not counted."""
    pids = [pid for pid in read_pids() if pid != os.getpid()]
    members = {pid for pid in pids if is_member(pid, state)}
    machine = {read_namespace(pid, "mnt") for pid in ("self", 1)}
    # A daemon of an agent names nothing, and the mark goes with the lab's directory where that is deleted by hand.
    own = {read_namespace(pid, "mnt") for pid in members} - machine - {""}
    return frozenset(members.union(pid for pid in pids if read_namespace(pid, "mnt") in own))


def read_in_network(inode: int) -> list[int]:
    """The processes in a network namespace."""
    return [pid for pid in read_pids() if read_namespace(pid, "net") == f"net:[{inode}]"]


def read_state(pid: int) -> tuple[str, int]:
    """The kernel's letter for what the process does, and its parent. Z has ended; one that is gone has no letter."""
    try:
        letter, parent, *_ = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return "", 0
    return letter, int(parent)


def is_alive(pid: int) -> bool:
    return read_state(pid)[0] not in ("", "Z", "X")


# --- ending -----------------------------------------------------------------------------------------------------------


def wait_for_end(pid: int, timeout: float) -> bool:
    """Whether the process, which need not be our child, has ended in time."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        ready, _, _ = select.select([watched], [], [], timeout)
        return bool(ready)
    finally:
        os.close(watched)


def end(pid: int, number: signal.Signals = signal.SIGTERM, timeout: float = STOP_SECONDS) -> None:
    """End one process; one that does not listen is killed."""
    for how in (number, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, how)
        if wait_for_end(pid, timeout):
            return
    raise LabError(f"process {pid} does not end")


def end_all(state: Path, timeout: float = STOP_SECONDS) -> int:
    """Kill what belongs to the lab until nothing does; how many there were."""
    ended: set[int] = set()
    give_up = time.monotonic() + timeout
    while members := read_members(state):
        if time.monotonic() > give_up:
            raise LabError(f"processes of the lab do not end: {', '.join(map(str, sorted(members)))}")
        for pid in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in members:
            wait_for_end(pid, max(0.0, give_up - time.monotonic()))
        ended |= members
    _wait_for_burial(ended)
    return len(ended)


def _wait_for_burial(ended: set[int]) -> None:
    """Orphans are seen until process 1 has waited for them. It may take its time, and may not do it at all."""
    give_up = time.monotonic() + BURIAL_SECONDS
    while any(read_state(pid)[0] and read_state(pid)[1] != os.getpid() for pid in ended):
        if time.monotonic() > give_up:
            return
        time.sleep(0.02)


# --- starting ---------------------------------------------------------------------------------------------------------


def _wait_for_name(pid: int, state: Path) -> None:
    """Popen is back a moment before the kernel shows the new environment: until then the process would be nobody's."""
    give_up = time.monotonic() + START_SECONDS
    while is_alive(pid) and not is_member(pid, state) and time.monotonic() < give_up:
        time.sleep(0.001)


class Processes:
    """Those that the lab itself starts and knows by name: `h1`, `h1-agent`, `server`, …"""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.Lock()

    def start(self, name: str, argv: Sequence[str], pass_fds: Sequence[int] = ()) -> int:
        """A process that outlives us, with its output in the logs."""
        with self._places.log(name).open("ab") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment(),
                pass_fds=pass_fds,
                cwd="/",
            )
        self._reap(process)
        _wait_for_name(process.pid, self._places.state)
        (self._places.pids / name).write_text(f"{process.pid}\n")
        return process.pid

    def hold(self, name: str) -> int:
        """A network and a mount namespace for a host, held by a process that does nothing. Waits until they are there."""
        options = ["--host", str(self._places.state), "--title", f"neutrino-lab-{name}"]
        return self.start_isolated(name, ["sleep", "infinity"], options)

    def start_isolated(self, name: str, argv: Sequence[str], more: Sequence[str] = ()) -> int:
        """A process in a mount namespace of the lab's. Waits until it runs there."""
        readable, writable = os.pipe()
        options = ["--mark", mark(self._places.state), "--at", str(self._places.mark), "--ready", str(writable)]
        try:
            script = [sys.executable, "-I", "-S", isolate.__file__, *options, *more, *argv]
            pid = self.start(name, script, pass_fds=[writable])
        finally:
            os.close(writable)
        with open(readable, "rb", buffering=0) as pipe:
            ready, _, _ = select.select([pipe], [], [], START_SECONDS)
            if not ready:
                raise LabError(f"{name} does not start")
            if trouble := pipe.read(4096):
                raise LabError(f"{name} cannot have namespaces of its own: {trouble.decode(errors='replace')}")
        return pid

    def pid(self, name: str) -> int | None:
        """The process, if it lives and is the lab's: its number may belong to another by now."""
        try:
            pid = int((self._places.pids / name).read_text())
        except (OSError, ValueError):
            return None
        return pid if is_alive(pid) and (self._is_child(pid) or is_member(pid, self._places.state)) else None

    def _is_child(self, pid: int) -> bool:
        """Then the number is still its own. What it shows of itself is empty for a moment when it becomes a program."""
        with self._lock:
            return any(child.pid == pid and child.poll() is None for child in self._children)

    def end(self, name: str, number: signal.Signals = signal.SIGTERM) -> None:
        pid = self.pid(name)
        if pid is not None:
            end(pid, number)
        self._reap()

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, ENVIRONMENT: str(self._places.state)}

    def _reap(self, *started: subprocess.Popen[bytes]) -> None:
        """Children are kept until they end, so that none stays a zombie for long."""
        with self._lock:
            self._children = [child for child in (*self._children, *started) if child.poll() is None]
