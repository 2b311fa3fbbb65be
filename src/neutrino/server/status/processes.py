"""The rows of server processes: each API worker and each feed process writes the time to its own row.

One short statement every INTERVAL seconds, or `soon` after what it shows has changed, in a thread: no request writes or
waits. A process that ends deletes its row; of one that was killed the row stays until a new process of the same machine
finds its pid gone, or a sweep finds it too old. Readers on the same machine see at once that it has ended (`has_ended`).
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec
import sqlalchemy as sa

from neutrino import __version__
from neutrino.diagnosis.facts import MACHINE
from neutrino.model.objects import Values
from neutrino.server.db.objects import new_id
from neutrino.server.db.session import Database, retried
from neutrino.server.db.tables import server_processes
from neutrino.server.hosts.registry import timestamp

LOG = logging.getLogger(__name__)
INTERVAL: Final = 10.0  # seconds: SILENT_AFTER of diagnosis/facts.py is several of them
REMOVED_AFTER: Final = 3600.0
STOP_SECONDS: Final = 2.0
PAUSE: Final = 0.5  # seconds between two writes: thousands of hosts that reconnect at once cost a few
START: Final = "start"  # in `details`: by it a pid that was given to another program is told apart
Details = Callable[[], Values]


@dataclass(eq=False)
class ServerProcess:
    """The row of this process. Started in the process itself: a thread does not survive a fork."""

    db: Database
    host: str
    kind: str
    details: Details = dict
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._due = threading.Event()
        self._thread: threading.Thread | None = None
        self._started_at = ""
        self.id = ""  # given at the start: what is assembled before a fork is shared by several processes

    def start(self) -> None:
        self.id = new_id()
        self._thread = threading.Thread(target=self._run, daemon=True, name="server-process")
        self._thread.start()

    def soon(self) -> None:
        """Write the row without waiting for the interval to end: what it shows has changed."""
        self._due.set()

    def stop(self) -> None:
        """End the thread and delete the row; nothing if it was not started. Call it before the database is closed."""
        self._stop.set()
        self._due.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
            self._thread = None
            self._try(self.remove)

    def _run(self) -> None:
        self._try(self.remove_ended)
        self.db.release()  # a connection less at the database server
        while not self._stop.is_set():
            self._due.clear()  # before the details are read: a change meanwhile is written by the next round
            self._try(self.write)
            if not self._stop.wait(PAUSE):
                self._due.wait(INTERVAL - PAUSE)

    def _try(self, work: Callable[[], None]) -> None:
        """A database that does not respond must not end the thread, and is logged by the requests that need it."""
        try:
            work()
        except Exception as error:
            LOG.debug("the row of this process is not written: %s", error)

    @retried
    def write(self) -> None:
        now = timestamp(self.clock())
        self._started_at = self._started_at or now
        details = msgspec.json.encode({START: start_ticks(os.getpid()), MACHINE: machine(), **self.details()}).decode()
        with self.db.transaction(of_cloud=False) as tx:
            changed = (
                sa.update(server_processes).where(server_processes.c.id == self.id).values(seen_at=now, details=details)
            )
            if not tx.execute(changed).rowcount:  # the first time, or after a sweep removed it
                row = {"id": self.id, "host": self.host, "kind": self.kind, "pid": os.getpid(), "release": __version__}
                row |= {"started_at": self._started_at, "seen_at": now, "details": details}
                tx.write(sa.insert(server_processes).values(row))

    @retried
    def remove(self) -> None:
        """Delete the row, and those that it has replaced (`Facts.is_replaced`): nothing would tell any more that it did."""
        columns = server_processes.c
        # One that lives, in a container with the same host name, writes its row again.
        silent = sa.and_(columns.host == self.host, columns.kind == self.kind, columns.seen_at < self._started_at)
        with self.db.read() as connection:
            rows = connection.execute(sa.select(columns.id, columns.details).where(silent)).all()
        replaced = [row.id for row in rows if msgspec.json.decode(row.details).get(MACHINE) != machine()]
        with self.db.transaction(of_cloud=False) as tx:
            tx.write(sa.delete(server_processes).where(columns.id.in_([self.id, *replaced])))

    @retried
    def remove_ended(self) -> None:
        """Delete the rows of processes of this machine that have ended without deleting theirs."""
        with self.db.read() as connection:
            rows = connection.execute(
                sa.select(server_processes.c.id, server_processes.c.pid, server_processes.c.details).where(
                    server_processes.c.host == self.host
                )
            ).all()
        ended = [row.id for row in rows if has_ended(row.pid, {MACHINE: machine(), **msgspec.json.decode(row.details)})]
        if ended:
            with self.db.transaction(of_cloud=False) as tx:
                tx.write(sa.delete(server_processes).where(server_processes.c.id.in_(ended)))


@dataclass(frozen=True)
class ProcessSweep:
    """Deletes rows that no process has written for a long time."""

    db: Database
    clock: Callable[[], float] = time.time

    @retried
    def sweep(self) -> None:
        old = server_processes.c.seen_at < timestamp(self.clock() - REMOVED_AFTER)
        with self.db.read() as connection:  # first: nearly always there is nothing to delete
            ids = list(connection.execute(sa.select(server_processes.c.id).where(old)).scalars())
        if ids:
            with self.db.transaction(of_cloud=False) as tx:
                tx.write(sa.delete(server_processes).where(server_processes.c.id.in_(ids), old))


def has_ended(pid: int, details: Values) -> bool:
    """Whether the process of a row has ended, if it was one of this machine; False for those of others.

    Units of systemd with ProtectProc=invisible and PrivateUsers=true do not see each other in /proc: a process that cannot
    be read there has ended only if there is none of that pid.
    """
    if details.get(MACHINE) != machine():
        return False
    started = start_ticks(pid)
    return started != details.get(START) if started is not None else not _exists(pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@cache
def machine() -> str:
    """Tells machines apart, and namespaces of pids: containers may have the same host name."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    return sha256(f"{boot}{os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:16]


def start_ticks(pid: int) -> int | None:
    """The start time of a process in clock ticks since boot; None if there is no such process, or it is hidden."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return int(text.rpartition(")")[2].split()[19])  # field 22; the name before may contain spaces
