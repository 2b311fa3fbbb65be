"""The hosts' end of the feed: one connection that is made again whenever it is lost, and the state that outlives it.

    client = FeedClient(ClientOptions(parse("unix:/…/feed.sock"), "h1", credential), cache=Path("…/feed.json"))
    task = asyncio.create_task(client.run())
    async for change in client.changes():   # kind, id, old, new
        …

An agent may start before its server: it has its cache, waits, says so, and deletes nothing meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from neutrino.feed.address import Address, short_path
from neutrino.feed.messages import (
    FROM_SERVER,
    HOST_HEADER,
    MAX_BYTES,
    VERSION,
    Ack,
    Hello,
    NotUnderstood,
    PortDown,
    PortReady,
    PortUp,
    Problem,
    Reader,
    Refused,
    Report,
    Status,
    Synced,
    Welcome,
    encode,
)
from neutrino.feed.state import State, StateChange
from neutrino.feed.unacknowledged import UnacknowledgedReports
from neutrino.model.agents import AgentState

LOG = logging.getLogger(__name__)
REFUSED = 12  # attempts that a refusal counts for: some seconds
GROWTH = 1.5  # of the delay: who was without a server for a time waits for about half of it before the next attempt


@dataclass(frozen=True)
class ClientOptions:
    """Where the server is, and who we are to it."""

    address: Address
    host: str
    credential: str
    roles: tuple[str, ...] = ()
    release: str = ""
    tls: ssl.SSLContext | None = None
    first_delay: float = 0.1  # seconds before the first new attempt; each next one waits longer
    longest_delay: float = 15.0
    heartbeat: float = 10.0  # seconds between the connection's pings, in both directions
    heartbeat_timeout: float = 20.0
    others: tuple[Address, ...] = ()  # further servers: when one is lost, the next is tried
    save_interval: float = 1.0  # seconds after a change within which the cache is written


class Lost(Exception):
    """The connection is of no use any more."""


class FeedClient:
    def __init__(
        self, settings: ClientOptions, *, cache: Path | None = None, jitter: Callable[[], float] = random.random
    ) -> None:
        self._settings = settings
        self._cache = cache
        self._jitter = jitter
        self._reader = Reader(FROM_SERVER)
        self._outbox = UnacknowledgedReports()
        self._speak = asyncio.Event()
        self._changed = asyncio.Event()
        self._save = asyncio.Event()
        self._synced = asyncio.Event()
        self._stopping = False
        self._failures = 0
        self._addresses = (settings.address, *settings.others)
        self._turn = 0
        self._when_synced: list[Callable[[], None]] = []
        self._position_is_new = False
        self.state = State()
        self.connected = False
        self.server = ""
        if cache is not None:
            self._load(cache)

    @property
    def _address(self) -> Address:
        return self._addresses[self._turn % len(self._addresses)]

    @property
    def is_synced(self) -> bool:
        """Whether we know everything: only then may anything be taken away."""
        return self.state.is_synced

    @property
    def position(self) -> int:
        """The position up to which we have heard."""
        return self.state.cursor.position if self.state.cursor is not None else 0

    async def wait_synced(self) -> None:
        await self._synced.wait()

    def on_synced(self, tell: Callable[[], None]) -> None:
        """Call this whenever we know everything up to a new position and the taker of `changes` has taken all of it."""
        self._when_synced.append(tell)

    async def changes(self) -> AsyncIterator[StateChange]:
        """Every change, the newest state of each object, until `run` ends. For one taker."""
        while True:
            while (change := self.state.take()) is not None:
                yield change
            if self._position_is_new:
                self._position_is_new = False
                for tell in self._when_synced:
                    tell()
            self._changed.clear()
            if self._stopping:
                return
            if not self.state.has_changes:
                await self._changed.wait()

    # --- what the host says: kept until the server has done it ----------------------------------------------------

    def report(self, states: Sequence[AgentState], applied: int | None = None) -> None:
        """The agents of this host as they are, and the position that is carried out (None: all we have heard)."""
        position = self.position if applied is None else applied
        # That an agent has started is said once: the next report may be due before a server hears us, and has it no more.
        about = ("report", "start") if any(state.start_flag for state in states) else ("report",)
        self._say(about, lambda serial: Report(serial=serial, states=tuple(states), applied=position))

    def port_up(self, port_id: str, revision: int) -> None:
        self._say(("port", port_id), lambda serial: PortUp(serial=serial, port_id=port_id, revision=revision))

    def port_down(self, port_id: str, reason: str = "") -> None:
        self._say(("port", port_id), lambda serial: PortDown(serial=serial, port_id=port_id, reason=reason))

    def port_ready(self, port_id: str, revision: int, component: str = "DHCP") -> None:
        """What this host does for a port, wherever it is bound, is done as of this revision."""
        self._say(
            ("ready", component, port_id),
            lambda serial: PortReady(serial=serial, port_id=port_id, revision=revision, component=component),
        )

    def status(self, kind: str, key: str, status: str) -> None:
        """How a floating IP or an HA router is here."""
        self._say(("status", kind, key), lambda serial: Status(serial=serial, kind=kind, id=key, status=status))

    def error(self, kind: str, key: str, text: str) -> None:
        self._say(("error", kind, key), lambda serial: Problem(serial=serial, kind=kind, id=key, text=text))

    @property
    def unsaid(self) -> int:
        """How much the server has not acknowledged."""
        return len(self._outbox)

    def _say(self, about: tuple[str, ...], make: Callable[[int], Any]) -> None:
        self._outbox.put(about, make)
        self._speak.set()

    # --- the connection -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Be connected, until cancelled."""
        saving = asyncio.create_task(self._keep_saved())
        try:
            while True:
                delay = await self._once()
                await asyncio.sleep(delay)
        finally:
            saving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await saving
            self._write()
            self._stopping = True
            self._changed.set()

    async def _once(self) -> float:
        """One connection from its start to its end; the seconds to wait before the next."""
        try:
            async with self._connect() as connection:
                await self._talk(connection)
        except Lost as error:
            self._tell(str(error))
        except InvalidStatus as error:
            body = error.response.body.decode(errors="replace").strip() if error.response.body else ""
            self._tell(f"it refuses us: {body or error}")
        except (OSError, InvalidHandshake, ConnectionClosed, TimeoutError) as error:
            self._tell(str(error) or type(error).__name__)
        finally:
            self.connected = False
            self.state.disconnected()
            self._synced.clear()
        self._failures += 1
        self._turn += 1
        most = min(self._settings.longest_delay, self._settings.first_delay * GROWTH ** min(self._failures - 1, 50))
        return most * (0.5 + 0.5 * self._jitter())

    def _tell(self, reason: str) -> None:
        said = LOG.info if self._failures else LOG.warning  # loudly once, then quietly
        said("no server at %s (%s): we keep what we have and try again", self._address, reason)

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[ClientConnection]:
        settings, address = self._settings, self._address
        options: dict[str, Any] = {
            "additional_headers": {
                HOST_HEADER: settings.host,
                "Authorization": f"Bearer {settings.credential}",
            },
            "compression": None,
            "max_size": MAX_BYTES,
            "ping_interval": settings.heartbeat,
            "ping_timeout": settings.heartbeat_timeout,
            "close_timeout": 2,
            "proxy": None,
        }
        if address.path:
            with short_path(address.path) as path:
                connection = await unix_connect(path, **options)
        else:
            tls = (settings.tls or ssl.create_default_context()) if address.tls else None
            connection = await connect(str(address), ssl=tls, **options)
        try:
            yield connection
        finally:
            await connection.close()

    async def _talk(self, connection: ClientConnection) -> None:
        settings = self._settings
        hello = Hello(
            host=settings.host,
            version=VERSION,
            release=settings.release,
            roles=settings.roles,
            cursor=self.state.cursor,
            have=self.state.have(),
        )
        await connection.send(encode([hello]), text=True)
        speaking: asyncio.Task[None] | None = None
        try:
            async for data in connection:
                for message in self._read(data):
                    self._take(message)
                    if isinstance(message, Welcome) and speaking is None:
                        speaking = asyncio.create_task(self._keep_speaking(connection))
                if self.state.has_changes:
                    self._changed.set()
            raise Lost("the connection was closed")
        finally:
            if speaking is not None:
                speaking.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                    await speaking

    def _read(self, data: bytes | str) -> list[Any]:
        try:
            return self._reader.read(data)
        except NotUnderstood as error:
            raise Lost(f"the server said what we do not understand: {error}") from None

    def _take(self, message: Any) -> None:
        if isinstance(message, Refused):
            self._failures = max(self._failures, REFUSED)  # coming again at once is of no use
            raise Lost(f"it refuses us: {message.reason}")
        if isinstance(message, NotUnderstood | Problem):
            LOG.warning("the server: %s", message.text if isinstance(message, Problem) else message)
            return
        if isinstance(message, Welcome):
            self._welcomed(message)
        if isinstance(message, Ack):
            self._outbox.acknowledge(message.serial)
            return
        self.state.apply(message)
        self._tell_problems()
        if isinstance(message, Synced):
            self._failures = 0
            self._synced.set()
            self._save.set()
            self._position_is_new = True
            self._changed.set()

    def _tell_problems(self) -> None:
        for kind, key, reason in self.state.take_problems():
            LOG.error("%s %s cannot be used, what was known of it is kept: %s", kind, key, reason)
            self.error(kind, key, reason)

    def _welcomed(self, message: Welcome) -> None:
        LOG.info("connected to %s at %s", message.server or "the server", self._address)
        self.server = message.server
        self.connected = True
        self._outbox.reconnected()
        self._speak.set()

    async def _keep_speaking(self, connection: ClientConnection) -> None:
        while True:
            await self._speak.wait()
            self._speak.clear()
            while messages := self._outbox.take():
                await connection.send(encode(messages), text=True)

    # --- the cache ------------------------------------------------------------------------------------------------

    def _load(self, cache: Path) -> None:
        try:
            self.state.load(cache.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            LOG.warning("the cache %s cannot be read (%s): we start without it", cache, error)
            self.state = State()
        self._tell_problems()
        if self.state.has_changes:
            self._changed.set()

    async def _keep_saved(self) -> None:
        while True:
            await self._save.wait()
            await asyncio.sleep(self._settings.save_interval)
            self._save.clear()
            self._write()

    def _write(self) -> None:
        if self._cache is None:
            return
        new = self._cache.with_name(f"{self._cache.name}.new")
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self.state.dump())
            new.replace(self._cache)
        except OSError as error:
            LOG.warning("the cache %s cannot be written: %s", self._cache, error)


def with_credential(settings: ClientOptions, path: Path) -> ClientOptions:
    """The same with the credential that a file holds."""
    return replace(settings, credential=path.read_text().strip())
