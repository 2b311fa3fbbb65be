"""One host's connection, from its hello to its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from neutrino.feed.messages import (
    FROM_HOST,
    OLDEST,
    VERSION,
    Ack,
    Cursor,
    Hello,
    Message,
    NotUnderstood,
    Problem,
    Reader,
    Refused,
    Report,
    Welcome,
    encode,
)
from neutrino.server import errors
from neutrino.server.feed.credentials import Known
from neutrino.server.feed.fanout import Fanout
from neutrino.server.feed.pending import Pending
from neutrino.server.feed.report_rules import refusal
from neutrino.server.feed.reports import Said
from neutrino.server.feed.telling import compare, next_and_synced

LOG = logging.getLogger(__name__)
HELLO_SECONDS = 10.0
MOST_WORDS = 200  # of a host, in an answer
READER: Final = Reader(FROM_HOST)
Take = Callable[[str, Sequence[Said]], Awaitable[list[str]]]


class Session:
    def __init__(self, connection: ServerConnection, host: str, known: Known, world: Fanout, take: Take) -> None:
        self._connection = connection
        self.host = host
        self.known = known  # the credential that it came with
        self._world = world
        self._take = take
        self._wake = asyncio.Event()
        self.outgoing = Pending(host, self._wake.set, known.roles)
        self._told = 0  # the position of the last `synced`

    async def run(self, server: str, database: str) -> None:
        try:
            if await self._begin(server, database):
                await self._talk()
        except ConnectionClosed:
            pass
        except (sa.exc.SQLAlchemyError, errors.ApiError) as error:
            LOG.error("what host %s said could not be done, it will say it again: %s", self.host, error)
            await self._connection.close(1011, "the database cannot be reached")
        finally:
            self._world.unwatch(self.outgoing)
            LOG.info("host %s is gone", self.host)

    async def _begin(self, server: str, database: str) -> bool:
        """Greet, and note in what the host differs. What it says that it has is large, and not kept longer than this."""
        hello = await self._hello()
        if hello is None:
            return False
        LOG.info("host %s is here, release %s, roles %s", self.host, hello.release or "?", list(hello.roles))
        self._world.watch(self.outgoing)
        compare(self._world, self.outgoing, hello.have)
        self._wake.set()  # `synced` follows also where nothing differs
        cursor = Cursor(database, self._world.position)
        await self._send([Welcome(cursor=cursor, version=min(hello.version, VERSION), server=server)])
        return True

    async def _talk(self) -> None:
        telling = asyncio.create_task(self._tell())
        telling.add_done_callback(self._ended)
        try:
            async for data in self._connection:
                await self._hear(READER.read(data))
        except NotUnderstood as error:
            await self._refuse(str(error))
        finally:
            telling.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionClosed):
                await telling

    def _ended(self, telling: asyncio.Task[None]) -> None:
        """Without one who tells, the host must come again."""
        error = None if telling.cancelled() else telling.exception()
        if error is not None:
            if not isinstance(error, ConnectionClosed):
                LOG.error("host %s cannot be told what is new", self.host, exc_info=error)
            self._connection.transport.abort()

    async def close(self, reason: str) -> None:
        await self._connection.close(1012, reason)

    async def _hello(self) -> Hello | None:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                first = READER.read(await self._connection.recv())
        except TimeoutError:
            await self._refuse("no hello came")
            return None
        except NotUnderstood as error:
            await self._refuse(str(error))
            return None
        hello = first[0] if first else None
        if not isinstance(hello, Hello):
            await self._refuse(f"the first message has to be a hello{f': {hello}' if hello is not None else ''}")
        elif hello.host != self.host:
            await self._refuse(f"the credential is that of host {self.host}, not of {hello.host}")
        elif hello.version < OLDEST:
            await self._refuse(f"the host speaks version {hello.version}, this server {OLDEST} to {VERSION}")
        elif foreign := [role for role in hello.roles if role not in self.known.roles]:
            has, wants = ",".join(self.known.roles), ",".join(foreign)
            await self._refuse(
                f"the credential of host {self.host} has the roles {has}, and not {wants[:MOST_WORDS]}: "
                f"`neutrino host roles {self.host} --roles …` on the server changes them"
            )
        else:
            return hello
        return None

    async def _refuse(self, reason: str) -> None:
        LOG.warning("host %s is refused: %s", self.host, reason)
        await self._send([Refused(reason=reason)])
        await self._connection.close(1008, reason[:100])

    async def _send(self, messages: Sequence[Message]) -> None:
        await self._connection.send(encode(messages), text=True)

    # --- telling --------------------------------------------------------------------------------------------------

    async def _tell(self) -> None:
        """Tell what waits, at the pace at which the host reads; what changes meanwhile waits with the rest."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            is_last = False
            while not is_last:
                data, is_last = next_and_synced(self._world, self.outgoing)
                if is_last:
                    self._told = self._world.position
                await self._connection.send(data, text=True)
                await asyncio.sleep(0)  # the other hosts' turn

    # --- hearing --------------------------------------------------------------------------------------------------

    async def _hear(self, messages: Sequence[Any]) -> None:
        """Do what the host says, and say so when it is done. If it cannot be done, the host says it again later."""
        understood, answers = [], list[Message]()
        for message in messages:
            if isinstance(message, NotUnderstood):
                answers.append(Problem(text=str(message)))
            elif isinstance(message, Hello):
                continue
            elif reason := refusal(message, self.host, self.known.roles):
                LOG.warning("host %s: %s", self.host, reason)
                answers += [Problem(text=reason), Ack(serial=message.serial)]
            else:
                understood.append(Said(message, self._behind(message) if isinstance(message, Report) else 0))
        if understood:
            refusals = await self._take(self.host, understood)
            for said, reason in zip(understood, refusals, strict=True):
                if reason:
                    LOG.warning("host %s: %s", self.host, reason)
                    answers.append(Problem(text=reason))
                answers.append(Ack(serial=said.message.serial))
        if answers:
            await self._send(answers)

    def _behind(self, report: Report) -> int:
        """How many positions the host has still to carry out; changes that are none of its business do not count."""
        applied = report.applied or 0
        if not self.outgoing and applied >= self._told:
            return 0
        return max(self._world.position - applied, 0)
