"""The feed server: follows the change log, keeps the fan-out current, and serves the hosts that connect."""

import asyncio
import contextlib
import errno
import functools
import gc
import logging
import os
import random
import resource
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from websockets.asyncio.server import ServerConnection, serve, unix_serve

from neutrino import private
from neutrino.configuration.options import Configuration
from neutrino.diagnosis.facts import FEED_PROCESS, HOSTS
from neutrino.feed.address import Address, short_path
from neutrino.feed.messages import MAX_BYTES, Answer, HostReport, Query, Traffic
from neutrino.metrics import catalog as metrics
from neutrino.model.objects import Object, Values
from neutrino.server import features
from neutrino.server.backend import build_backend, host_reports
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.events.notifications import notifier_from_conf
from neutrino.server.feed import cloud_metrics
from neutrino.server.feed.change_log import BATCH, ChangeReader, Head, LogReplaced, Pace, Row
from neutrino.server.feed.connections.admission import (
    DATABASE_ERRORS,
    Admission,
    LimitedConnection,
    source_address,
)
from neutrino.server.feed.connections.credentials import KIND, Credentials
from neutrino.server.feed.connections.listeners import addresses, owned_socket, server_tls
from neutrino.server.feed.connections.session import HostSession
from neutrino.server.feed.connections.turns import Turns
from neutrino.server.feed.declarations import Sources
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.placed_routers import PlacedRouters
from neutrino.server.feed.records import Records
from neutrino.server.feed.reports.batches import ReportLanes
from neutrino.server.feed.reports.reports import Reports
from neutrino.server.feed.wake import wake
from neutrino.server.hosts.queries import KIND as QUERY
from neutrino.server.hosts.queries import OpenQueries
from neutrino.server.status.processes import ServerProcess
from neutrino.tls import CHECK_SECONDS, ReloadingContext

T = TypeVar("T")
HostQuery = tuple[str, Query]  # host and query
LOG = logging.getLogger(__name__)
RETRY_SECONDS = 1.0
COMPACT_SECONDS = 60.0
BACKLOG = 4096  # pending connections: all hosts reconnect at once after a restart; the kernel's limit applies too
HANDSHAKE_SECONDS = 10.0  # for TLS, and again for the upgrade request
MAX_COMPARED = 32  # hosts whose state is compared and sent at the same time
MAX_SESSIONS = 16  # of one host: one per process, and some whose end the server has not noticed yet
CATCH_UP_SECONDS = 10.0  # for which a host that has a later position waits, before it is refused
WITHDRAWN = "the credential is not valid any more"


@dataclass(frozen=True)
class FeedOptions:
    server: str  # name of this machine, for the hosts' logs
    addresses: Sequence[Address]
    tls: ReloadingContext | None = None
    keep_changes: float = 3600.0  # seconds that change-log rows are kept
    interval: float = 0.05
    sqlite_interval: float = 0.02
    heartbeat: float = 10.0
    heartbeat_timeout: float = 20.0
    report_delay: float = 0.25  # seconds that a plain heartbeat report may wait, to be written with others


class FeedServer:
    def __init__(
        self,
        db: Database,
        credentials: Credentials,
        reports: Reports,
        options: FeedOptions,
        sources: Sources,
    ) -> None:
        self._db = db
        self._changes = ChangeReader(db, sources)
        self._reports = reports
        self._options = options
        self._sources = sources
        self._reading = ThreadPoolExecutor(1, "feed-read")
        self._writing = ThreadPoolExecutor(6, "feed-write")  # lanes of reports, `settle` and `compact`: none waits
        # A pool of its own: logins with wrong credentials must not delay the reports of other hosts.
        self._logins = ThreadPoolExecutor(1, "feed-login")
        self._admission = Admission(functools.partial(self._run, self._logins, credentials.known))
        self._woken = asyncio.Event()
        self._unsettled = asyncio.Event()  # distributed routers may need ports or statuses of ports
        self._turns = Turns(MAX_COMPARED)
        write = functools.partial(self._run, self._writing, reports.write)
        self._batches = ReportLanes(write, options.report_delay, self._turns.calm)
        self._sessions: set[HostSession] = set()
        self._by_host: Counter[str] = Counter()
        self._frames: dict[str, asyncio.Lock] = {}  # by host: held while a frame of it is decoded
        self._queries = OpenQueries(db)
        self._database = ""  # identity of the database whose positions we send
        self._routers = PlacedRouters()
        self._advanced = asyncio.Event()  # set, and replaced, when the fan-out has reached a new position
        self.fanout = Fanout(sources.kinds)
        self.listening: list[Address] = []  # with the ports that the kernel chose
        self.on_listening: Callable[[], object] = lambda: None
        self.on_changed_hosts: Callable[[], object] = lambda: None  # what `describe` says of hosts has changed
        self._admission.on_refused = lambda: self.on_changed_hosts()

    def describe(self) -> Object:
        """What `GET /v2.0/status` shows of this process; called from a thread of its own."""
        hosts = sorted({session.host for session in tuple(self._sessions) if session.is_welcome})
        return {
            "connected_hosts": len(hosts),
            "position": self.fanout.position,
            HOSTS: hosts,
            **self._admission.refusals.recent(),
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        await self._read_everything()
        work = (
            *map(self._keep_listening, self._options.addresses),
            wake(self._db, self._woken.set, self._options.sqlite_interval, self._options.interval),
            self._follow(),
            self._settle(),
            self._compact(),
            self._batches.run(),
            self._watch_certificate(),
            stop.wait(),
        )
        tasks = [asyncio.create_task(one) for one in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # raises what ended the task: the process ends, and its supervisor respawns it
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for pool in (self._reading, self._writing, self._logins):
                pool.shutdown(wait=False, cancel_futures=True)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *args)

    def watch_metrics(self) -> None:
        """Have metrics read the state of this feed. They do so in another thread."""
        metrics.POSITION.watch(lambda: float(self.fanout.position))
        metrics.CONNECTED_HOSTS.watch(lambda: float(len({session.host for session in tuple(self._sessions)})))
        metrics.HOST_LAG.watch(lambda: _worst(self._sessions, HostSession.lag))
        metrics.HOST_PENDING.watch(lambda: _worst(self._sessions, lambda session: len(session.pending)))

    # --- following the change log ---------------------------------------------------------------------------------

    async def _read_everything(self) -> None:
        """Start from a new fan-out. Connected hosts are closed: they reconnect and are compared with it."""
        head, fanout, queries = await self._run(self._reading, self._load)
        self._routers.follow(fanout.watch("router", self._routers.changed))
        self.fanout, self._database = fanout, head.identity
        metrics.SNAPSHOTS.inc()
        self._queries.add(queries)
        await self._admission.refresh()
        await self._close(self._sessions, "the server has read everything again")

    def _load(self) -> tuple[Head, Fanout, list[HostQuery]]:
        fanout = Fanout(self._sources.kinds)
        with _without_collection(freeze=not self._sessions):
            head, records = self._changes.read_all()
            fanout.apply(records)
        fanout.position = head.position
        with self._db.read() as connection:
            return head, fanout, self._queries.read(connection)

    async def _follow(self) -> None:
        pace = Pace()
        while True:
            await self._woken.wait()
            self._woken.clear()
            began = time.monotonic()
            await _retrying("read the change log", self._read_changes)
            metrics.READ_SECONDS.observe(time.monotonic() - began)
            await asyncio.sleep(pace.pause(began, time.monotonic()))

    async def _read_changes(self) -> None:
        try:
            while await self._step():
                pass
        except LogReplaced as error:
            LOG.warning("%s: reading everything again", error)
            await self._read_everything()

    async def _step(self) -> bool:
        """Apply the next changes; whether there may be more."""
        rows, records, queries = await self._run(self._reading, self._next, self.fanout.position)
        if not rows:
            return False
        self.fanout.apply(records, {(row.kind, row.object_id): row.request_id for row in rows if row.request_id})
        self.fanout.position = rows[-1].position
        self._advanced.set()
        self._advanced = asyncio.Event()
        for row in rows:
            metrics.CHANGES.inc(row.kind)
        if queries:
            self._ask(queries)
        if LOG.isEnabledFor(logging.DEBUG):
            for row in rows:
                LOG.debug(
                    "change %d: %s %s by %s", row.position, row.kind, row.object_id, row.request_id or "no request"
                )
        # Ports of distributed routers follow from many rows: `settle` looks at all of them, in a task of its own.
        for by_host in records.get("router", {}).values():
            if by_host is None or any(router.distributed for router in by_host.values()):  # None: deleted, of any kind
                self._unsettled.set()
        if any(row.kind == KIND for row in rows):
            await self._admission.refresh()
            withdrawn = [s for s in self._sessions if not self._admission.is_valid(s.host, s.credential)]
            await self._close(withdrawn, WITHDRAWN)
        return len(rows) >= BATCH

    def _next(self, position: int) -> tuple[list[Row], Records, list[HostQuery]]:
        rows, records = self._changes.read_next(self._database, position, self.fanout.networks_of)
        asked = [row.object_id for row in rows if row.kind == QUERY]
        if not asked:
            return rows, records, []
        with self._db.read() as connection:
            return rows, records, self._queries.read(connection, asked)

    async def _catch_up(self, fanout: Fanout, position: int) -> bool:
        """Wait until this process has read up to a position that a host has from another one; whether it has."""
        self._woken.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS):
                while fanout.position < position:
                    await self._advanced.wait()
        return fanout.position >= position

    def _ask(self, queries: Sequence[HostQuery]) -> None:
        """Queue queries for their hosts, and keep them for hosts that connect while they are open."""
        self._queries.add(queries)
        by_host: dict[str, list[Query]] = {}
        for host, query in queries:
            by_host.setdefault(host, []).append(query)
        for session in self._sessions:
            if session.is_welcome and session.host in by_host:
                session.ask(by_host[session.host])

    async def _settle(self) -> None:
        work = functools.partial(self._run, self._writing, self._reports.settle)
        while True:
            # Also at the start: changes from before it do not set the event.
            await _retrying("update ports of distributed routers", work)
            await self._unsettled.wait()
            self._unsettled.clear()

    async def _compact(self) -> None:
        compact = functools.partial(self._run, self._writing, self._changes.log.compact, self._options.keep_changes)
        sweep = functools.partial(self._run, self._writing, self._queries.sweep)
        while True:
            await asyncio.sleep(COMPACT_SECONDS * (0.5 + random.random()))  # jitter: several processes do this
            await _retrying("remove old rows of the change log", compact)
            await _retrying("remove old queries to hosts", sweep)

    async def _watch_certificate(self) -> None:
        """New connections check the files too; here, so that files that cannot be used are logged without any."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.reload_certificate(now=False)

    def reload_certificate(self, *, now: bool = True) -> None:
        """Use changed TLS files for new connections; open ones stay."""
        if self._options.tls is not None:
            self._options.tls.watch.check(now=now)

    # --- connections ----------------------------------------------------------------------------------------------

    async def _keep_listening(self, address: Address) -> None:
        """Listen, and where another process does already, take over when it ends."""
        logged = False
        while True:
            try:
                async with self._listen(address):
                    await asyncio.Event().wait()  # until cancelled
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                if not logged:
                    reason = error.strerror or error
                    LOG.warning("cannot listen on %s: %s. Continuing without it and retrying", address, reason)
                    logged = True
            await asyncio.sleep(RETRY_SECONDS)

    @contextlib.asynccontextmanager
    async def _listen(self, address: Address) -> AsyncIterator[None]:
        options: Values = {
            "process_request": self._admission.admit,
            "compression": None,
            "max_size": MAX_BYTES,
            "ping_interval": self._options.heartbeat,
            "ping_timeout": self._options.heartbeat_timeout,
            "close_timeout": 2,
            "open_timeout": HANDSHAKE_SECONDS,
            "server_header": None,
            "backlog": BACKLOG,
            "create_connection": functools.partial(LimitedConnection, limits=self._admission.limits),
        }
        with contextlib.ExitStack() as stack:
            if address.path:
                stack.enter_context(owned_socket(address.path))
                with short_path(address.path) as path:
                    before = os.umask(0o177)  # the socket never exists with a wider mode
                    try:
                        listening = await unix_serve(self._serve, path, **options)
                    finally:
                        os.umask(before)
            else:
                tls = self._options.tls if address.tls else None
                listening = await serve(self._serve, address.host, address.port, ssl=tls, **options)
                address = replace(address, port=next(iter(listening.sockets)).getsockname()[1])
            self.listening.append(address)
            LOG.info("the feed listens on %s", address)
            self.on_listening()
            async with listening:
                yield

    async def _serve(self, connection: ServerConnection) -> None:
        admitted = self._admission.take(cast(LimitedConnection, connection))
        if admitted is None:
            await connection.close(1008, WITHDRAWN)
            return
        host, credential = admitted
        if self._by_host[host] >= MAX_SESSIONS:
            await connection.close(1013, "too many connections of this host")  # try again later
            return
        catch_up = functools.partial(self._catch_up, self.fanout)
        session = HostSession(
            connection,
            host,
            credential,
            self.fanout,
            self._write_reports,
            self._queries.of,
            self._turns,
            catch_up,
            self._frames.setdefault(host, asyncio.Lock()),
            self._sources.statuses,
        )
        session.on_welcome = self.on_changed_hosts
        session.on_refused = functools.partial(self._refused, host, source_address(connection.remote_address))
        self._sessions.add(session)
        self._by_host[host] += 1
        try:
            await session.run(self._options.server, self._database)
        finally:
            self._sessions.discard(session)
            self._by_host[host] -= 1
            if not self._by_host[host]:
                del self._by_host[host], self._frames[host]
            self.on_changed_hosts()

    def _refused(self, host: str, address: str, reason: str) -> None:
        """A host with a valid credential is refused, as with a role that it may not have."""
        self._admission.refusals.add(host, address, reason)
        self.on_changed_hosts()

    async def _write_reports(self, host: str, reports: Sequence[HostReport]) -> list[str]:
        reports = [self._routers.own(host, each) if isinstance(each, Traffic) else each for each in reports]
        refusals = await self._batches.take(host, reports)
        for report in reports:
            if isinstance(report, Answer):
                self._queries.answered(host, report.id)
        return refusals

    async def _close(self, sessions: Iterable[HostSession], reason: str) -> None:
        closing = tuple(sessions)  # a session that ends leaves the set
        for session in closing:
            LOG.warning("closing the connection of host %s: %s", session.host, reason)
        await asyncio.gather(*(session.close(reason) for session in closing), return_exceptions=True)


@contextlib.contextmanager
def _without_collection(*, freeze: bool) -> Iterator[None]:
    """Make objects that stay and have no cycles: the collector would look at millions of them again and again.

    `freeze`: it does not look at them later either, which would hold up all hosts for a second now and then. Whatever else
    exists then is not collected any more.
    """
    gc.disable()
    try:
        yield
        if freeze:
            gc.freeze()
    finally:
        gc.enable()


def _worst(sessions: Iterable[HostSession], number: Callable[[HostSession], int]) -> dict[tuple[str, ...], float]:
    """Return the largest number of each host, which may have an old connection whose end the server has not noticed yet."""
    found: dict[tuple[str, ...], float] = {}
    for session in tuple(sessions):
        found[session.host,] = max(found.get((session.host,), 0.0), number(session))
    return found


async def _retrying(what: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do this work until the database does not fail."""
    while True:
        try:
            await work()
            return
        except DATABASE_ERRORS as error:
            LOG.error("cannot %s, retrying in %s s: %s", what, RETRY_SECONDS, error)
            await asyncio.sleep(RETRY_SECONDS)


# --- the process -----------------------------------------------------------------------------------------------------


def _options(conf: Configuration) -> FeedOptions:
    return FeedOptions(
        server=conf.host,
        addresses=addresses(conf),
        tls=server_tls(conf),
        keep_changes=conf.feed.keep_changes,
        interval=conf.feed.poll_interval,
        sqlite_interval=conf.feed.sqlite_poll_interval,
        heartbeat=conf.feed.heartbeat,
        heartbeat_timeout=conf.feed.heartbeat_timeout,
    )


def run(conf: Configuration, ready: Callable[[], object] = lambda: None, *, alone: bool = False) -> None:
    """Serve the feed until SIGTERM or SIGINT. `ready` is called once it listens.

    `alone`: no server is its parent, which would serve its metrics.
    """
    logging.getLogger("websockets").setLevel(logging.WARNING)
    options = _options(conf)
    private.close_directory(conf.state_path)
    backend = build_backend(conf)
    db = backend.services.db
    schema.ensure(db, upgrade=conf.database.auto_upgrade)
    schema.ensure_tables(db, features.additional_tables(), upgrade=conf.database.auto_upgrade)
    backend.services.core.begin()
    db.release()
    _allow_connections()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # records have no cycles: of those that change, few have to be looked at
    notifier = notifier_from_conf(conf, conf.host)
    if notifier is not None:
        backend = replace(backend, services=replace(backend.services, publish=notifier.publish))
    server = FeedServer(db, Credentials(db), host_reports(backend), options, features.sources())
    mechanisms = backend.services.core.operations.mechanisms
    process = ServerProcess(db, conf.host, FEED_PROCESS, lambda: {**server.describe(), **mechanisms.details()})
    process.start()
    try:
        server.on_listening = ready
        server.on_changed_hosts = process.soon
        with cloud_metrics.serving(conf, db, alone=alone):
            metrics.DRIVERS_NOT_READY.watch(mechanisms.measures)
            asyncio.run(_serve(server))
    finally:
        process.stop()
        if notifier is not None:
            notifier.close()
        backend.close()


def _allow_connections() -> None:
    """Every host is an open file: raise the soft limit to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(server: FeedServer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server.watch_metrics()
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # ignored in the child of a server, which restarts it
        loop.add_signal_handler(signal.SIGHUP, server.reload_certificate)
    await server.run(stop)
