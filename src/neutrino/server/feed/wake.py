"""When to look at the change log: at once where the database tells, soon where it has to be asked.

Each waker calls `woken` whenever there may be something new. Being woken for nothing is cheap, so a waker may err on that
side; one that lost its connection wakes at short intervals until it has another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from neutrino.server.db.commit_notifier import CHANNEL
from neutrino.server.db.session import Database
from neutrino.server.feed.written import Written

LOG = logging.getLogger(__name__)
TOGETHER = 0.005  # seconds after having woken: what is committed meanwhile is one more reason, not many
SURELY = 1.0  # seconds after which to look though nobody told
AT_ONCE, SOON = 0.05, 0.3  # seconds within which what is being written is a commit, as a rule and nearly always


async def wake(db: Database, woken: Callable[[], None], *, sqlite_interval: float, interval: float) -> None:
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
    """The kernel tells when the log of SQLite is written to, and SQLite when that has become a commit, a moment later."""
    try:
        written = Written(Path(f"{db.url.database}-wal"))
    except OSError as error:
        LOG.info("%s: the database is asked every %s s instead", error.strerror, interval)
        await _ask_file(db, woken, interval)
        return
    loop = asyncio.get_running_loop()
    told, at = asyncio.Event(), loop.time()

    def heard() -> None:
        nonlocal at
        if written.read():
            at = loop.time()
            told.set()

    loop.add_reader(written.fileno(), heard)
    try:
        known = None
        while True:
            version = _commits(db)
            if version != known:
                known = version
                woken()
                await asyncio.sleep(TOGETHER)
            age = loop.time() - at
            if age < SOON:
                await asyncio.sleep(0.002 if age < AT_ONCE else 0.01)
                continue
            told.clear()
            try:
                await asyncio.wait_for(told.wait(), SURELY)
            except TimeoutError:
                woken()
    finally:
        loop.remove_reader(written.fileno())
        written.close()


async def _ask_file(db: Database, woken: Callable[[], None], interval: float) -> None:
    loop = asyncio.get_running_loop()
    known, last = None, 0.0
    while True:
        version = _commits(db)
        if version != known or loop.time() - last > SURELY:
            known, last = version, loop.time()
            woken()
        await asyncio.sleep(interval)


def _commits(db: Database) -> Any:
    """SQLite counts the commits of other connections; asking reads shared memory, not the disk."""
    with db.read() as connection:
        driver: Any = connection.connection.driver_connection  # many times a second: without what is not needed
        return driver.execute("PRAGMA data_version").fetchone()


async def _listen(db: Database, woken: Callable[[], None], interval: float) -> None:
    import psycopg

    url = db.url.set(drivername="postgresql").render_as_string(hide_password=False)
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
            async with connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                while True:
                    woken()
                    await asyncio.sleep(TOGETHER)
                    async for _ in connection.notifies(timeout=SURELY, stop_after=1):
                        pass
        except (psycopg.Error, OSError, sa.exc.SQLAlchemyError) as error:
            LOG.warning("PostgreSQL does not tell of changes (%s): asking instead", error)
            woken()
            await asyncio.sleep(interval)
