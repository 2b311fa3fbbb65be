"""The feed's process: it follows the change log, keeps the world, and serves every host that connects."""

from __future__ import annotations

import asyncio
import contextlib
import http
import logging
import os
import random
import ssl
import stat
from collections.abc import AsyncIterator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from websockets.asyncio.server import ServerConnection, serve, unix_serve
from websockets.http11 import Request, Response

from neutrino.feed.address import Address, short_path
from neutrino.feed.messages import HOST_HEADER, MOST_BYTES
from neutrino.server import errors
from neutrino.server.db.session import Database
from neutrino.server.feed.credentials import Credentials
from neutrino.server.feed.log import BATCH, ChangeLog
from neutrino.server.feed.reader import read_all, read_changed
from neutrino.server.feed.records import Records
from neutrino.server.feed.reports import Reports
from neutrino.server.feed.session import Session
from neutrino.server.feed.wake import wake
from neutrino.server.feed.world import World

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 1.0
COMPACT_SECONDS = 60.0
DATABASE_ERRORS = (sa.exc.SQLAlchemyError, errors.ApiError)
MOST_SESSIONS = 16  # of one host: one for each of its processes, and some that are not known to be gone yet


@dataclass(frozen=True)
class Settings:
    server: str  # this machine's name
    addresses: Sequence[Address]
    tls: ssl.SSLContext | None = None
    keep_changes: float = 3600.0
    interval: float = 0.05
    sqlite_interval: float = 0.02
    heartbeat: float = 10.0
    heartbeat_timeout: float = 20.0


class Removed(Exception):
    """Rows that were not read yet are removed: only reading everything anew helps."""


class InUse(OSError):
    """Somebody serves there already."""


class FeedServer:
    def __init__(self, db: Database, credentials: Credentials, reports: Reports, settings: Settings) -> None:
        self._db = db
        self._log = ChangeLog(db)
        self._credentials = credentials
        self._reports = reports
        self._settings = settings
        self._reading = ThreadPoolExecutor(1, "feed-read")
        self._writing = ThreadPoolExecutor(4, "feed-write")
        self._woken = asyncio.Event()
        self._admitted: WeakKeyDictionary[ServerConnection, tuple[str, str]] = WeakKeyDictionary()
        self._sessions: set[Session] = set()
        self._database = ""
        self.world = World()
        self.listening: list[Address] = []  # once it is, with the ports that were chosen

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop."""
        await self._read_everything()
        async with contextlib.AsyncExitStack() as stack:
            for address in self._settings.addresses:
                await stack.enter_async_context(self._listen(address))
            work = (self._wake(), self._follow(), self._compact(), stop.wait())
            tasks = [asyncio.create_task(one) for one in work]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        self._reading.shutdown(wait=False, cancel_futures=True)
        self._writing.shutdown(wait=False, cancel_futures=True)

    async def _wake(self) -> None:
        how = self._settings
        await wake(self._db, self._woken.set, sqlite_interval=how.sqlite_interval, interval=how.interval)

    async def _run(self, pool: ThreadPoolExecutor, work: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *args)

    # --- following the log ----------------------------------------------------------------------------------------

    async def _read_everything(self) -> None:
        """The world anew. Whoever is connected comes again and is compared with it."""
        position, identity, records = await self._run(self._reading, self._load)
        world = World()
        world.apply(records)
        world.position = position
        self.world, self._database = world, identity
        await self._close(self._sessions, "the server has read everything anew")

    def _load(self) -> tuple[int, str, Records]:
        head = self._log.head()  # before the rest: what is committed meanwhile comes behind this position
        with self._db.read() as connection:
            return head.position, head.identity, read_all(connection)

    async def _follow(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                while await self._step():
                    pass
            except Removed:
                LOG.warning("the change log is shorter than we are late: reading everything anew")
                await self._read_everything()
            except DATABASE_ERRORS as error:
                LOG.error("the change log cannot be read, trying again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._woken.set()

    async def _step(self) -> bool:
        """Take the next changes into the world; whether there may be more."""
        count, position, records = await self._run(self._reading, self._next, self.world.position)
        if not count:
            return False
        self.world.apply(records)
        self.world.position = position
        if records.credentials:
            await self._check_credentials()
        return bool(count >= BATCH)

    def _next(self, position: int) -> tuple[int, int, Records | None]:
        self._log.sequence()
        with self._db.read() as connection:
            rows = self._log.after(connection, position)
            records = read_changed(connection, rows) if rows else None
        if rows and self._log.head().removed > position:  # asked after the rows were read
            raise Removed
        return len(rows), rows[-1].position if rows else position, records

    async def _compact(self) -> None:
        while True:
            await asyncio.sleep(COMPACT_SECONDS * (0.5 + random.random()))  # several processes: not all at once
            try:
                await self._run(self._writing, self._log.compact, self._settings.keep_changes)
            except DATABASE_ERRORS as error:
                LOG.error("the change log cannot be shortened: %s", error)

    # --- connections ----------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _listen(self, address: Address) -> AsyncIterator[None]:
        options: dict[str, Any] = {
            "process_request": self._admit,
            "compression": None,
            "max_size": MOST_BYTES,
            "ping_interval": self._settings.heartbeat,
            "ping_timeout": self._settings.heartbeat_timeout,
            "close_timeout": 2,
            "server_header": None,
        }
        if address.path:
            Path(address.path).parent.mkdir(parents=True, exist_ok=True)
            with short_path(address.path) as path:
                await _free(path, address)
                before = os.umask(0o177)
                try:
                    listening = await unix_serve(self._serve, path, **options)
                finally:
                    os.umask(before)
        else:
            tls = self._settings.tls if address.tls else None
            listening = await serve(self._serve, address.host, address.port, ssl=tls, **options)
            address = replace(address, port=next(iter(listening.sockets)).getsockname()[1])
        self.listening.append(address)
        LOG.info("the feed is at %s", address)
        async with listening:
            yield

    async def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        """Who is it? Before anything of the feed is said."""
        hosts, words = request.headers.get_all(HOST_HEADER), request.headers.get_all("Authorization")
        scheme, _, credential = words[0].partition(" ") if len(words) == 1 else ("", "", "")
        if len(hosts) != 1 or scheme.lower() != "bearer" or not credential:
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "a host's name and its credential are needed\n")
        try:
            digest = await self._run(self._writing, self._credentials.check, hosts[0], credential)
        except DATABASE_ERRORS as error:
            LOG.error("a host's credential cannot be looked up: %s", error)
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached\n")
        if digest is None:
            LOG.warning("somebody without host %s's credential was turned away", hosts[0])
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "this is not the host's credential\n")
        self._admitted[connection] = hosts[0], digest
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        host, digest = self._admitted.pop(connection)
        if sum(session.host == host for session in self._sessions) >= MOST_SESSIONS:
            await connection.close(1013, "too many connections of this host")
            return
        session = Session(connection, host, digest, self.world, self._take)
        self._sessions.add(session)
        try:
            await session.run(self._settings.server, self._database)
        finally:
            self._sessions.discard(session)

    async def _check_credentials(self) -> None:
        """Hosts whose credential was taken back are not served any more."""
        known = await self._run(self._writing, self._credentials.digests)
        strangers = [session for session in self._sessions if known.get(session.host) != session.digest]
        await self._close(strangers, "the credential is not valid any more")

    async def _close(self, sessions: Iterable[Session], reason: str) -> None:
        for session in tuple(sessions):
            LOG.warning("host %s is sent away: %s", session.host, reason)
        await asyncio.gather(*(session.close(reason) for session in tuple(sessions)), return_exceptions=True)

    async def _take(self, host: str, messages: Sequence[tuple[Any, int]]) -> list[str]:
        def all_of_them() -> list[str]:
            return [self._reports.take(host, message, behind) for message, behind in messages]

        done: list[str] = await self._run(self._writing, all_of_them)
        return done


async def _free(path: str, address: Address) -> None:
    """A socket that a process left behind is taken over, one that is served is not."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise InUse(f"{address.path} is there and is no socket")
        _, writer = await asyncio.open_unix_connection(path)
    except (FileNotFoundError, ConnectionRefusedError):
        return
    writer.close()
    raise InUse(f"another process serves the feed at {address}")
