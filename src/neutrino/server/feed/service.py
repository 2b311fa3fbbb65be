"""The feed's process: it follows the change log, keeps the world, and serves every host that connects."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hmac
import http
import logging
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
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
from neutrino.server.feed.credentials import digest as digest_of
from neutrino.server.feed.hearing import Hearing
from neutrino.server.feed.log import BATCH, ChangeLog
from neutrino.server.feed.pace import Pace
from neutrino.server.feed.reader import read_all, read_changed
from neutrino.server.feed.records import Records
from neutrino.server.feed.reports import Heard, Reports
from neutrino.server.feed.session import Session
from neutrino.server.feed.socket_file import owned
from neutrino.server.feed.wake import wake
from neutrino.server.feed.world import World

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 1.0
COMPACT_SECONDS = 60.0
DATABASE_ERRORS = (sa.exc.SQLAlchemyError, errors.ApiError)
NOT_VALID = "the credential is not valid any more"
BACKLOG = 4096  # hosts that may knock at once, as all do after a restart; the kernel's own limit holds too
MOST_REST = 0.1  # seconds between two looks at the change log
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
    patience: float = 0.25  # seconds that a report may wait for others, to be written with them


class Removed(Exception):
    """Rows that were not read yet are removed: only reading everything anew helps."""


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
        self._unsettled = asyncio.Event()  # distributed routers, or what is on their subnets, may need something
        self._hearing = Hearing(self._do, settings.patience)
        self._admitted: WeakKeyDictionary[ServerConnection, tuple[str, str]] = WeakKeyDictionary()
        self._sessions: set[Session] = set()
        self._database = ""
        self._known: Mapping[str, str] = {}  # digests of the hosts' credentials
        self.world = World()
        self.listening: list[Address] = []  # once it is, with the ports that were chosen

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until told to stop."""
        await self._read_everything()
        listening = map(self._keep_listening, self._settings.addresses)
        work = (
            *listening,
            self._wake(),
            self._follow(),
            self._settle(),
            self._compact(),
            self._hearing.run(),
            stop.wait(),
        )
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
        position, identity, records, known = await self._run(self._reading, self._load)
        world = World()
        world.apply(records)
        world.position = position
        self.world, self._database, self._known = world, identity, known
        await self._close(self._sessions, "the server has read everything anew")

    def _load(self) -> tuple[int, str, Records, Mapping[str, str]]:
        head = self._log.head()  # before the rest: what is committed meanwhile comes behind this position
        with self._db.read() as connection:
            records = read_all(connection)
        return head.position, head.identity, records, self._credentials.digests()

    async def _follow(self) -> None:
        pace = Pace()
        while True:
            await self._woken.wait()
            self._woken.clear()
            began = time.monotonic()
            try:
                while await self._step():
                    pass
                await asyncio.sleep(min(pace.rest(began, time.monotonic()), MOST_REST))
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
        if any(record is None or record.is_distributed for record in records.routers.values()):
            self._unsettled.set()
        if records.credentials:
            await self._check_credentials()
        return bool(count >= BATCH)

    def _next(self, position: int) -> tuple[int, int, Records | None]:
        self._log.sequence()
        with self._db.read() as connection:
            rows = self._log.after(connection, position)
            records = read_changed(connection, rows, self.world.networks_of) if rows else None
        if rows and self._log.head().removed > position:  # asked after the rows were read
            raise Removed
        return len(rows), rows[-1].position if rows else position, records

    async def _settle(self) -> None:
        self._unsettled.set()
        while True:
            await self._unsettled.wait()
            self._unsettled.clear()
            try:
                await self._run(self._writing, self._reports.settle)
            except DATABASE_ERRORS as error:
                LOG.error("what hosts need for distributed routers cannot be made, trying again: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                self._unsettled.set()

    async def _compact(self) -> None:
        while True:
            await asyncio.sleep(COMPACT_SECONDS * (0.5 + random.random()))  # several processes: not all at once
            try:
                await self._run(self._writing, self._log.compact, self._settings.keep_changes)
            except DATABASE_ERRORS as error:
                LOG.error("the change log cannot be shortened: %s", error)

    # --- connections ----------------------------------------------------------------------------------------------

    async def _keep_listening(self, address: Address) -> None:
        """Where another process serves already, go on without, and take its place when it ends."""
        told = False
        while True:
            try:
                async with self._listen(address):
                    await asyncio.Event().wait()  # until cancelled
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                if not told:
                    reason = error.strerror or error
                    LOG.warning("the feed cannot be at %s: %s. It goes on without, and tries again", address, reason)
                    told = True
            await asyncio.sleep(RETRY_SECONDS)

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
            "backlog": BACKLOG,
        }
        with contextlib.ExitStack() as stack:
            if address.path:
                stack.enter_context(owned(address.path))
                with short_path(address.path) as path:
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
        digest: str | None = digest_of(credential)
        if not hmac.compare_digest(self._known.get(hosts[0], ""), digest or ""):
            try:  # a host that is new since we last looked, or has a new credential
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
        host, digest = self._admitted.pop(connection, ("", ""))
        if not host:
            await connection.close(1008, NOT_VALID)
            return
        if sum(session.host == host for session in self._sessions) >= MOST_SESSIONS:
            await connection.close(1013, "too many connections of this host")
            return
        session = Session(connection, host, digest, self.world, self._hearing.take)
        self._sessions.add(session)
        try:
            await session.run(self._settings.server, self._database)
        finally:
            self._sessions.discard(session)

    async def _check_credentials(self) -> None:
        """Hosts whose credential was taken back are not served any more."""
        known = self._known = await self._run(self._writing, self._credentials.digests)
        for connection, (host, digest) in list(self._admitted.items()):  # on their way in
            if known.get(host) != digest:
                del self._admitted[connection]
        await self._close((s for s in self._sessions if known.get(s.host) != s.digest), NOT_VALID)

    async def _close(self, sessions: Iterable[Session], reason: str) -> None:
        going = tuple(sessions)
        for session in going:
            LOG.warning("host %s is sent away: %s", session.host, reason)
        await asyncio.gather(*(session.close(reason) for session in going), return_exceptions=True)

    async def _do(self, several: Sequence[Heard]) -> list[list[str]]:
        done: list[list[str]] = await self._run(self._writing, self._reports.take_all, several)
        return done
