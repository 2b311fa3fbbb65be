"""The database: reads without locks, and short optimistic write transactions that are retried on conflict.

A read is an autocommit connection. A write transaction contains the change, its rows in the change log and its quota
counters, and nothing else: what it depends on was read before. What may have changed in between is guarded by a unique
constraint, a foreign key or a condition on the revision; if one of them fails, `retrying` reads and decides again, so a
lost race gets the same error as a plain mistake. It does the same while the database fails over (`failover.py`).
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url

from neutrino import request_ids
from neutrino.metrics.catalog import EXHAUSTED, RETRIES
from neutrino.server import errors
from neutrino.server.db import batch
from neutrino.server.db.commit_notifier import CommitNotifier
from neutrino.server.db.compiled import Statements
from neutrino.server.db.connection_options import connect_args
from neutrino.server.db.engines import WriterQueue, server_engines, sqlite_engines
from neutrino.server.db.failover import Outage, discard
from neutrino.server.db.failures import Failure, classify, not_writable
from neutrino.server.db.reads import ReadConnection
from neutrino.server.db.transaction import Stale as Stale
from neutrino.server.db.transaction import Transaction, fenced

LOG = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")
ATTEMPTS = 20  # with back-off about half a second: beyond that the client had better retry (503)
IDLE_SECONDS = 60.0  # below the idle timeouts of databases and load balancers
FAILOVER_SECONDS = 20.0  # how long requests wait for a database that fails over


class Database:
    """A database of any of the three kinds. Thread-safe; connections open on first use."""

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        sqlite_durable: bool = True,
        failover_seconds: float = FAILOVER_SECONDS,
        sync_wait: int | None = None,
    ) -> None:
        self.url = make_url(url)
        self._outage = Outage(failover_seconds, name=self.url.database or "")
        self._migrations: Engine | None = None
        self.notifies = True  # whether a commit wakes the feed (PostgreSQL)
        self.is_frozen: Callable[[], bool] = lambda: False  # requests must not change it: `server/frozen.py`
        self.dialect = self.url.get_backend_name()
        self._notifier = CommitNotifier(self.url) if self.dialect == "postgresql" else None
        if self.dialect == "sqlite":
            self._reads, self._writes = sqlite_engines(self.url, sqlite_durable)
            self._writer_queue: WriterQueue | None = WriterQueue(f"{self.url.database}.lock")
        else:
            self._reads, self._writes = server_engines(self.url, pool_size, sync_wait)
            self._writer_queue = None
        self._sender = batch.install(self._writes)
        self._read_statements, self._write_statements = (
            Statements(self._reads.dialect),
            Statements(self._writes.dialect),
        )
        self._threads = threading.local()  # each thread keeps its read connection: no pool checkout per read
        self._left: list[_Kept] = []  # read connections that threads have left to others

    def read(self) -> AbstractContextManager[Connection]:
        """A connection for reading, in autocommit: each statement sees what is committed, and no lock is held."""
        return _Read(self._connect_to_read, self._threads, self._outage)

    def set_option(self, name: str, value: object) -> None:
        """An execution option of all connections that are opened from now on, for statements that depend on it."""
        for engine in (self._reads, self._writes):
            engine.update_execution_options(**{name: value})

    def release(self) -> None:
        """Return this thread's connection for reading to the pool, as it is not going to read any more, or not for long."""
        self._threads.kept = None

    def adopt(self) -> None:
        """Give this thread, which is going to handle a request, the connection for reading that another one has left.

        A worker has many threads, of which few handle requests at any time: they need no more connections than those few.
        """
        with suppress(IndexError):  # none is left: it opens one
            self._threads.kept = self._left.pop()

    def leave(self) -> None:
        """After the request: leave the connection for reading to other threads."""
        kept, self._threads.kept = getattr(self._threads, "kept", None), None
        if kept is not None:
            self._left.append(kept)

    def _connect_to_read(self) -> Connection:
        connection = ReadConnection(self._reads, self._read_statements, self._sender, self._outage)
        connection.connection  # noqa: B018  # opened here, where an error is handled
        return connection

    @contextmanager
    def transaction(self, *, of_cloud: bool = True) -> Iterator[Transaction]:
        """One write transaction, with its change log rows and quota counters.

        Not `of_cloud`: it writes the server's own rows, which it may while the cloud is frozen.
        """
        if of_cloud and request_ids.get() and self.is_frozen():
            raise errors.CloudFrozen()
        # The queue is entered before BEGIN, and left after COMMIT, so that no writer waits inside a transaction.
        with self._writer_queue or nullcontext():
            try:
                with self._writes.connect() as connection:
                    begun = connection.begin()
                    deferred = batch.Batch(connection, self._sender, self._write_statements)
                    tx = Transaction(connection, deferred, self.read, is_repeated=self.is_repeated)
                    try:
                        with deferred.translated():
                            yield tx
                            tx.is_ending = True
                            has_changes = tx.flush()
                            begun.commit()
                    except BaseException as error:
                        _roll_back(connection, error)
                        # COMMIT is sent along with the last statements: if no answer comes, it may have been executed.
                        if not (
                            tx.is_ending and isinstance(error, sa.exc.DBAPIError) and self._is_committed(tx, error)
                        ):
                            raise
                        has_changes = True
                if self._notifier is not None and self.notifies and has_changes:
                    self._notifier.notify()
            except sa.exc.DBAPIError as error:
                _raise_api_error(error, self._outage)
                raise
        self._outage.succeeded()
        self._threads.committed = request_ids.get()
        pending = getattr(self._threads, "callbacks", None)
        if pending is not None:  # called by the `retrying` that this transaction is in
            pending.extend(tx.callbacks)
        else:
            for call in tx.callbacks:
                call()

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
        conflicts = outages = 0
        began = time.monotonic()
        while conflicts < ATTEMPTS:
            try:
                return attempt()
            except errors.DatabaseUnreachable as error:  # this transaction was not committed
                if not self._outage.wait(outages, began):
                    raise _final(error, self._threads) from error
                outages += 1
                RETRIES.inc("unavailable")
                self._threads.is_repeated = True
            except (Stale, sa.exc.IntegrityError, sa.exc.OperationalError, sa.exc.InternalError) as error:
                if not isinstance(error, Stale | sa.exc.IntegrityError) and classify(error) is not Failure.CONFLICT:
                    raise
                RETRIES.inc(_reason(error))
                self._threads.is_repeated = True
                # Jitter: writers that collided would otherwise collide again.
                time.sleep(random.random() * 0.002 * (1 << min(conflicts, 5)))
                conflicts += 1
        EXHAUSTED.inc()
        raise errors.HTTPServiceUnavailable()

    def _is_committed(self, tx: Transaction, error: sa.exc.DBAPIError) -> bool:
        """Whether a transaction whose COMMIT failed is in the database; it cannot commit any more if this is False.

        A lost connection leaves it open. The database decides it: another transaction inserts a change-log row with the
        id of one of this transaction's rows. If it commits, this one never can; if the id exists, this one has committed.
        """
        if classify(error) is not Failure.UNAVAILABLE:
            return False  # the database has answered: it is rolled back
        self._outage.failed(error.orig)
        tries, began = 0, time.monotonic()
        while tx.mark is not None and self._outage.wait(tries, began):
            tries += 1
            try:
                with self._writes.connect() as connection:
                    return not fenced(connection, tx.mark)
            except sa.exc.DBAPIError as failed:
                if classify(failed) is Failure.UNAVAILABLE:
                    self._outage.failed(failed.orig)
                elif classify(failed) is not Failure.CONFLICT:
                    raise
        LOG.error("COMMIT was not answered, and it is not known whether the database has executed it: %s", error.orig)
        raise errors.DatabaseOutcomeUnknown() from error

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
        """An engine for migrations, without timeouts: altering a large table takes long."""
        if self.dialect == "sqlite":
            return self._writes
        if self._migrations is None:
            unlimited = {} if self.dialect == "postgresql" else {"read_timeout": None, "write_timeout": None}
            arguments = {**connect_args(self.url), **unlimited}
            self._migrations = sa.create_engine(self.url, poolclass=sa.pool.NullPool, connect_args=arguments)
        return self._migrations

    def close(self) -> None:
        self._threads = threading.local()  # drops the threads' read connections
        self._left.clear()
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

    def __init__(self, connect: Callable[[], Connection], threads: threading.local, outage: Outage) -> None:
        self._open = connect
        self._threads = threads
        self._outage = outage

    def __enter__(self) -> Connection:
        now = time.monotonic()
        kept: _Kept | None = getattr(self._threads, "kept", None)
        if kept is None or now - kept.used > IDLE_SECONDS:  # the server may have closed it
            # Dropped before connecting: a failed attempt must not leave the old connection in place.
            self._threads.kept = None
            kept = self._threads.kept = _Kept(self._connect(now))
        kept.used = now
        return kept.connection

    def _connect(self, began: float) -> Connection:
        tries = 0
        while True:
            try:
                return self._open()
            except sa.exc.DBAPIError as error:
                if classify(error) is Failure.UNAVAILABLE and self._outage.wait(tries, began):
                    tries += 1
                    continue
                try:
                    _raise_api_error(error, self._outage)
                except errors.DatabaseUnreachable as unreachable:
                    raise _final(unreachable, self._threads) from error
                raise

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, sa.exc.SQLAlchemyError):
            self._threads.kept = None
            if isinstance(error, sa.exc.DBAPIError):
                try:
                    _raise_api_error(error, self._outage)
                except errors.DatabaseUnreachable as unreachable:
                    raise _final(unreachable, self._threads) from error


def _roll_back(connection: Connection, error: BaseException) -> None:
    """End a transaction that failed; a connection that cannot be used any more leaves the pool."""
    if isinstance(error, sa.exc.DBAPIError) and classify(error) is Failure.UNAVAILABLE:
        discard(connection)
        return
    try:
        connection.rollback()
    except sa.exc.DBAPIError:
        discard(connection)


def _raise_api_error(error: sa.exc.DBAPIError, outage: Outage) -> None:
    """Turn errors that are not defects of this server into API errors: database unreachable or full, value too large."""
    failure = classify(error)
    if failure is Failure.TOO_LARGE:
        raise errors.InvalidInput("A value in the request is larger than the database can hold.") from error
    if failure is Failure.NOT_WRITABLE:
        outage.not_writable(error.orig)
        raise errors.DatabaseNotWritable(reason=not_writable(error)) from error
    if failure is Failure.UNAVAILABLE:
        outage.failed(error.orig)
        raise errors.DatabaseUnreachable() from error


def _final(error: errors.DatabaseUnreachable, threads: threading.local) -> errors.ApiError:
    """The error of a request that is given up: nothing was executed, unless one of its transactions is committed."""
    request = request_ids.get()
    partly = bool(request) and getattr(threads, "committed", None) == request
    return errors.DatabaseOutcomeUnknown() if partly else error


def _reason(error: Exception) -> str:
    """The reason of a retry, for metrics."""
    if isinstance(error, Stale):
        return "stale"
    return "constraint" if isinstance(error, sa.exc.IntegrityError) else "deadlock"
