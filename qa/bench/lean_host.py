"""A simulated host that costs kilobytes: the real messages on a real connection, and digests instead of objects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from neutrino.feed import messages as m
from neutrino.feed.address import Address
from neutrino.feed.client import BACKOFF, ClientOptions
from neutrino.model.agents import AgentState
from qa.bench import frames
from qa.bench import lean_state as s

_encode = msgspec.json.encode


class LeanHost(asyncio.Protocol):
    """Connects, reconnects and reports as `FeedClient` does."""

    def __init__(self, options: ClientOptions, tables: s.Tables, seen: Callable[[str], None]) -> None:
        self._options = options
        self._tables = tables
        self._seen = seen
        self._transport: asyncio.Transport | None = None
        self._reader = frames.Reader()
        self._ended: asyncio.Future[None] | None = None
        self._failures = 0
        self._serial = 0
        self._reports: dict[str, m.HostReport] = {}  # unacknowledged, by subject
        self._subjects: dict[int, str] = {}  # by serial
        self._unsent: list[m.HostReport] = []
        self._is_welcome = False
        self._is_stuck = False
        self._position = 0
        self.state = s.LeanState(tables)
        self.is_synced = False
        self.received = 0  # bytes
        self.messages = 0  # without those of frames that are known from another host

    @property
    def unacknowledged(self) -> int:
        """Without a heartbeat, which may wait at any time, to be written with others."""
        return len(self._reports) - ("report" in self._reports)

    @property
    def count(self) -> int:
        """The number of objects."""
        return len(self.state)

    @property
    def is_busy(self) -> bool:
        return bool(self._unsent)

    # --- the connection -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            try:
                await self._connect_once()
            except (OSError, frames.Broken):
                pass
            finally:
                self.is_synced = self._is_welcome = False
                if self._transport is not None:
                    self._transport.abort()
            self._failures += 1
            delay = self._options.first_delay * BACKOFF ** min(self._failures - 1, 50)
            await asyncio.sleep(min(self._options.longest_delay, delay) * (0.5 + 0.5 * random.random()))

    async def _connect_once(self) -> None:
        loop, options = asyncio.get_running_loop(), self._options
        self._reader, self._ended = frames.Reader(), loop.create_future()
        await self._open(loop, options.address)
        self._write(
            frames.request({m.HOST_HEADER: options.host, "Authorization": f"Bearer {options.credential}"}),
        )
        cursor = m.Cursor("", self._position)
        sums = self.state.sums() if self.state else None
        hello = m.Hello(
            host=options.host, version=m.VERSION, roles=options.roles, cursor=cursor, sums=sums, accepts=(m.ZLIB,)
        )
        self._write(frames.frame(_encode([hello])))
        pinging = asyncio.create_task(self._ping())
        try:
            await self._ended
        finally:
            pinging.cancel()

    async def _open(self, loop: asyncio.AbstractEventLoop, address: Address) -> None:
        if address.path:
            await loop.create_unix_connection(lambda: self, address.path)
        else:
            await loop.create_connection(lambda: self, address.host, address.port)

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(self._options.heartbeat)
            if not self._is_stuck:
                self._write(frames.frame(b"", frames.PING))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def stick(self) -> None:
        """Read nothing any more, and answer no ping, as a host whose process is stopped."""
        self._is_stuck = True
        if self._transport is not None:
            self._transport.pause_reading()

    def unstick(self) -> None:
        self._is_stuck = False
        if self._transport is not None:
            self._transport.resume_reading()

    # --- from the server ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        try:
            for opcode, payload in self._reader.feed(data):
                if opcode in (frames.TEXT, frames.BINARY):
                    self._take_frame(payload)
                elif opcode == frames.PING:
                    self._write(frames.frame(payload, frames.PONG))
                elif opcode == frames.CLOSE:
                    self._end(ConnectionError("the connection was closed"))
        except (ValueError, ConnectionError) as error:  # frames.Broken, and messages that cannot be decoded
            self._end(ConnectionError(str(error)))

    def _end(self, error: ConnectionError) -> None:
        if self._ended is not None and not self._ended.done():
            self._ended.set_exception(error)

    def _take_frame(self, payload: bytes) -> None:
        block = self._tables.block(payload)
        if block is None or not self.state.put_block(block):
            for message in s.decode_frame(payload):
                self.messages += 1
                if type(message) is s.Put and message.kind == s.ENTRIES:  # nearly all
                    if self.state.put(message):
                        self._seen(message.object.id)
                else:
                    self._take(message)

    def _take(self, message: s.ServerMessage) -> None:
        match message:
            case s.Put():
                if self.state.put(message) and message.kind in ("port", s.ENTRIES):
                    self._seen(message.object.id)
                if message.kind == "port":
                    self.port_up(message.object.id, message.object.revision)
            case s.Ack():
                subject = self._subjects.pop(message.serial, "")
                if subject and self._reports[subject].serial == message.serial:
                    del self._reports[subject]
            case s.Synced():
                self.state.synced(message)
                self._position, self.is_synced, self._failures = message.position, True, 0
            case s.Members():
                self.state.members(message)
                for member in message.added:
                    self._seen(f"+{member.ip_address}")
                for member in message.removed:
                    self._seen(f"-{member.ip_address}")
            case s.Gone():
                self.state.gone(message.kind, message.id)
            case s.Entries():
                self.state.keep_only(message)
            case s.Welcome():
                self._is_welcome = True
                if message.compare:
                    have = self.state.have()
                    asked = m.Have(have={kind: have[kind] for kind in message.compare if kind in have})
                    self._write(frames.frame(_encode([asked])))
                if self._reports:
                    self._write(frames.frame(_encode(list(self._reports.values()))))
            case s.Refused():
                raise ConnectionError(message.reason)
            case s.Query():
                self._report(f"answer {message.id}", m.Answer(id=message.id, error="simulated"))

    # --- to the server --------------------------------------------------------------------------------------------

    def report(self, state: AgentState) -> None:
        subject = "start" if state.start_flag else "report"
        self._report(subject, m.Report(states=(state,), applied=self._position))

    def port_up(self, port_id: str, revision: int) -> None:
        self._report(port_id, m.PortUp(port_id=port_id, revision=revision))

    def _report(self, subject: str, report: m.HostReport) -> None:
        self._serial += 1
        before = self._reports.get(subject)
        if before is not None:
            self._subjects.pop(before.serial, None)
        sent = self._reports[subject] = msgspec.structs.replace(report, serial=self._serial)
        self._subjects[self._serial] = subject
        if self._is_welcome:
            if not self._unsent:  # what one frame of the server causes is sent together, as by the real client
                asyncio.get_running_loop().call_soon(self._flush)
            self._unsent.append(sent)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._is_welcome and not self._is_stuck:
            self._write(frames.frame(_encode(unsent)))
