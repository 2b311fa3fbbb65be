"""When to look at the change log: at once where the database tells, soon where it has to be asked.

Each waker calls `woken` whenever there may be something new. Being woken for nothing is cheap, so a waker may err on that
side; one that lost its connection wakes at short intervals until it has another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from neutrino.server.db.session import Database
from neutrino.server.db.transaction import CHANGED

LOG = logging.getLogger(__name__)
SURELY = 1.0  # seconds after which to look though nobody told


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
    """SQLite counts the commits of other connections; asking reads shared memory, not the disk."""
    loop = asyncio.get_running_loop()
    known, last = None, 0.0
    while True:
        with db.read() as connection:
            driver: Any = connection.connection.driver_connection  # many times a second: without what is not needed
            version = driver.execute("PRAGMA data_version").fetchone()
        if version != known or loop.time() - last > SURELY:
            known, last = version, loop.time()
            woken()
        await asyncio.sleep(interval)


async def _listen(db: Database, woken: Callable[[], None], interval: float) -> None:
    import psycopg

    url = db.url.set(drivername="postgresql").render_as_string(hide_password=False)
    while True:
        try:
            connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
            async with connection:
                await connection.execute(f"LISTEN {CHANGED}")
                while True:
                    woken()
                    async for _ in connection.notifies(timeout=SURELY, stop_after=1):
                        pass
        except (psycopg.Error, OSError, sa.exc.SQLAlchemyError) as error:
            LOG.warning("PostgreSQL does not tell of changes (%s): asking instead", error)
            woken()
            await asyncio.sleep(interval)
