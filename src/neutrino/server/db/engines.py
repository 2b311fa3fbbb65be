"""The engines of a database: one for reads, in autocommit, and one for write transactions.

SQLite has one writer. Retrying with sleeps starves some writers and slows all, so writers queue on a lock file: the kernel
wakes the next one at once.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from neutrino import private
from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.db import batch, compiled
from neutrino.server.db.connection_options import connect_args, limit_psycopg, prepare_mysql, prepare_postgresql

HIDE_PARAMETERS: Final = True  # of statements, in errors: these end in logs, and parameters may be pre-shared keys


class WriterQueue:
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
        except OSError as error:  # full, read-only or failing, as the disk of the database
            self._threads.release()
            raise errors.DatabaseNotWritable(reason=f"its lock file cannot be used: {error.strerror}") from error
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()


def sqlite_engines(url: sa.URL, durable: bool) -> tuple[Engine, Engine]:
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

    options: Object = {
        "hide_parameters": HIDE_PARAMETERS,
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
    sa.event.listen(writes, "begin", _begin_immediate)
    return reads, writes


def _begin_immediate(connection: Connection) -> None:
    with compiled.driver_cursor(connection, "BEGIN IMMEDIATE") as cursor:
        cursor.execute("BEGIN IMMEDIATE")


def _restrict_permissions(path: str) -> None:
    """Make the file readable by its owner only: it has the data of all projects. SQLite copies the mode to its log."""
    if not path or path == ":memory:" or path.startswith("file:"):
        return
    with suppress(OSError):  # SQLite reports the same error
        private.make_file(path)
        for more in ("-wal", "-shm"):
            private.close_file(path + more)


def server_engines(url: sa.URL, pool_size: int, sync_wait: int | None) -> tuple[Engine, Engine]:
    # No pre-ping, which is a round trip per transaction: what fails on a lost connection is repeated on another one.
    options: Object = {"pool_size": pool_size, "max_overflow": 50, "pool_recycle": 1800, "pool_pre_ping": False}
    options["hide_parameters"] = HIDE_PARAMETERS
    # Transactions always end with a commit or rollback, so the pool need not send another rollback.
    options["pool_reset_on_return"] = None
    options["connect_args"] = connect_args(url)
    if url.get_driver_name() == "psycopg":
        # Prepared on the third execution: nearly all statements are executed again and again. The driver's default is five.
        options["connect_args"] |= {"prepare_threshold": 2}
    writes = sa.create_engine(url, isolation_level=batch.isolation_level(url), **options)
    reads = sa.create_engine(url, isolation_level="AUTOCOMMIT", **options)
    for engine in (reads, writes):
        if url.get_backend_name() == "postgresql":
            limit_psycopg(engine)
        else:
            prepare_mysql(engine, sync_wait)
        if url.get_driver_name() == "pymysql":
            sa.event.listen(engine, "do_connect", _mariadb_connect())
    if url.get_backend_name() == "postgresql":
        prepare_postgresql(writes)
    return reads, writes


def _mariadb_connect() -> Callable[..., Any]:
    from pymysql.constants import CLIENT

    from neutrino.server.db.mariadb import CommittedConnection

    def connect(_dialect: object, _record: object, arguments: Any, options: Object) -> Any:
        flags = options.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS  # for `batch` and `reads`
        return CommittedConnection(*arguments, **{**options, "client_flag": flags})

    return connect
