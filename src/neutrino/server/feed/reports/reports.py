"""Reports of hosts: batched across hosts into few transactions, and written to the database.

`rules.py` has refused invalid messages before, and those on agents of other hosts. A report on a port that is not
bound to the host changes nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from neutrino.feed.messages import Answer, HostReport, PortDown, PortReady, PortUp, Problem, Report, Status, Traffic
from neutrino.model.agents import AgentState
from neutrino.server import errors
from neutrino.server.feed.reports.port_status import DistributedPortStatus
from neutrino.server.feed.reports.rules import one_line
from neutrino.server.hosts.registry import Registry
from neutrino.server.hosts.registry import Report as AgentReport
from neutrino.server.ml2.ports.provisioning import L2, Done, Provisioning

LOG = logging.getLogger(__name__)
AGENTS_PER_TRANSACTION = 200
HOSTS_PER_BATCH = 500
# Not the fault of one report: no report of the batch is acknowledged, and all its hosts reconnect and repeat theirs.
UNREACHABLE = (errors.DatabaseUnreachable, sa.exc.OperationalError, sa.exc.InterfaceError)
HostReports = tuple[str, Sequence[HostReport]]  # host, its reports
TakeStatus = Callable[[str, Status], object]  # takes the host and its message


def one_word(set_status: Callable[[str, str, str], object]) -> TakeStatus:
    """A handler of messages whose status is all that they have; `set_status` takes host, id and status."""
    return lambda host, message: set_status(host, message.id, message.status)


def is_heartbeat(report: HostReport) -> bool:
    """Whether a report can wait for those of other hosts: it says nothing but that the agents are alive."""
    return isinstance(report, Report) and not any(state.start_flag for state in report.states)


@dataclass(frozen=True)
class Reports:
    """Writes reports to the database; blocking."""

    agents: Registry
    reported: Callable[[AgentReport], Any]  # notifies schedulers
    ports: Provisioning | DistributedPortStatus
    statuses: Mapping[str, TakeStatus]  # by kind
    settle: Callable[[], Any] = lambda: None  # updates the ports that hosts need for distributed routers
    answered: Callable[[str, Answer], Any] = lambda host, answer: None  # takes the answers to queries
    metered: Callable[[str, Traffic], Any] = lambda host, traffic: None  # takes metering counters

    def write(self, batch: Sequence[HostReports]) -> list[list[str]]:
        """Write reports, each host's in its order; for each the reason of a refusal, or an empty text.

        Agent states of all hosts are written together, and so are consecutive `port_up` messages.
        """
        every = [(host, message) for host, messages in batch for message in messages]
        refusals = self._write_states([message for _, message in every if isinstance(message, Report)])
        others = [(host, message) for host, message in every if not isinstance(message, Report)]
        for is_up, run in groupby(others, lambda one: isinstance(one[1], PortUp) and not one[1].inactive):
            if is_up:
                self.ports.complete_all(
                    [Done(m.port_id, host, m.revision) for host, m in run if isinstance(m, PortUp)], L2
                )
            else:
                for host, message in run:
                    self._write_one(host, message)
        return [[refusals.get(host, "") if isinstance(m, Report) else "" for m in messages] for host, messages in batch]

    def _write_one(self, host: str, message: object) -> None:
        match message:
            case PortUp():  # of an inactive binding
                self.ports.plugged(message.port_id, host)
            case PortReady():
                self.ports.ready(message.port_id, message.revision, host)
            case PortDown():
                if self.ports.lost(message.port_id, host):
                    LOG.info("port %s is down on host %s: %s", message.port_id, host, one_line(message.reason))
            case Status():
                if take := self.statuses.get(message.kind):  # none without the plugin of the kind
                    take(host, message)
            case Traffic():
                self.metered(host, message)
            case Answer():
                self.answered(host, message)
            case Problem():
                subject = " ".join((message.kind, message.id)).strip() or "no object named"
                LOG.warning("host %s reports an error (%s): %s", host, one_line(subject), one_line(message.text))

    def _write_states(self, reports: Sequence[Report]) -> dict[str, str]:
        """Write the states of agents; by host the reason why one of them is not stored as it was sent."""
        newest: dict[tuple[str, str], AgentState] = {}
        for state in (state for report in reports for state in report.states):
            # The newest wins, but a start in an earlier one is kept: schedulers act on it.
            earlier = newest.get((state.agent_type, state.host))
            started = state.start_flag or (earlier is not None and earlier.start_flag)
            newest[state.agent_type, state.host] = replace(state, start_flag=started)
        every, refusals = list(newest.values()), dict[str, str]()
        for start in range(0, len(every), AGENTS_PER_TRANSACTION):
            for written in self.agents.report_all(every[start : start + AGENTS_PER_TRANSACTION]):
                if written.refusal:
                    refusals[written.host] = written.refusal
                self.reported(written)
        return refusals


@dataclass(frozen=True, eq=False, slots=True)
class _Waiting:
    host: str
    reports: Sequence[HostReport]
    done: asyncio.Future[list[str]]


class ReportBatches:
    """Batches the reports of all hosts: what arrives during a write is written together in the next one.

    So a thousand hosts that report, or whose ports come up at once, cost a few transactions. A plain heartbeat waits
    up to `delay` seconds for others; everything else is written at once.
    """

    def __init__(self, write: Callable[[Sequence[HostReports]], Awaitable[list[list[str]]]], delay: float) -> None:
        self._write = write
        self._delay = delay
        self._waiting: list[_Waiting] = []
        self._batch: Sequence[_Waiting] = ()
        self._is_closed = False
        self._some = asyncio.Event()
        self._urgent = asyncio.Event()

    async def take(self, host: str, reports: Sequence[HostReport]) -> list[str]:
        """Returns when all are written: for each the reason of a refusal, or an empty text."""
        one = _Waiting(host, reports, asyncio.get_running_loop().create_future())
        self._waiting.append(one)
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
            for one in (*self._batch, *self._waiting):
                one.done.cancel()

    async def _keep_writing(self) -> None:
        while True:
            await self._some.wait()
            if not self._urgent.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._urgent.wait(), self._delay)
            self._batch, self._waiting = self._waiting[:HOSTS_PER_BATCH], self._waiting[HOSTS_PER_BATCH:]
            if not self._waiting:
                self._some.clear()
                self._urgent.clear()
            await self._write_batch(self._batch)

    async def _write_batch(self, batch: Sequence[_Waiting]) -> None:
        try:
            answers = await self._write([(one.host, one.reports) for one in batch])
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
            if not one.done.done():  # the host may have disconnected meanwhile
                one.done.set_result(answer)
