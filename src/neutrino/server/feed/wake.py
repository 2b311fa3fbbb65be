"""When to read the change log: PostgreSQL notifies, a SQLite file is watched with inotify, MariaDB is polled.

`woken` is called whenever there may be new rows. A call without new rows is cheap, so each waker errs on that side; one
that lost its connection falls back to polling until it has another.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from neutrino.server.db.commit_notifier import CHANNEL
from neutrino.server.db.connection_options import psycopg_arguments
from neutrino.server.db.session import Database

LOG = logging.getLogger(__name__)
TOGETHER = 0.01  # seconds after a wake-up: commits within them are read together
FALLBACK = 1.0  # seconds after which to read even without a notification
# After a write to SQLite's WAL the commit follows: as a rule within BUSY seconds, nearly always within RECENT.
BUSY, RECENT = 0.05, 0.3
_IN_MODIFY, _IN_CREATE = 0x2, 0x100
_EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name that follows


async def wake(db: Database, woken: Callable[[], None], sqlite_interval: float, interval: float) -> None:
    """Run until cancelled."""
    if db.dialect == "postgresql":
        await _listen(db, woken, interval)
    elif db.dialect == "sqlite":
        await _watch_file(db, woken, sqlite_interval)
    else:
        while True:
            woken()
            await asyncio.sleep(interval)


async def _watch_file(db: Database, woken: Callable[[], None], interval: float) -> None:
    """inotify reports a write to SQLite's WAL; data_version tells when it has become a commit, a moment later."""
    loop = asyncio.get_running_loop()
    written, written_at = asyncio.Event(), loop.time()
    idle = FALLBACK  # seconds until the next look without a write

    def on_event() -> None:
        nonlocal written_at
        if watch is not None and _names(watch, wal.name):
            written_at = loop.time()
            written.set()

    watch, wal = None, Path(f"{db.url.database}-wal")
    try:
        watch = _inotify(wal.parent)
        loop.add_reader(watch, on_event)
    except OSError as error:
        LOG.info("%s: polling the database every %s s instead", error.strerror, interval)
        idle = interval
    try:
        known, last = None, 0.0
        while True:
            version = _data_version(db)
            if version != known or loop.time() - last > FALLBACK:
                known, last = version, loop.time()
                woken()
                await asyncio.sleep(TOGETHER)
            age = loop.time() - written_at
            if watch is not None and age < RECENT:
                await asyncio.sleep(0.002 if age < BUSY else 0.01)
                continue
            written.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(written.wait(), idle)
    finally:
        if watch is not None:
            loop.remove_reader(watch)
            os.close(watch)


def _data_version(db: Database) -> object:
    """SQLite's counter of commits by other connections; reading it touches shared memory, not the disk."""
    with db.read() as connection:
        # Comparable on one connection only, which this thread keeps; after a new one there is one needless wake-up.
        # The driver itself: this runs many times a second, and SQLAlchemy would cost more than SQLite.
        driver: Any = connection.connection.driver_connection
        return driver.execute("PRAGMA data_version").fetchone()


async def _listen(db: Database, woken: Callable[[], None], interval: float) -> None:
    import psycopg

    arguments = psycopg_arguments(db.url)
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(**arguments, autocommit=True)
            async with connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                with _notified(connection) as notified:
                    while not connection.closed:
                        woken()  # also at first: commits before LISTEN sent no notification to this connection
                        await asyncio.sleep(TOGETHER)
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(notified.wait(), FALLBACK)
                        notified.clear()
            raise psycopg.OperationalError("the connection is closed")
        except (psycopg.Error, OSError, sa.exc.SQLAlchemyError) as error:
            LOG.warning("no notifications from PostgreSQL (%s): polling every %s s", error, interval)
            woken()
            await asyncio.sleep(interval)


@contextlib.contextmanager
def _notified(connection: Any) -> Iterator[asyncio.Event]:
    """An event that is set when the connection receives a notification, or is lost.

    By libpq itself: psycopg's `notifies` sets up a wait for each one, and there is one per commit.
    """
    import psycopg

    notified, loop, libpq = asyncio.Event(), asyncio.get_running_loop(), connection.pgconn
    descriptor: int = connection.fileno()

    def on_readable() -> None:
        try:
            libpq.consume_input()
            while libpq.notifies() is not None:
                pass
        except psycopg.Error:  # `connection.closed` from now on
            loop.remove_reader(descriptor)
        notified.set()

    loop.add_reader(descriptor, on_readable)
    try:
        yield notified
    finally:
        loop.remove_reader(descriptor)


# By ctypes: the standard library has no inotify, and no dependency of ours has one that fits an event loop.


def _inotify(directory: Path) -> int:
    """A descriptor that is readable after a write in the directory: the WAL itself need not exist yet."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify is not available")
    if libc.inotify_add_watch(descriptor, os.fsencode(directory), _IN_MODIFY | _IN_CREATE) < 0:
        os.close(descriptor)
        raise OSError(ctypes.get_errno(), f"{directory} cannot be watched")
    return descriptor


def _names(watch: int, name: str) -> bool:
    """Take all pending events; whether one of them is of the file with this name."""
    try:
        data = os.read(watch, 64 * 1024)
    except BlockingIOError:
        return False
    found, at = False, 0
    while at < len(data):
        _, _, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        found = found or data[at : at + length].rstrip(b"\0") == os.fsencode(name)
        at += length
    return found
