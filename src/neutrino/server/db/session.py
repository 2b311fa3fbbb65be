"""The database: reads without locks, and short optimistic write transactions that are retried on conflict.

A read is an autocommit connection. A write transaction contains the change, its rows in the change log and its quota
counters, and nothing else: what it depends on was read before. What may have changed in between is guarded by a unique
constraint, a foreign key or a condition on the revision; if one of them fails, `retrying` reads and decides again, so a
lost race gets the same error as a plain mistake.

SQLite has one writer. Retrying with sleeps starves some writers and slows all, so writers queue on a lock file: the kernel
wakes the next one at once.
"""

import fcntl
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url

from neutrino import private
from neutrino.metrics.catalog import EXHAUSTED, RETRIES, UNREACHABLE
from neutrino.server import errors
from neutrino.server.db import batch, compiled, cursors, read_ahead
from neutrino.server.db.commit_notifier import CommitNotifier
from neutrino.server.db.transaction import Stale as Stale
from neutrino.server.db.transaction import Transaction

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
ATTEMPTS = 20  # with back-off about half a second: beyond that the client had better retry (503)
IDLE_SECONDS = 60.0  # below the idle timeouts of databases and load balancers
CONNECT_SECONDS = 10
_MYSQL_LOST_RACES = frozenset(
    {
        1213,  # deadlock
        1205,  # lock wait timeout
        1047,  # Galera: the node is not ready
        1020,  # the row has changed since the snapshot: innodb_snapshot_isolation, on since MariaDB 11.6.2
    }
)


class Database:
    """A database of any of the three kinds. Thread-safe; connections open on first use."""

    def __init__(self, url: str, *, pool_size: int = 10, sqlite_durable: bool = True) -> None:
        self.url = make_url(url)
        self.notifies = True  # whether a commit wakes the feed (PostgreSQL)
        self.dialect = self.url.get_backend_name()
        self._notifier = CommitNotifier(self.url) if self.dialect == "postgresql" else None
        if self.dialect == "sqlite":
            self._reads, self._writes = _sqlite_engines(self.url, sqlite_durable)
            self._writer_queue: _WriterQueue | None = _WriterQueue(f"{self.url.database}.lock")
        else:
            self._reads, self._writes = _server_engines(self.url, pool_size)
            self._writer_queue = None
        self._sender = batch.install(self._writes)
        is_sqlite = self.dialect == "sqlite"
        self._statements = compiled.Statements(self._writes.dialect) if is_sqlite else None
        self._migrations = self._writes  # an engine whose transactions need no batch
        if not is_sqlite:
            self._migrations = self._writes.execution_options(isolation_level="READ COMMITTED")
        self._prepare_read = read_ahead.install(self._reads)
        self._threads = threading.local()  # each thread keeps its read connection: no pool checkout per read

    def read(self) -> AbstractContextManager[Connection]:
        """A connection for reading, in autocommit: each statement sees what is committed, and no lock is held."""
        return _Read(self._connect_to_read, self._threads)

    def _connect_to_read(self) -> Connection:
        return self._prepare_read(self._reads.connect())

    def read_ahead(self, reads: Callable[[], Iterable[read_ahead.Read]]) -> None:
        """Send reads that this request is going to make together; `reads` is called only if that is of use."""
        if self._sender is None:  # SQLite
            return
        with self.read() as connection:
            ahead = read_ahead.of(connection)
            if ahead is not None:
                ahead.read(connection, list(reads()))

    def _forget_reads(self) -> None:
        """What was read ahead may have changed: it is read again."""
        kept = getattr(self._threads, "kept", None)
        if kept is not None and (ahead := read_ahead.of(kept.connection)) is not None:
            ahead.clear()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """One write transaction, with its change log rows and quota counters."""
        self._forget_reads()
        # The queue is entered before BEGIN, and left after COMMIT, so that no writer waits inside a transaction.
        with self._writer_queue or nullcontext():
            try:
                with self._writes.begin() as connection:
                    deferred = batch.Batch(connection, self._sender, self._statements)
                    tx = Transaction(connection, deferred, is_repeated=self.is_repeated)
                    with deferred.translated():
                        yield tx
                        has_changes = tx.flush()
                if self._notifier is not None and self.notifies and has_changes:
                    self._notifier.notify()
            except sa.exc.DBAPIError as error:
                _raise_api_error(error)
                raise
        if tx.callbacks:  # called by the `retrying` that this transaction is in
            self._threads.callbacks.extend(tx.callbacks)

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Run `attempt` until it has no conflict with another writer, then the callbacks of its transactions."""
        threads = self._threads
        # A nested call runs the callbacks of its own attempt only.
        outer = getattr(threads, "callbacks", None), getattr(threads, "is_repeated", False)
        callbacks: list[Callable[[], object]] = []
        threads.callbacks, threads.is_repeated = callbacks, False
        try:
            result = self._attempted(attempt)
        finally:
            threads.callbacks, threads.is_repeated = outer
        for call in callbacks:
            call()
        return result

    def _attempted(self, attempt: Callable[[], T]) -> T:
        """The result of the first attempt without a conflict, of a bounded number."""
        for tries in range(ATTEMPTS):
            try:
                return attempt()
            except (Stale, sa.exc.IntegrityError, sa.exc.OperationalError, sa.exc.InternalError) as error:
                if not isinstance(error, Stale | sa.exc.IntegrityError) and not _is_lost_race(error):
                    raise
                RETRIES.inc(_reason(error))
                self._threads.is_repeated = True
                self._forget_reads()
                # Jitter: writers that collided would otherwise collide again.
                time.sleep(random.random() * 0.002 * (1 << min(tries, 5)))
        EXHAUSTED.inc()
        raise errors.HTTPServiceUnavailable()

    @property
    def is_repeated(self) -> bool:
        """Whether the current attempt of `retrying` in this thread is not the first one."""
        return bool(getattr(self._threads, "is_repeated", False))

    def connections(self) -> dict[tuple[str, ...], float]:
        """The connections of this process by pool and state, for metrics."""
        found: dict[tuple[str, ...], float] = {}
        for name, engine in (("read", self._reads), ("write", self._writes)):
            pool = engine.pool
            if isinstance(pool, sa.pool.QueuePool):
                found[name, "used"], found[name, "idle"] = pool.checkedout(), pool.checkedin()
        return found

    def warm(self, threads: int = 1) -> None:
        """Open the connections of the first requests: for each thread one to read and one to write, in their pools."""
        for engine in (self._reads, self._writes):
            for connection in [engine.connect() for _ in range(threads)]:
                connection.close()

    def engine(self) -> Engine:
        """The engine for migrations."""
        return self._migrations

    def close(self) -> None:
        self._threads = threading.local()  # drops the threads' read connections
        self._reads.dispose()
        self._writes.dispose()
        if self._notifier is not None:
            self._notifier.close()


class HasDatabase(Protocol):
    @property
    def db(self) -> Database: ...


S = TypeVar("S", bound=HasDatabase)


def retried(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorator: the method is repeated as a whole when it loses a race (`Database.retrying`).

    It reads, decides and writes. What follows the commit and may lose a race itself is left to `Transaction.after_commit`:
    within the method it would make the committed change a second time.
    """

    @wraps(method)
    def repeated(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.db.retrying(lambda: method(self, *args, **kwargs))

    return repeated


class _Kept:
    """A thread's connection, which returns to the pool when the thread ends."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.used = 0.0

    # Not left to the garbage collector, which comes late for such cycles: many short threads would empty the pool.
    def __del__(self) -> None:
        with suppress(Exception):  # the interpreter may be shutting down
            self.connection.close()


class _Read:
    """A connection for reading. A class instead of a generator, because every request uses several."""

    def __init__(self, connect: Callable[[], Connection], threads: threading.local) -> None:
        self._connect = connect
        self._threads = threads

    def __enter__(self) -> Connection:
        now = time.monotonic()
        kept: _Kept | None = getattr(self._threads, "kept", None)
        if kept is None or now - kept.used > IDLE_SECONDS:  # the server may have closed it
            # Dropped before connecting: a failed attempt must not leave the old connection in place.
            self._threads.kept = None
            try:
                kept = self._threads.kept = _Kept(self._connect())
            except sa.exc.DBAPIError as error:
                _raise_api_error(error)
                raise
        kept.used = now
        return kept.connection

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, sa.exc.SQLAlchemyError):
            self._threads.kept = None
            if isinstance(error, sa.exc.DBAPIError):
                _raise_api_error(error)


def _raise_api_error(error: sa.exc.DBAPIError) -> None:
    """Turn errors that are not defects of this server into API errors: database unreachable, value too large."""
    if isinstance(error, sa.exc.DataError):
        raise errors.InvalidInput("A value in the request is larger than the database can hold.") from error
    unreachable = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError) and not _is_lost_race(error)
    if unreachable and (error.connection_invalidated or _is_refused(error)):
        LOG.error("the database is unreachable: %s", error.orig)
        UNREACHABLE.inc()
        raise errors.DatabaseUnreachable() from error


def _is_refused(error: sa.exc.DBAPIError) -> bool:
    """The connection could not be made, or was lost."""
    number = _mysql_number(error)
    if number is not None:  # cannot connect (2), gone away, lost, too many connections, shutdown
        return number in {2002, 2003, 2006, 2013, 1040, 1053}
    # SQLSTATE classes: 08 connection, 57 shutdown, 53 too many connections; none at all: it could not connect.
    state = getattr(error.orig, "sqlstate", None)
    return type(error.orig).__module__.startswith("psycopg") and (state is None or state[:2] in {"08", "57", "53"})


def _mysql_number(error: sa.exc.DBAPIError) -> int | None:
    """The error number of MySQL or MariaDB, which PyMySQL passes as the first argument; else None."""
    args = getattr(error.orig, "args", ())
    return args[0] if args and isinstance(args[0], int) else None


def _is_lost_race(error: sa.exc.DBAPIError) -> bool:
    """Deadlocks, serialization failures, lock timeouts: the database has rolled the transaction back."""
    # By number first: PyMySQL's errors have an SQLSTATE too, but it is HY000 for all of these except deadlocks.
    number = _mysql_number(error)
    if number is not None:
        return number in _MYSQL_LOST_RACES
    code = getattr(error.orig, "sqlstate", None)  # psycopg
    if code is not None:
        return code in {"40001", "40P01", "55P03"}  # serialization failure, deadlock, lock not available
    return "database is locked" in str(error.orig) or "database table is locked" in str(error.orig)


def _reason(error: Exception) -> str:
    """Of a retry, for metrics."""
    if isinstance(error, Stale):
        return "stale"
    return "constraint" if isinstance(error, sa.exc.IntegrityError) else "deadlock"


class _WriterQueue:
    """The lock file of a SQLite database: its writers, in all threads and processes, run one after the other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._threads = threading.Lock()
        self._file: int | None = None
        self._pid = 0

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            if self._file is None or self._pid != os.getpid():  # flock is shared with a forked child
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
        connection.isolation_level = None  # BEGIN is explicit, below: the driver's own comes only with the first write
        cursor = connection.cursor()
        # WAL: readers never wait for the writer. FULL: a commit survives a power failure.
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'OFF'}")
        cursor.execute("PRAGMA foreign_keys=ON")
        # Writers queue on the lock file, so this timeout is only for checkpoints and for programs such as sqlite3.
        cursor.execute("PRAGMA busy_timeout=30000")
        # 1 MB: each thread of each worker has its connection, and the operating system caches the file anyway.
        cursor.execute("PRAGMA cache_size=-1000")
        cursor.close()

    options: dict[str, Any] = {
        "poolclass": sa.pool.QueuePool,
        "max_overflow": 50,
        "connect_args": {"check_same_thread": False},  # `warm` opens connections that other threads use
        "pool_reset_on_return": None,  # reads are in autocommit: nothing to roll back
    }
    reads = sa.create_engine(url, isolation_level="AUTOCOMMIT", **options)
    writes = sa.create_engine(url, **(options | {"pool_reset_on_return": "rollback"}))
    for engine in (reads, writes):
        sa.event.listen(engine, "do_connect", lambda *_: _restrict_permissions(url.database or ""))
        sa.event.listen(engine, "connect", prepare)
    # IMMEDIATE takes the write lock at once: a transaction that begins with a read and then writes could fail as stale.
    sa.event.listen(writes, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return reads, writes


def _restrict_permissions(path: str) -> None:
    """Make the file readable by its owner only: it has the data of all projects. SQLite copies the mode to its log."""
    if not path or path == ":memory:" or path.startswith("file:"):
        return
    with suppress(OSError):  # SQLite reports the same error
        private.make_file(path)
        for more in ("-wal", "-shm"):
            private.close_file(path + more)


def _server_engines(url: sa.URL, pool_size: int) -> tuple[Engine, Engine]:
    # No pre-ping, which is a round trip per transaction: a read connection is replaced after an error or a minute idle.
    options: dict[str, Any] = {"pool_size": pool_size, "max_overflow": 50, "pool_recycle": 1800, "pool_pre_ping": False}
    # Transactions always end with a commit or rollback, so the pool need not send another rollback.
    options["pool_reset_on_return"] = None
    more: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
        more["connect_timeout"] = CONNECT_SECONDS  # PyMySQL's default; libpq waits without limit
    if url.get_backend_name() == "postgresql" and url.get_driver_name() == "psycopg":
        more["cursor_factory"] = cursors.postgres_cursor()
    options["connect_args"] = more
    writes = sa.create_engine(url, isolation_level=batch.isolation_level(url), **options)
    reads = sa.create_engine(url, isolation_level="AUTOCOMMIT", **options)
    if url.get_driver_name() == "pymysql":
        for engine in (reads, writes):
            sa.event.listen(engine, "do_connect", _mariadb_connect(cursors.mariadb_connection()))
    return reads, writes


def _mariadb_connect(factory: type[Any]) -> Callable[..., Any]:
    def connect(_dialect: object, _record: object, arguments: Any, options: dict[str, Any]) -> Any:
        from pymysql.constants import CLIENT

        flags = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS  # for `batch` and `read_ahead`
        return factory(*arguments, **{**options, "client_flag": flags})

    return connect
