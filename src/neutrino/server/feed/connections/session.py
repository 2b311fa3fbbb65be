"""One connection of a host: hello and comparison, then frames to the host and reports from it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import msgspec
import sqlalchemy as sa
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from neutrino.feed import messages as m
from neutrino.metrics.catalog import REPORTS, SENT_BYTES
from neutrino.model.agents import FEED_BEHIND
from neutrino.server import errors
from neutrino.server.feed.connections.credentials import HostCredential
from neutrino.server.feed.connections.turns import Turns
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.queues import Pending
from neutrino.server.feed.reports.rules import Statuses, one_line, refusal, without_oversized

LOG = logging.getLogger(__name__)
HELLO_SECONDS = 10.0
TURN_SECONDS = 2.0  # after which a host that reads slowly does not keep the next one from its comparison
READING_SECONDS = 0.005  # of a frame, above which its host waits before the next one
# Frames of a connection whose reports are not written yet: then the next one is not read. So a report that waits, as that
# of a port while many hosts get their snapshots, does not hold up that the agents are alive. A large one is waited for.
FRAMES_UNWRITTEN = 16
LARGE_FRAME = 65536  # bytes
MAX_LOGGED = 5  # refusals of one frame in the log
MAX_QUOTED = 200  # characters of a host's message in our answer
M = TypeVar("M", m.Hello, m.Have)
CatchUp = Callable[[int], Awaitable[bool]]
WriteReports = Callable[[str, Sequence[m.HostReport]], Awaitable[list[str]]]


class HostSession:
    def __init__(
        self,
        connection: ServerConnection,
        host: str,
        credential: HostCredential,
        fanout: Fanout,
        write: WriteReports,
        open_queries: Callable[[str], Iterable[m.Query]] = lambda host: (),
        turns: Turns | None = None,
        catch_up: CatchUp = lambda position: _never(),
        reading: asyncio.Lock | None = None,
        statuses: Statuses = MappingProxyType({}),
    ) -> None:
        """`turns` bounds the number of hosts whose state is compared and sent at the same time.

        `catch_up` waits until this process has read up to a position, for a bounded time; whether it has.
        `reading` is that of all connections of the host.
        """
        self._connection = connection
        self.host = host
        self.credential = credential
        self._fanout = fanout
        self._write = write
        self._open_queries = open_queries
        self._turns = turns
        self._catch_up = catch_up
        self._reading = reading or asyncio.Lock()
        self._statuses = statuses
        self._turn: asyncio.TimerHandle | None = None  # ends this host's turn
        self._due = asyncio.Event()
        self.pending = Pending(host, frozenset(), self._due.set)  # nothing is due before `hello`
        self._synced_position = 0  # of the last `synced`
        self._reported_lag = 0  # positions that the host had not applied at its last report
        self._queries: list[m.Query] = []  # to send
        self._room = asyncio.Semaphore(FRAMES_UNWRITTEN)
        self._writes: set[asyncio.Task[None]] = set()
        self.is_welcome = False  # `hello` was accepted
        self.on_welcome: Callable[[], object] = lambda: None
        self.on_refused: Callable[[str], object] = lambda reason: None

    async def run(self, server: str, database: str) -> None:
        try:
            await self._take_turn()
            hello = await self._hello()
            if hello is not None:
                LOG.info("host %s connected, release %s, roles %s", self.host, hello.release or "?", list(hello.roles))
                if await self._is_current(hello, database) and await self._compare(hello, server, database):
                    del hello  # its digests are large, and the connection is long
                    self._due.set()  # `synced` is sent also where nothing differs
                    self.is_welcome = True  # with the next line: a query is sent by it, or by the server from now on
                    self.ask(self._open_queries(self.host))
                    self.on_welcome()
                    await self._talk()
        except ConnectionClosed:
            pass
        finally:
            self._end_turn()
            self._fanout.disconnect(self.pending)
            LOG.info("host %s disconnected", self.host)

    async def _take_turn(self) -> None:
        """Wait until few others are compared: after a restart all hosts come at once, each with its digests in memory."""
        if self._turns is not None:
            await self._turns.take()
            self._turn = asyncio.get_running_loop().call_later(TURN_SECONDS, self._end_turn)

    def _end_turn(self) -> None:
        if self._turn is not None and self._turns is not None:
            self._turn.cancel()
            self._turn = None
            self._turns.end()

    async def _is_current(self, hello: m.Hello, database: str) -> bool:
        """Whether this process has read what the host has; False after a refusal.

        Comparing it with less would take the host back: without its new ports, and with rules that were deleted.
        """
        cursor = hello.cursor
        if cursor is None or not cursor.is_ahead_of(m.Cursor(database, self._fanout.position)):
            return True
        if await self._catch_up(cursor.position):
            return True
        await self._refuse(
            f"the host has position {cursor.position} of the database, which is at {self._fanout.position} here. "
            "If it was restored from a backup, run `neutrino db restored` on a server"
        )
        return False

    async def _compare(self, hello: m.Hello, server: str, database: str) -> bool:
        """Welcome the host, and queue what it does not have; False after a refusal."""
        roles, wake, differs = self.credential.roles, self._due.set, list[str]()
        if hello.sums is not None:
            self.pending, differs = self._fanout.resume(self.host, hello.sums, roles, wake)
        else:
            self.pending = self._fanout.connect(self.host, hello.have, roles, wake)
        self.pending.accepts_zlib = m.ZLIB in hello.accepts
        cursor, version = m.Cursor(database, self._fanout.position), min(hello.version, m.VERSION)
        await self._send([m.Welcome(cursor=cursor, version=version, server=server, compare=tuple(differs))])
        if differs:
            asked = await self._first(m.Have, "have")
            if asked is None:
                return False
            self._fanout.compare(self.pending, asked.have, differs)
        return True

    async def _hello(self) -> m.Hello | None:
        """The first message, or None after a refusal."""
        hello = await self._first(m.Hello, "hello")
        if hello is not None and (reason := self._fault(hello)):
            await self._refuse(reason)
            return None
        return hello

    async def _first(self, kind: type[M], name: str) -> M | None:
        """The next message, which has to be of this type, or None after a refusal."""
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                messages = m.read_from_host(await self._connection.recv())
            found = messages[0] if messages else None
            if isinstance(found, kind):
                return found
            reason = f"the first message has to be a {name}{f': {found}' if found is not None else ''}"
        except TimeoutError:
            reason = f"no {name} within {HELLO_SECONDS:g} s"
        except m.NotUnderstood as error:
            reason = str(error)
        await self._refuse(reason)
        return None

    def _fault(self, hello: m.Hello) -> str:
        """Why the first message is not accepted; empty if it is."""
        if hello.host != self.host:
            return f"the credential is that of host {self.host}, not of {hello.host}"
        if hello.version < m.OLDEST:
            return f"the host has protocol version {hello.version}, this server supports {m.OLDEST} to {m.VERSION}"
        if foreign := [role for role in hello.roles if role not in self.credential.roles]:
            has, wants = ",".join(self.credential.roles), ",".join(foreign)
            return (
                f"the credential of host {self.host} has the roles {has}, and not {wants[:MAX_QUOTED]}: "
                f"`neutrino host roles {self.host} --roles …` on the server changes them"
            )
        return ""

    async def _refuse(self, reason: str) -> None:
        LOG.warning("host %s is refused: %s", self.host, one_line(reason))
        self.on_refused(one_line(reason))
        await self._send([m.Refused(reason=reason)])
        await self._connection.close(1008, reason[:100])

    async def _send(self, messages: Sequence[m.Message]) -> None:
        await self._connection.send(m.encode(messages), text=True)

    async def close(self, reason: str) -> None:
        await self._connection.close(1012, reason)  # service restart: the host reconnects

    def ask(self, queries: Iterable[m.Query]) -> None:
        """Send queries, after everything that is due now: the host then answers with the newest state."""
        self._queries += queries
        if self._queries:
            self._due.set()

    async def _talk(self) -> None:
        sender = asyncio.create_task(self._send_frames())
        sender.add_done_callback(lambda ended: self._ended(ended, "sending"))
        try:
            async for data in self._connection:
                await self._receive(data)
                del data  # else it would be kept until the next frame
        except m.NotUnderstood as error:
            await self._refuse(str(error))
        finally:
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                await sender
            await asyncio.gather(*self._writes, return_exceptions=True)  # what the host sent last is written too

    # --- to the host ----------------------------------------------------------------------------------------------

    async def _send_frames(self) -> None:
        """Send what is due as fast as the host reads; what changes meanwhile joins the queue."""
        while True:
            await self._due.wait()
            self._due.clear()
            queries, self._queries = self._queries, []
            while not await self._send_frame():
                await asyncio.sleep(0)  # let other sessions run: a large snapshot must not hold them up
            if queries:
                await self._send(queries)

    async def _send_frame(self) -> bool:
        """Send the next frame; whether nothing was due after it.

        A coroutine of its own: one that waits for the next change would keep the last frame, of each of thousands of hosts.
        """
        data, is_last = self._fanout.next_frame(self.pending)
        if is_last:
            self._synced_position = self._fanout.position
        await self._connection.send(data, text=not m.is_compressed(data))
        if is_last:
            self._end_turn()
        SENT_BYTES.inc(by=len(data))
        return is_last

    def _ended(self, task: asyncio.Task[None], what: str) -> None:
        """After a failure force the host to reconnect, or it would stay connected and lack what was not done."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            if not isinstance(error, ConnectionClosed):
                LOG.error("%s failed for host %s, closing its connection", what, self.host, exc_info=error)
            self._connection.transport.abort()

    # --- from the host --------------------------------------------------------------------------------------------

    async def _read(self, data: bytes | str) -> tuple[list[m.HostReport], list[m.Message]]:
        """The reports of a frame that are to be written, and the answers to the others.

        A host gets a tenth of this thread's time, with all its connections together.
        """
        async with self._reading:
            began = time.thread_time()
            try:
                return self._check(m.read_from_host(data))
            finally:
                if (spent := time.thread_time() - began) > READING_SECONDS:
                    await asyncio.sleep(9 * spent)

    def _check(self, messages: Sequence[m.HostMessage | m.NotUnderstood]) -> tuple[list[m.HostReport], list[m.Message]]:
        accepted, answers, refused = list[m.HostReport](), list[m.Message](), list[str]()
        asked = {query.id for query in self._open_queries(self.host)} if _has_answer(messages) else set[str]()
        for message in messages:
            if isinstance(message, m.NotUnderstood):
                answers.append(m.ErrorMessage(text=str(message)))
                continue
            if isinstance(message, m.Hello | m.Have):
                continue
            if isinstance(message, m.Answer) and message.id not in asked:
                # Late, or nobody has asked: dropped before it costs decoding and a transaction. Not an error of the host.
                REPORTS.inc(str(message.__struct_config__.tag), "refused")
                LOG.debug("host %s: dropped an answer to a query that is not open", self.host)
                answers += _answer(message.serial, "")
                continue
            kept, left_out = without_oversized(message)
            if left_out:
                refused.append(left_out)
                answers.append(m.ErrorMessage(text=left_out))
            if reason := refusal(kept, self.host, self.credential.roles, self._statuses):
                REPORTS.inc(str(message.__struct_config__.tag), "refused")
                refused.append(reason)
                answers += _answer(message.serial, reason)
            else:
                if isinstance(message, m.Answer):
                    asked.discard(message.id)  # the first answer counts
                accepted.append(self._with_lag(kept) if isinstance(kept, m.Report) else kept)
        self._log_refused(refused)
        return accepted, answers

    async def _receive(self, data: bytes | str) -> None:
        """Have the reports of a frame written, in the order of frames."""
        accepted, answers = await self._read(data)
        if accepted:
            await self._room.acquire()
            write = asyncio.create_task(self._write_frame(accepted, answers))
            self._writes.add(write)
            write.add_done_callback(self._frame_written)
            if len(data) > LARGE_FRAME:
                await asyncio.wait([write])
        elif answers:
            await self._send(answers)

    async def _write_frame(self, accepted: Sequence[m.HostReport], answers: list[m.Message]) -> None:
        """Write reports, and acknowledge each once it is written or refused."""
        try:
            refusals = await self._write(self.host, accepted)
        except (sa.exc.SQLAlchemyError, errors.ApiError) as error:
            # Not acknowledged: the host sends its reports again in the next connection.
            LOG.error("reports of host %s could not be written, closing its connection: %s", self.host, error)
            await self._connection.close(1011, "the database cannot be reached")
            return
        for message, reason in zip(accepted, refusals, strict=True):
            REPORTS.inc(str(message.__struct_config__.tag), "refused" if reason else "accepted")
            answers += _answer(message.serial, reason)
        self._log_refused([reason for reason in refusals if reason])
        await self._send(answers)

    def _frame_written(self, write: asyncio.Task[None]) -> None:
        self._writes.discard(write)
        self._room.release()
        self._ended(write, "writing reports")

    def _log_refused(self, reasons: Sequence[str]) -> None:
        """The first ones of a frame: a host must not fill the log."""
        for reason in reasons[:MAX_LOGGED]:
            LOG.warning("host %s: %s", self.host, reason)
        if len(reasons) > MAX_LOGGED:
            LOG.warning("host %s: %d more of its reports are refused", self.host, len(reasons) - MAX_LOGGED)

    def lag(self) -> int:
        """The positions that the host has not received or, by its last report, had not applied then."""
        unsent = max(self._fanout.position - self._synced_position, 0) if self.pending else 0
        return max(unsent, self._reported_lag)

    def _with_lag(self, report: m.Report) -> m.Report:
        """A report whose agents show how many positions the host has not applied; changes out of its scope do not count."""
        applied = report.applied or 0
        is_current = not self.pending and applied >= self._synced_position
        self._reported_lag = 0 if is_current else max(self._fanout.position - applied, 0)
        behind = {FEED_BEHIND: self._reported_lag}
        states = tuple(replace(state, configurations={**state.configurations, **behind}) for state in report.states)
        return msgspec.structs.replace(report, states=states)


async def _never() -> bool:
    return False


def _answer(serial: int, reason: str) -> list[m.Message]:
    """A refused report is acknowledged too: it would be refused again each time the host repeats it."""
    return [m.ErrorMessage(text=reason), m.Ack(serial=serial)] if reason else [m.Ack(serial=serial)]


def _has_answer(messages: Sequence[m.HostMessage | m.NotUnderstood]) -> bool:
    return any(isinstance(message, m.Answer) for message in messages)
