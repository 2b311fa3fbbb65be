"""Queues of reports: batched across hosts into few transactions, and fair between hosts.

A report goes into one of three lanes, which are written independently:

- heartbeats: the states of agents, so that no other report can make an agent look dead;
- bulk: counters of metering labels, ports and tunnels, of which one report may have tens of thousands;
- the others, such as the status of ports.

In each lane what arrives during a write is written together in the next one, of each host at most SHARE reports, host by
host in turn, whatever its number of connections. So a thousand hosts that report, or whose ports come up at once, cost a
few transactions, and a host with many reports delays its own alone.

While many hosts wait for their first snapshot, the lanes wait too, for a bounded time, and what is no heartbeat is then
written for a few hosts alone: a write takes processor time from the one thread that sends snapshots, and an ACTIVE port is
of less use than a host that has its state.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import sqlalchemy as sa

from neutrino.feed.messages import HostReport, Rates, Report, Traffic
from neutrino.server import errors

SHARE: Final = 100  # reports of one host in one write
HOSTS_PER_BATCH: Final = 500
# The same while many hosts wait for their snapshots: twenty ports each of 500 hosts take seconds of processor time, with
# the changes that they cause.
HOSTS_IN_STORM: Final = 50
# Seconds that a write waits at most while many hosts wait for their snapshots: agents of thousands must not look dead.
PATIENCE: Final = 10.0
HEARTBEAT_PATIENCE: Final = 0.5
# Not the fault of one report: no report of the batch is acknowledged, and all its hosts reconnect and repeat theirs.
UNREACHABLE = (errors.DatabaseUnreachable, errors.DatabaseNotWritable, sa.exc.OperationalError, sa.exc.InterfaceError)
HostReports = tuple[str, Sequence[HostReport]]  # host, its reports
# For each host the answers to its reports: the reason of a refusal, or an empty text. Of a host whose time is up, to fewer
# than all of them, and to at least one.
Write = Callable[[Sequence[HostReports]], Awaitable[list[list[str]]]]
# Until it is a good moment for a write, for so many seconds at most; whether it is one.
Wait = Callable[[float], Awaitable[bool]]


def is_heartbeat(report: HostReport) -> bool:
    """Whether a report can wait for those of other hosts: it says nothing but that the agents are alive."""
    return isinstance(report, Report) and not any(state.start_flag for state in report.states)


@dataclass(eq=False, slots=True)
class _Waiting:
    """Reports of a host that arrived together."""

    host: str
    reports: Sequence[HostReport]
    done: asyncio.Future[list[str]]
    answers: list[str] = field(default_factory=list)  # to the first ones, which are written

    def next(self) -> HostReports:
        start = len(self.answers)
        return self.host, self.reports[start : start + SHARE]


def _from_left(several: deque[_Waiting]) -> Iterator[_Waiting]:
    """Take from the left."""
    while several:
        yield several.popleft()


class ReportBatches:
    """One lane. A plain heartbeat waits up to `delay` seconds for others; everything else is written at once.

    `patience`: seconds that a write waits for a good moment; `in_storm`: how many hosts it is for if there was none.
    """

    def __init__(
        self, write: Write, delay: float, calm: Wait, patience: float = PATIENCE, in_storm: int = HOSTS_IN_STORM
    ) -> None:
        self._write = write
        self._delay = delay
        self._calm = calm
        self._patience = patience
        self._in_storm = in_storm
        self._waiting: dict[str, deque[_Waiting]] = {}  # by host, in the order in which it is their turn
        self._batch: Sequence[_Waiting] = ()
        self._is_closed = False
        self._some = asyncio.Event()
        self._urgent = asyncio.Event()

    async def take(self, host: str, reports: Sequence[HostReport]) -> list[str]:
        """Returns when all are written: for each the reason of a refusal, or an empty text."""
        one = _Waiting(host, reports, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(host, deque()).append(one)
        self._some.set()
        if self._is_closed:  # `run` has ended and would never write it
            one.done.cancel()
        if not all(map(is_heartbeat, reports)):
            self._urgent.set()
        return await one.done

    async def run(self) -> None:
        """Write batches until cancelled."""
        try:
            await self._keep_writing()
        finally:  # a session that waits for an answer could not be closed
            self._is_closed = True
            for one in (*self._batch, *(one for several in self._waiting.values() for one in several)):
                one.done.cancel()

    async def _keep_writing(self) -> None:
        while True:
            await self._some.wait()
            if not self._urgent.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), self._delay)
            is_calm = await self._calm(self._patience)
            self._batch = self._next_batch(HOSTS_PER_BATCH if is_calm else self._in_storm)
            if not self._waiting:
                self._some.clear()
                self._urgent.clear()
            await self._write_batch(self._batch)
            self._requeue(self._batch)

    def _next_batch(self, most: int) -> list[_Waiting]:
        """What arrived first of each host whose turn it is; the host is then behind all others."""
        batch = []
        for host in list(self._waiting)[:most]:
            several = self._waiting.pop(host)
            # A report of a connection that has ended is not acknowledged: the host repeats it.
            first = next((one for one in _from_left(several) if not one.done.done()), None)
            if first is not None:
                batch.append(first)
            if several:
                self._waiting[host] = several
        return batch

    def _requeue(self, batch: Sequence[_Waiting]) -> None:
        """What is not written whole comes first of its host, in its order."""
        for one in batch:
            if not one.done.done():
                self._waiting.setdefault(one.host, deque()).appendleft(one)
                self._some.set()
                self._urgent.set()

    async def _write_batch(self, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._write([one.next() for one in batch])
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, UNREACHABLE):
                for one in batch:  # one by one: only the host whose report fails gets the error
                    await self._write_batch([one])
                return
            for one in batch:
                if not one.done.done():
                    one.done.set_exception(error)
            return
        for one, answer in zip(batch, answers, strict=True):
            one.answers += answer
            if len(one.answers) >= len(one.reports) and not one.done.done():  # the host may have disconnected meanwhile
                one.done.set_result(one.answers)


class ReportLanes:
    """The lanes, each with a task of its own."""

    def __init__(self, write: Write, delay: float, calm: Wait) -> None:
        self._heartbeats = ReportBatches(write, delay, calm, HEARTBEAT_PATIENCE, HOSTS_PER_BATCH)
        self._others, self._bulk = (ReportBatches(write, delay, calm) for _ in range(2))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for lane in (self._heartbeats, self._others, self._bulk):
                group.create_task(lane.run())

    async def take(self, host: str, reports: Sequence[HostReport]) -> list[str]:
        """Returns when all are written: for each the reason of a refusal, or an empty text."""
        places: dict[ReportBatches, list[int]] = {}
        for place, report in enumerate(reports):
            places.setdefault(self._lane(report), []).append(place)
        taken = (lane.take(host, [reports[place] for place in some]) for lane, some in places.items())
        answers = [""] * len(reports)
        for some, of_lane in zip(places.values(), await asyncio.gather(*taken), strict=True):
            for place, answer in zip(some, of_lane, strict=True):
                answers[place] = answer
        return answers

    def _lane(self, report: HostReport) -> ReportBatches:
        match report:
            case Report():
                return self._heartbeats
            case Traffic() | Rates():
                return self._bulk
        return self._others
