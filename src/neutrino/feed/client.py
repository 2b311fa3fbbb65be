"""The host's end of the feed: one connection, made again whenever it is lost, and the state that outlives it.

    client = FeedClient(ClientOptions(parse("unix:/…/feed.sock"), "h1", credential), cache=Path("…/feed.json"))
    task = asyncio.create_task(client.run())
    async for change in client.changes():   # kind, id, old, new
        …

An agent may start before its server: it works from its cache, waits and logs that, and deletes nothing meanwhile.

A connection: `hello` has the digests of all objects here, or their sum per kind, so that the server sends the difference
alone; it answers `welcome`, the difference and `synced`, and from then on sends changes, followed by `synced`. Reports go
the other way.
"""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from neutrino.feed import messages as m
from neutrino.feed.address import Address, short_path
from neutrino.feed.credential_file import CredentialFile
from neutrino.feed.state import State, StateChange
from neutrino.model.agents import AgentState, shortened
from neutrino.model.kinds import KINDS, Kind
from neutrino.model.objects import Object
from neutrino.model.rates import Counted
from neutrino.model.routing import MeteredTraffic
from neutrino.tls import ClientContext

LOG = logging.getLogger(__name__)
# At DEBUG the library logs its headers, with the credential of this host, and the beginnings of frames.
_FRAMES = logging.getLogger(f"{__name__}.frames")
_FRAMES.setLevel(logging.WARNING)
REFUSED_FAILURES = 18  # a refusal counts as this many failed attempts: an immediate retry would be refused too
MAX_REPORTS: Final = 20_000  # a server may be unreachable for long
BACKOFF = 1.3  # growth of the delay: after an outage, a host retries within about a third of its length
Subject = tuple[str, ...]
_TRAFFIC: Subject = ("traffic",)


@dataclass(frozen=True)
class ClientOptions:
    address: Address
    host: str
    credential: str | CredentialFile
    roles: tuple[str, ...] = ()
    release: str = ""
    tls: ClientContext | None = None  # by default the system's CAs
    first_delay: float = 0.1  # seconds before the first retry
    longest_delay: float = 15.0
    heartbeat: float = 10.0  # seconds between WebSocket pings, in both directions
    heartbeat_timeout: float = 20.0
    others: tuple[Address, ...] = ()  # further servers, tried in turn when the connection is lost
    save_interval: float = 1.0  # seconds after a change within which the cache is written


class UnacknowledgedReports:
    """Reports that the server has not acknowledged: the newest per subject, kept across connections. Pure.

    A report is sent once per connection; whatever is not acknowledged is sent again in the next one. The number is bounded:
    above it the oldest error is dropped, else the oldest report.
    """

    def __init__(self, most: int = MAX_REPORTS) -> None:
        self._most = most
        self._serial = 0
        self._reports: dict[Subject, m.HostReport] = {}
        self._unsent: dict[Subject, None] = {}

    def __len__(self) -> int:
        return len(self._reports)

    def __contains__(self, subject: Subject) -> bool:
        return subject in self._reports

    def put(self, subject: Subject, report: m.HostReport) -> None:
        """Queue a report under a new serial; it replaces an earlier one on the same subject."""
        self._serial += 1
        self._reports.pop(subject, None)
        self._unsent.pop(subject, None)
        if len(self._reports) >= self._most:
            self._drop_one()
        self._reports[subject] = msgspec.structs.replace(report, serial=self._serial)
        self._unsent[subject] = None

    def _drop_one(self) -> None:
        """Errors are for the log, answers for a caller who waits a moment; the others are states of ports and routers."""
        errors = (subject for subject in self._reports if subject[0] in ("error", "answer"))
        oldest = next(errors, next(iter(self._reports)))
        del self._reports[oldest]
        self._unsent.pop(oldest, None)

    def take(self, most: int = 500, most_bytes: int = 1024 * 1024) -> bytes | None:
        """The next reports to send in this connection, as one frame; None: there are none.

        States of agents first: other reports must not make them look dead. The bounds are those of a frame at the server,
        which would close the connection, and the next one.
        """
        parts, size = list[bytes](), 0
        for subject in sorted(self._unsent, key=lambda subject: subject[0] != "report")[:most]:
            part = m.encode_one(self._reports[subject])
            if parts and size + len(part) > most_bytes:
                break
            parts.append(part)
            size += len(part)
            del self._unsent[subject]
        return m.frame(parts) if parts else None

    def acknowledge(self, serial: int) -> None:
        subject = next((s for s, report in self._reports.items() if report.serial == serial), None)
        # Unsent: replaced by a newer report after the acknowledged one was sent.
        if subject is not None and subject not in self._unsent:
            del self._reports[subject]

    def forget(self, subject: Subject) -> None:
        self._reports.pop(subject, None)
        self._unsent.pop(subject, None)

    def reconnected(self) -> None:
        """Send all of them again, in the order in which they were made."""
        self._unsent = dict.fromkeys(self._reports)


class FeedClient:
    def __init__(
        self,
        options: ClientOptions,
        *,
        cache: Path | None = None,
        jitter: Callable[[], float] = random.random,
        kinds: Mapping[str, Kind] = KINDS,
    ) -> None:
        self._options = options
        self._tls = options.tls or ClientContext(None)
        self._cache = cache
        self._jitter = jitter
        self._reports = UnacknowledgedReports()
        self._has_reports = asyncio.Event()
        self._changed = asyncio.Event()
        self._unsaved = asyncio.Event()
        self._synced = asyncio.Event()
        self._retry = asyncio.Event()
        self._stopping = False
        self._failures = 0
        self._logged: dict[Address, str] = {}  # the last failure of each server, since the last `synced`
        self._addresses = (options.address, *options.others)
        self._attempt = 0
        self._uses_sums = False  # the last server understands them
        self._on_synced: list[Callable[[], None]] = []
        self._position_is_new = False
        self._on_query: Callable[[m.Query], None] = self._leave_query
        self._answers: dict[str, float] = {}  # unacknowledged: until when the asking process waits
        self.state = State(kinds, self._report_problem)
        self._offered: State | None = None  # of a server that is not accepted yet
        self._on_offer: Callable[[], None] | None = None
        self._accepted: str | None = None  # identity of the database that is accepted
        self.connected = False
        if cache is not None:
            self._load_cache(cache)

    @property
    def _address(self) -> Address:
        return self._addresses[self._attempt % len(self._addresses)]

    @property
    def is_synced(self) -> bool:
        """Whether the state is complete: only then may a role delete anything."""
        return self.state.is_synced

    @property
    def position(self) -> int:
        """The change-log position that the state is at."""
        return self.state.cursor.position if self.state.cursor is not None else 0

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def on_synced(self, notify: Callable[[], None]) -> None:
        """Call `notify` whenever the state is complete at a new position and the consumer of `changes` has taken all."""
        self._on_synced.append(notify)

    async def changes(self) -> AsyncIterator[StateChange]:
        """All changes, coalesced per object, until `run` ends. For one consumer."""
        while True:
            while (change := self.state.take()) is not None:
                yield change
            if self._position_is_new:
                self._position_is_new = False
                for notify in self._on_synced:
                    notify()
            self._changed.clear()
            if self._stopping:
                return
            if not self.state.has_changes:
                await self._changed.wait()

    # --- acceptance of a server -----------------------------------------------------------------------------------

    def hold_until_accepted(self, notify: Callable[[], None]) -> None:
        """Keep what a server sends apart from `state` until `accept` is called.

        Once in the life of this client, and again whenever a server has another database. `notify` is called when there
        is something to accept, or it has changed.
        """
        self._on_offer = notify

    @property
    def offered(self) -> State | None:
        """What the server has sent that is not accepted; None if there is nothing to accept."""
        return self._offered

    def accept(self) -> None:
        """Make the offered objects the state, if the server has sent all of them."""
        if self._offered is None or not self._offered.is_synced:
            return
        offered, self._offered = self._offered, None
        self.state.adopt(offered)
        self._accepted = offered.cursor.database if offered.cursor is not None else None
        self._complete()

    def _take_state(self, message: m.ServerMessage) -> None:
        if isinstance(message, m.Welcome):
            must_ask = self._on_offer is not None and self._accepted != message.cursor.database
            self._offered = self.state.copy() if must_ask else None
        (self._offered or self.state).apply(message)
        if not isinstance(message, m.Synced):
            return
        self._failures, self._logged = 0, {}
        if self._offered is None:
            self._complete()
        elif self._on_offer is not None:
            self._on_offer()

    def _complete(self) -> None:
        """The state is complete at a new position."""
        self._synced.set()
        self._unsaved.set()
        self._position_is_new = True
        self._changed.set()

    # --- reports: kept until the server acknowledges them ---------------------------------------------------------

    def report(self, states: Sequence[AgentState], applied: int | None = None) -> None:
        """The states of this host's agents, and the position that they have applied (None: all received)."""
        position = self.position if applied is None else applied
        # A subject of its own for the start: the next report must not replace it before a server has received it.
        subject = ("report", "start") if any(state.start_flag for state in states) else ("report",)
        self._report(subject, m.Report(states=tuple(states), applied=position))

    def port_up(self, port_id: str, revision: int, *, inactive: bool = False) -> None:
        self._report(("port", port_id), m.PortUp(port_id=port_id, revision=revision, inactive=inactive))

    def port_down(self, port_id: str, reason: str = "") -> None:
        self._report(("port", port_id), m.PortDown(port_id=port_id, reason=shortened(reason)))

    def port_ready(self, port_id: str, revision: int) -> None:
        """DHCP for a port, bound to any host, is configured as of this revision."""
        self._report(("ready", port_id), m.PortReady(port_id=port_id, revision=revision))

    def status(self, kind: str, key: str, status: str, revision: int = 0, reason: str = "", role: str = "") -> None:
        """The status of a floating IP, an HA router, a firewall group or a delegated prefix on this host.

        Of a firewall group with the role that applies it, the revision that it is about, and the reason of an error.
        """
        message = m.Status(kind=kind, id=key, status=status, revision=revision, reason=shortened(reason), role=role)
        self._report(("status", kind, key, role), message)

    def traffic(self, counters: Sequence[MeteredTraffic], *, granular: bool) -> None:
        """All metering counters of this host."""
        self._report(_TRAFFIC, m.Traffic(counters=tuple(counters), granular=granular))

    def rates(self, seconds: int, ports: Mapping[str, Counted], tunnels: Mapping[str, Counted]) -> None:
        """What ports and tunnels have counted; it replaces an earlier report that was not sent yet."""
        self._report(("rates",), m.Rates(seconds=seconds, ports=dict(ports), tunnels=dict(tunnels)))

    @property
    def is_traffic_acknowledged(self) -> bool:
        """Whether the server has the last report of metering counters."""
        return _TRAFFIC not in self._reports

    def error(self, kind: str, key: str, text: str) -> None:
        self._report(("error", kind, key), m.ErrorMessage(kind=kind, id=key, text=shortened(text)))

    def on_query(self, handler: Callable[[m.Query], None]) -> None:
        """Call `handler` with each query of the server; it returns at once, and calls `answer` later."""
        self._on_query = handler

    def answer(self, query_id: str, ends: float, result: bytes = b"null", error: str = "") -> None:
        """Answer a query with JSON, or with the error because of which there is none. `ends`: monotonic time."""
        self._forget_late_answers()
        self._answers[query_id] = ends
        self._report(("answer", query_id), m.Answer(id=query_id, result=msgspec.Raw(result), error=shortened(error)))

    def _forget_late_answers(self) -> None:
        """The asking process waits no more: such an answer would only be sent in vain in the next connection."""
        now = time.monotonic()
        for query_id in [query_id for query_id, ends in self._answers.items() if ends <= now]:
            del self._answers[query_id]
            self._reports.forget(("answer", query_id))

    def _leave_query(self, query: m.Query) -> None:
        """To the host's agent, which is asked too: this is another process or connection, as of `neutrino agent verify`."""

    @property
    def unacknowledged(self) -> int:
        """The number of reports that the server has not acknowledged."""
        return len(self._reports)

    def _report(self, subject: Subject, report: m.HostReport) -> None:
        self._reports.put(subject, report)
        self._has_reports.set()

    # --- the connection -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Stay connected until cancelled."""
        saving = asyncio.create_task(self._keep_saving())
        try:
            while True:
                delay = await self._connect_once()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(delay):
                        await self._retry.wait()
                self._retry.clear()
        finally:
            await _cancel(saving)
            self._save_cache()
            self._stopping = True
            self._changed.set()

    async def _connect_once(self) -> float:
        """One connection from its start to its end; returns the delay before the next."""
        try:
            async with await self._connect() as connection:
                await self._talk(connection)
        except m.NotUnderstood as error:
            self._log_lost(f"invalid frame from the server: {error}")
        except InvalidStatus as error:
            body = error.response.body.decode(errors="replace").strip() if error.response.body else ""
            if error.response.status_code in (401, 403):
                self._log_refused(body or str(error))
            else:
                self._log_lost(f"the server refuses this host: {body or error}")
        except OSError as error:
            self._log_lost(self._tls.explain(error) or type(error).__name__)
        except (InvalidHandshake, ConnectionClosed) as error:
            self._log_lost(str(error) or type(error).__name__)
        finally:
            self.connected = False
            self._offered = None
            self.state.disconnected()  # nothing is deleted until the next `synced`
            self._synced.clear()
        self._failures += 1
        self._attempt += 1  # the next server in turn
        delay = self._options.first_delay * BACKOFF ** min(self._failures - 1, 50)  # 1.5**2000 overflows
        # Jitter: after a server restart a thousand hosts must not reconnect at the same moment.
        return min(self._options.longest_delay, delay) * (0.5 + 0.5 * self._jitter())

    def retry_now(self) -> None:
        """Connect at once, if there is no connection: what prevented it, such as the credential, may have changed."""
        if not self.connected:
            self._retry.set()

    def _log_refused(self, reason: str) -> None:
        """A warning for each reason, also after failures of another kind: it needs an operator."""
        given = self._options.credential
        name = f"{given}, which is read again at each attempt" if isinstance(given, CredentialFile) else "a credential"
        text = f"the server at {self._address} refuses host {self._options.host} ({reason}) with {name}"
        self._log_failure(logging.WARNING, text)

    def _log_lost(self, reason: str) -> None:
        level = logging.INFO if self._failures else logging.WARNING  # a warning once per outage
        self._log_failure(level, f"no connection to the server at {self._address} ({reason})")

    def _log_failure(self, level: int, text: str) -> None:
        """The same one as before is for DEBUG: an agent may be without its server for days."""
        is_repeated = self._logged.get(self._address) == text
        LOG.log(logging.DEBUG if is_repeated else level, "%s: keeping the current state and retrying", text)
        self._logged[self._address] = text

    async def _connect(self) -> ClientConnection:
        options, address = self._options, self._address
        given = options.credential
        credential = given if isinstance(given, str) else given.read()
        how: Object = {
            "additional_headers": {m.HOST_HEADER: options.host, "Authorization": f"Bearer {credential}"},
            "logger": _FRAMES,
            "compression": None,
            "max_size": m.MAX_BYTES,
            "ping_interval": options.heartbeat,
            "ping_timeout": options.heartbeat_timeout,
            "close_timeout": 2,  # seconds: a server that is gone must not delay the next attempt
            "proxy": None,  # an HTTP proxy of the environment is not meant for the feed
        }
        if address.path:
            with short_path(address.path) as path:
                return await unix_connect(path, **how)
        return await connect(str(address), ssl=self._tls() if address.tls else None, **how)

    async def _talk(self, connection: ClientConnection) -> None:
        hello = m.Hello(
            host=self._options.host,
            version=m.VERSION,
            release=self._options.release,
            roles=self._options.roles,
            cursor=self.state.cursor,
            have={} if self._uses_sums else self.state.have(),
            sums=self.state.sums() if self._uses_sums else None,
            accepts=(m.ZLIB,),
        )
        await connection.send(m.encode([hello]), text=True)
        sender: asyncio.Task[None] | None = None
        try:
            async for data in connection:
                for message in m.read_from_server(data):
                    if isinstance(message, m.Welcome):
                        self._check_position(message)
                        await self._compare(connection, message)
                    self._take(message)
                    if isinstance(message, m.Welcome) and sender is None:
                        # `welcome` has queued again what the last connection left unacknowledged.
                        sender = asyncio.create_task(self._keep_sending(connection))
                if self.state.has_changes:
                    self._changed.set()
            raise ConnectionError("the connection was closed")  # by the server, in order: the iteration raises nothing
        finally:
            if sender is not None:
                await _cancel(sender)

    def _check_position(self, welcome: m.Welcome) -> None:
        """Refuse a server that has read less of the same database: it would take back the changes it has not read."""
        cursor = self.state.cursor
        if cursor is not None and cursor.is_ahead_of(welcome.cursor):
            raise ConnectionError(
                f"it is behind, at position {welcome.cursor.position} of the database; this host is at {cursor.position}"
            )

    async def _compare(self, connection: ClientConnection, welcome: m.Welcome) -> None:
        """Send the digests that the server asks for, as the first message after `hello`."""
        used, self._uses_sums = self._uses_sums, welcome.version >= m.SUMS
        if used and not self._uses_sums:
            # It ignores the sums, and so takes this host for one without any object, which gets no deletions.
            raise ConnectionError("the server has an earlier release: connecting again with all digests")
        if welcome.compare:
            have = self.state.have()
            asked = m.Have(have={kind: have[kind] for kind in welcome.compare if kind in have})
            await connection.send(m.encode([asked]), text=True)

    def _take(self, message: m.ServerMessage | m.NotUnderstood) -> None:
        match message:
            case m.Refused():
                self._failures = max(self._failures, REFUSED_FAILURES)
                raise ConnectionError(f"the server refuses this host: {message.reason}")
            case m.NotUnderstood():
                LOG.warning("invalid message from the server: %s", message)
            case m.ErrorMessage():
                LOG.warning("error from the server: %s", message.text)
            case m.Ack():
                self._reports.acknowledge(message.serial)
            case m.Query():
                self._on_query(message)
            case _:
                if isinstance(message, m.Welcome):
                    LOG.info("connected to %s at %s", message.server or "the server", self._address)
                    self.connected = True
                    self._forget_late_answers()
                    self._reports.reconnected()
                    self._has_reports.set()
                self._take_state(message)

    def _report_problem(self, kind: str, key: str, reason: str) -> None:
        LOG.error("%s %s from the server is invalid, keeping its last valid state: %s", kind, key, reason)
        self.error(kind, key, reason)

    async def _keep_sending(self, connection: ClientConnection) -> None:
        while True:
            await self._has_reports.wait()
            self._has_reports.clear()
            while (frame := self._reports.take()) is not None:
                await connection.send(frame, text=True)

    # --- the cache ------------------------------------------------------------------------------------------------

    def _load_cache(self, cache: Path) -> None:
        try:
            self.state.load(cache.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            LOG.warning("cannot read the cache %s (%s): starting without it", cache, error)
        if self.state.has_changes:
            self._changed.set()

    async def _keep_saving(self) -> None:
        while True:
            await self._unsaved.wait()
            await asyncio.sleep(self._options.save_interval)  # changes that follow each other are one write
            self._unsaved.clear()
            self._save_cache()

    def _save_cache(self) -> None:
        if self._cache is None:
            return
        new = self._cache.with_name(f"{self._cache.name}.new")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.state.dump())
            new.replace(self._cache)  # atomic: a killed agent leaves the old cache or the new one
        except OSError as error:
            LOG.warning("cannot write the cache %s: %s", self._cache, error)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
        await task
