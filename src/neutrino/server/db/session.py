"""The database: reads that hold nothing, and short write transactions that are tried again when another won.

A read is an autocommit connection. A write is one transaction which holds the change, its rows in the change log and
its quota counters, and nothing else: whatever it needs to know was read before. What could have changed in between is
guarded by a unique constraint, a foreign key or a condition on the revision; when one of them objects, `retrying` reads
and decides anew, so a conflict is answered by the same checks that answer a plain mistake.

SQLite has one writer. Waiting for it by sleeping and trying again starves some and slows all, so writers queue on a
lock file instead: the kernel wakes the next one at once.
"""

from __future__ import annotations

import fcntl
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url

from neutrino import private
from neutrino.server import errors
from neutrino.server.db.announce import Announcer
from neutrino.server.db.transaction import Transaction

LOG = logging.getLogger(__name__)
T = TypeVar("T")
ATTEMPTS = 20
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 10
_MYSQL_LOST_RACES = frozenset(
    {
        1213,  # deadlock
        1205,  # lock wait timeout
        1047,  # Galera: the node is not ready
        1020,  # the row has changed since the snapshot: MariaDB with innodb_snapshot_isolation, on since 11.6.2
    }
)


class Stale(Exception):
    """What a write was decided on has changed meanwhile: read again and decide anew."""


class Database:
    """One database, whichever of the three it is. Safe for threads; connections open on first use."""

    def __init__(self, url: str, *, pool_size: int = 10, sqlite_durable: bool = True) -> None:
        self.url = make_url(url)
        self.announces = True  # whether PostgreSQL is to wake the feed after a commit
        self.dialect = self.url.get_backend_name()
        self._announcer = Announcer(self.url) if self.dialect == "postgresql" else None
        if self.dialect == "sqlite":
            self._reads, self._writes = _sqlite_engines(self.url, sqlite_durable)
            self._writer_queue: _WriterQueue | None = _WriterQueue(f"{self.url.database}.lock")
        else:
            self._reads, self._writes = _server_engines(self.url, pool_size)
            self._writer_queue = None
        self._threads = threading.local()  # a thread keeps its connection, and saves the pool's work at every read

    def read(self) -> AbstractContextManager[Connection]:
        """A connection for reading, where every statement stands for itself."""
        return _Read(self._reads, self._threads)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One write transaction; what it recorded is written with it, or nothing is."""
        with self._writer_queue or nullcontext():
            try:
                with self._writes.begin() as connection:
                    tx = Transaction(connection)
                    yield tx
                    tx.flush()
                if self._announcer is not None and self.announces and tx.has_changes:
                    self._announcer.tell()
            except sa.exc.DBAPIError as error:
                _tell(error)
                raise

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Run `attempt` until no other writer was in its way, a bounded number of times."""
        for tries in range(ATTEMPTS):
            try:
                return attempt()
            except (Stale, sa.exc.IntegrityError, sa.exc.OperationalError, sa.exc.InternalError) as error:
                if not isinstance(error, Stale | sa.exc.IntegrityError) and not _is_lost_race(error):
                    raise
                # A little disorder lets writers that collided once not collide again.
                time.sleep(random.random() * 0.002 * (1 << min(tries, 5)))
        raise errors.HTTPServiceUnavailable()

    def warm(self, threads: int = 1) -> None:
        """Open what the first requests need: for each thread a connection to read and one to write, in their pools."""
        for engine in (self._reads, self._writes):
            for connection in [engine.connect() for _ in range(threads)]:
                connection.close()

    def engine(self) -> Engine:
        """The engine of the write side, for migrations."""
        return self._writes

    def close(self) -> None:
        self._threads = threading.local()  # connections of threads go when nobody has them any more
        self._reads.dispose()
        self._writes.dispose()
        if self._announcer is not None:
            self._announcer.close()


class _Kept:
    """A thread's connection. It goes back to the pool with its thread, and does not wait for the garbage collector."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.used = 0.0

    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be on its way out
            self.connection.close()


class _Read:
    """One connection for reading; written as a class because every request passes it several times."""

    def __init__(self, engine: Engine, threads: threading.local) -> None:
        self._engine = engine
        self._threads = threads

    def __enter__(self) -> Connection:
        now = time.monotonic()
        kept: _Kept | None = getattr(self._threads, "kept", None)
        if kept is None or now - kept.used > IDLE_SECONDS:  # a server may have hung up on it meanwhile
            self._threads.kept = None
            try:
                kept = self._threads.kept = _Kept(self._engine.connect())
            except sa.exc.DBAPIError as error:
                _tell(error)
                raise
        kept.used = now
        return kept.connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, sa.exc.SQLAlchemyError):
            self._threads.kept = None
            if isinstance(error, sa.exc.DBAPIError):
                _tell(error)


def _tell(error: sa.exc.DBAPIError) -> None:
    """Errors that are no defect of ours, in words for the client: a database that is away, a value beyond all bounds."""
    if isinstance(error, sa.exc.DataError):
        raise errors.InvalidInput("A value in the request is larger than the database can hold.") from error
    away = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) and not _is_lost_race(error)
    if away and (error.connection_invalidated or _is_refused(error)):
        LOG.error("the database cannot be reached: %s", error.orig)
        raise errors.DatabaseUnreachable() from error


def _is_refused(error: sa.exc.DBAPIError) -> bool:
    """No connection could be had, or it was lost."""
    number = _mysql_number(error)
    if number is not None:  # cannot connect, gone away, lost
        return number in {2002, 2003, 2006, 2013, 1040, 1053}
    state = getattr(error.orig, "sqlstate", None)
    return type(error.orig).__module__.startswith("psycopg") and (state is None or state[:2] in {"08", "57", "53"})


def _mysql_number(error: sa.exc.DBAPIError) -> int | None:
    """The number of an error of MySQL or MariaDB, which PyMySQL gives as the first argument; else None."""
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else None


def _is_lost_race(error: sa.exc.DBAPIError) -> bool:
    """Deadlocks, serialization failures, lock timeouts: the database took the transaction back whole."""
    # The number comes first: PyMySQL's errors have an SQLSTATE too, and that is HY000 for all of these but a deadlock.
    number = _mysql_number(error)
    if number is not None:
        return number in _MYSQL_LOST_RACES
    code = getattr(error.orig, "sqlstate", None)  # psycopg
    if code is not None:
        return code in {"40001", "40P01", "55P03"}
    return "database is locked" in str(error.orig) or "database table is locked" in str(error.orig)


class _WriterQueue:
    """Writers of one SQLite file, in this process and in others, one after the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._threads = threading.Lock()
        self._file: int | None = None
        self._pid = 0

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            if self._file is None or self._pid != os.getpid():  # a lock is the process's own: never one of a parent
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                self._pid = os.getpid()
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()


def _sqlite_engines(url: sa.URL, durable: bool) -> tuple[Engine, Engine]:
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions begin where the code below says, not where the driver guesses
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.execute("PRAGMA busy_timeout=30000")
        cursor.execute("PRAGMA cache_size=-1000")
        cursor.close()

    options: dict[str, Any] = {
        "poolclass": sa.pool.QueuePool,
        "max_overflow": 50,
        "connect_args": {"check_same_thread": False},
        "pool_reset_on_return": None,
    }
    reads = sa.create_engine(url, isolation_level="AUTOCOMMIT", **options)
    writes = sa.create_engine(url, **(options | {"pool_reset_on_return": "rollback"}))
    for engine in (reads, writes):
        sa.event.listen(engine, "do_connect", lambda *_: _for_us_alone(url.database or ""))
        sa.event.listen(engine, "connect", prepare)
    sa.event.listen(writes, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return reads, writes


def _for_us_alone(path: str) -> None:
    """The file holds what all projects have, and the hosts' credentials. SQLite gives its log the mode of the file."""
    if not path or path == ":memory:" or path.startswith("file:"):
        return
    with suppress(OSError):  # SQLite will say what is wrong with it
        private.make_file(path)
        for more in ("-wal", "-shm"):
            private.close_file(path + more)


def _server_engines(url: sa.URL, pool_size: int) -> tuple[Engine, Engine]:
    options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": 50, "pool_recycle": 1800, "pool_pre_ping": False}
    # A transaction here always ends by its own commit or rollback: the pool need not send another to make sure.
    options["pool_reset_on_return"] = None
    if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
        options["connect_args"] = {"connect_timeout": CONNECT_SECONDS}  # as PyMySQL has it; libpq waits without end
    writes = sa.create_engine(url, isolation_level="READ COMMITTED", **options)
    reads = sa.create_engine(url, isolation_level="AUTOCOMMIT", **options)
    return reads, writes
