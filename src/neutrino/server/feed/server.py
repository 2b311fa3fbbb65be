"""The feed's process: it follows the change log, keeps the world, and serves every host that connects."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
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
from typing import Any, cast
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from websockets.asyncio.server import ServerConnection, serve, unix_serve
from websockets.http11 import Request, Response

from neutrino.feed.address import Address, short_path
from neutrino.feed.messages import HOST_HEADER, MOST_BYTES
from neutrino.server import errors
from neutrino.server.db.session import Database
from neutrino.server.feed.admission import Gate, source
from neutrino.server.feed.change_log import BATCH, ChangeLog
from neutrino.server.feed.credentials import Credentials, Known
from neutrino.server.feed.credentials import digest as digest_of
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.pace import Pace
from neutrino.server.feed.reader import read_all, read_changed
from neutrino.server.feed.records import Records
from neutrino.server.feed.report_batches import ReportBatches
from neutrino.server.feed.reports import Heard, Reports
from neutrino.server.feed.session import Session
from neutrino.server.feed.socket_file import owned
from neutrino.server.feed.wake import wake

LOG = logging.getLogger(__name__)
RETRY_SECONDS = 1.0
COMPACT_SECONDS = 60.0
DATABASE_ERRORS = (sa.exc.SQLAlchemyError, errors.ApiError)
NOT_VALID = "the credential is not valid any more"
BACKLOG = 4096  # hosts that may knock at once, as all do after a restart; the kernel's own limit holds too
MOST_REST = 0.1  # seconds between two looks at the change log
HANDSHAKE_SECONDS = 10.0  # for TLS, and again for the request with the credential
LOOKUP_SECONDS = 1.0  # between two looks for credentials that are new, however many ask for one
MOST_SESSIONS = 16  # of one host: one for each of its processes, and some that are not known to be gone yet


@dataclass(frozen=True)
class FeedOptions:
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


class _GatedConnection(ServerConnection):
    """Counted from its start until it has shown a credential, or ends; one too many ends at once."""

    def __init__(self, *args: Any, gate: Gate, **options: Any) -> None:
        super().__init__(*args, **options)
        self._gate = gate
        self._counted: str | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        address = source(transport.get_extra_info("peername"))
        if self._gate.enter(address):
            self._counted = address
        else:
            cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.admitted()
        super().connection_lost(exc)

    def admitted(self) -> None:
        counted, self._counted = self._counted, None
        if counted is not None:
            self._gate.leave(counted)


class FeedServer:
    def __init__(self, db: Database, credentials: Credentials, reports: Reports, settings: FeedOptions) -> None:
        self._db = db
        self._log = ChangeLog(db)
        self._credentials = credentials
        self._reports = reports
        self._settings = settings
        self._reading = ThreadPoolExecutor(1, "feed-read")
        self._writing = ThreadPoolExecutor(4, "feed-write")
        # Apart from what hosts say: who has no credential must not keep those who have one waiting.
        self._logins = ThreadPoolExecutor(1, "feed-login")
        self._gate = Gate(time.monotonic)
        self._lookup: asyncio.Task[None] | None = None
        self._looked = -LOOKUP_SECONDS
        self._woken = asyncio.Event()
        self._unsettled = asyncio.Event()  # distributed routers, or what is on their subnets, may need something
        self._hearing = ReportBatches(self._do, settings.patience)
        self._admitted: WeakKeyDictionary[ServerConnection, tuple[str, Known]] = WeakKeyDictionary()
        self._sessions: set[Session] = set()
        self._database = ""
        self._known: Mapping[str, Known] = {}  # by host
        self.world = Fanout()
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
            self._logins.shutdown(wait=False, cancel_futures=True)

    async def _wake(self) -> None:
        how = self._settings
        await wake(self._db, self._woken.set, sqlite_interval=how.sqlite_interval, interval=how.interval)

    async def _run(self, pool: ThreadPoolExecutor, work: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *args)

    # --- following the log ----------------------------------------------------------------------------------------

    async def _read_everything(self) -> None:
        """The world anew. Whoever is connected comes again and is compared with it."""
        position, identity, records, known = await self._run(self._reading, self._load)
        world = Fanout()
        world.apply(records)
        world.position = position
        self.world, self._database, self._known = world, identity, known
        await self._close(self._sessions, "the server has read everything anew")

    def _load(self) -> tuple[int, str, Records, Mapping[str, Known]]:
        head = self._log.head()  # before the rest: what is committed meanwhile comes behind this position
        with self._db.read() as connection:
            records = read_all(connection)
        return head.position, head.identity, records, self._credentials.known()

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
            "open_timeout": HANDSHAKE_SECONDS,
            "server_header": None,
            "backlog": BACKLOG,
            "create_connection": functools.partial(_GatedConnection, gate=self._gate),
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
        address, digest = source(connection.remote_address), digest_of(credential)
        known = self._match(hosts[0], digest)
        if known is None and self._gate.is_closed(address):
            return connection.respond(http.HTTPStatus.TOO_MANY_REQUESTS, "too many wrong credentials: come later\n")
        if known is None:
            self._gate.missed(address)
            try:  # a host that is new since we last looked, or has a new credential
                await self._look_up()
            except DATABASE_ERRORS as error:
                LOG.error("a host's credential cannot be looked up: %s", error)
                return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "the database cannot be reached\n")
            known = self._match(hosts[0], digest)
        if known is None:
            name = hosts[0][:255].encode("ascii", "backslashreplace").decode()
            LOG.warning(
                "somebody at %s without host %s's credential was turned away", address or "a local socket", name
            )
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "this is not the host's credential\n")
        self._admitted[connection] = hosts[0], known
        return None

    def _match(self, host: str, digest: str) -> Known | None:
        known = self._known.get(host)
        # An unknown host takes as long as a known one.
        return known if hmac.compare_digest(known.digest if known is not None else "-" * 64, digest) else None

    async def _look_up(self) -> None:
        """All credentials anew, once for all who wait for it, and not more often than every LOOKUP_SECONDS."""
        if self._lookup is None:
            self._lookup = asyncio.create_task(self._read_known())
        await asyncio.shield(self._lookup)

    async def _read_known(self) -> None:
        try:
            await asyncio.sleep(max(0.0, self._looked + LOOKUP_SECONDS - time.monotonic()))
        finally:
            self._lookup = None  # who comes from now on may know of what this look does not see
        self._looked = time.monotonic()
        self._known = await self._run(self._logins, self._credentials.known)

    async def _serve(self, connection: ServerConnection) -> None:
        host, known = self._admitted.pop(connection, ("", None))
        if known is None:
            await connection.close(1008, NOT_VALID)
            return
        if sum(session.host == host for session in self._sessions) >= MOST_SESSIONS:
            await connection.close(1013, "too many connections of this host")
            return
        if isinstance(connection, _GatedConnection):
            connection.admitted()
        session = Session(connection, host, known, self.world, self._hearing.take)
        self._sessions.add(session)
        try:
            await session.run(self._settings.server, self._database)
        finally:
            self._sessions.discard(session)

    async def _check_credentials(self) -> None:
        """Hosts whose credential was taken back, or has other roles, are not served any more: they come again."""
        known = self._known = await self._run(self._writing, self._credentials.known)
        for connection, (host, its) in list(self._admitted.items()):  # on their way in
            if known.get(host) != its:
                del self._admitted[connection]
        await self._close((s for s in self._sessions if known.get(s.host) != s.known), NOT_VALID)

    async def _close(self, sessions: Iterable[Session], reason: str) -> None:
        going = tuple(sessions)
        for session in going:
            LOG.warning("host %s is sent away: %s", session.host, reason)
        await asyncio.gather(*(session.close(reason) for session in going), return_exceptions=True)

    async def _do(self, several: Sequence[Heard]) -> list[list[str]]:
        done: list[list[str]] = await self._run(self._writing, self._reports.take_all, several)
        return done
