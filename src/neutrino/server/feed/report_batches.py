"""What hosts say is done by one writer, and what comes while it writes is done together, next.

So a thousand hosts that report, or whose ports come up at once, are a few transactions. A host that says nothing but that
it is there can wait for others who do the same; whatever else is said is done at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.feed.messages import Report
from neutrino.server import errors
from neutrino.server.feed.reports import Heard, Said

AWAY = (errors.DatabaseUnreachable, sa.exc.OperationalError, sa.exc.InterfaceError)
MOST_HOSTS = 500  # in one go
Do = Callable[[Sequence[Heard]], Awaitable[list[list[str]]]]


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting:
    host: str
    said: Sequence[Said]
    done: asyncio.Future[list[str]]

    @property
    def can_wait(self) -> bool:
        return all(
            isinstance(one.message, Report) and not any(state.start_flag for state in one.message.states)
            for one in self.said
        )


class ReportBatches:
    def __init__(self, do: Do, patience: float) -> None:
        """`patience`: seconds that a plain report may wait."""
        self._do = do
        self._patience = patience
        self._waiting: list[_Waiting] = []
        self._batch: Sequence[_Waiting] = ()
        self._ended = False
        self._some = asyncio.Event()
        self._now = asyncio.Event()

    async def take(self, host: str, said: Sequence[Said]) -> list[str]:
        """Done with all of it: for each message why it was not done, or an empty text."""
        one = _Waiting(host, said, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
        self._some.set()
        if self._ended:
            one.done.cancel()
        if not one.can_wait:
            self._now.set()
        return await one.done

    async def run(self) -> None:
        """Be the writer, until cancelled."""
        try:
            await self._keep_writing()
        finally:  # whoever waits for an answer would wait for ever, and its connection could not be closed
            self._ended = True
            for one in (*self._batch, *self._waiting):
                one.done.cancel()

    async def _keep_writing(self) -> None:
        while True:
            await self._some.wait()
            if not self._now.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._now.wait(), self._patience)
            self._batch, self._waiting = self._waiting[:MOST_HOSTS], self._waiting[MOST_HOSTS:]
            if not self._waiting:
                self._some.clear()
                self._now.clear()
            await self._write(self._batch)

    async def _write(self, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._do([(one.host, one.said) for one in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(
                error, AWAY
            ):  # one of them is to blame, and only its host is to hear it
                for one in batch:
                    await self._write([one])
                return
            for one in batch:
                if not one.done.done():
                    one.done.set_exception(error)
            return
        for one, answer in zip(batch, answers, strict=True):
            if not one.done.done():  # it may have left meanwhile
                one.done.set_result(answer)
