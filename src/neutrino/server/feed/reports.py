"""Reports of hosts: batched across hosts into few transactions, and written to the database.

A host reports on itself only: a report on another host's agent is refused, one on a port that is not bound to it changes
nothing.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol

import sqlalchemy as sa

from neutrino.feed.messages import PortDown, PortReady, PortUp, Problem, Report, Status
from neutrino.model.agents import FEED_BEHIND, AgentState, BadReport, checked
from neutrino.server import errors
from neutrino.server.hosts import registry
from neutrino.server.l3.reports import RouterReports
from neutrino.server.ml2.ports.provisioning import L2, Done

LOG = logging.getLogger(__name__)
MAX_TEXT = 2000
AGENTS_PER_TRANSACTION = 200
HOSTS_PER_BATCH = 500
UNREACHABLE = (errors.DatabaseUnreachable, sa.exc.OperationalError, sa.exc.InterfaceError)


@dataclass(frozen=True, eq=False, slots=True)
class HostReport:
    message: Any
    behind: int = 0  # positions of the change log that the host has not applied

    @property
    def is_heartbeat(self) -> bool:
        """Whether it can wait for others: it says nothing but that the agents are alive."""
        return isinstance(self.message, Report) and not any(state.start_flag for state in self.message.states)


HostReports = tuple[str, Sequence[HostReport]]  # host, its reports


class PortStatus(Protocol):
    def complete_all(self, done: Iterable[Done], component: str) -> set[str]: ...
    def ready(self, port_id: str, component: str, revision: int, host: str) -> bool: ...
    def lost(self, port_id: str, host: str) -> bool: ...


class Reports:
    """Writes reports to the database; blocking."""

    def __init__(
        self,
        agents: registry.Registry,
        reported: Callable[[registry.Report], Any],
        ports: PortStatus,
        statuses: RouterReports,
        settle: Callable[[], Any] = lambda: None,
    ) -> None:
        """`reported` notifies schedulers; `settle` updates the ports that hosts need for distributed routers."""
        self.settle = settle
        self._agents = agents
        self._reported = reported
        self._ports = ports
        self._statuses = statuses

    def write(self, batch: Sequence[HostReports]) -> list[list[str]]:
        """Write reports, each host's in its order; for each the reason of a refusal, or an empty text.

        Agent states of all hosts are written together, and so are consecutive `port_up` messages.
        """
        answers: dict[int, str] = {}
        states, others = list[tuple[str, HostReport]](), list[tuple[str, HostReport]]()
        for host, reports in batch:
            for report in reports:
                (states if isinstance(report.message, Report) else others).append((host, report))
        for (_, report), answer in zip(states, self._write_states(states), strict=True):
            answers[id(report)] = answer
        for is_up, run in groupby(others, lambda one: isinstance(one[1].message, PortUp)):
            if is_up:
                up = ((host, report.message) for host, report in run)
                self._ports.complete_all([Done(m.port_id, host, m.revision) for host, m in up], L2)
            else:
                for host, report in run:
                    self._write_one(host, report.message)
        return [[answers.get(id(report), "") for report in reports] for _, reports in batch]

    def _write_one(self, host: str, message: object) -> None:
        match message:
            case PortReady():
                self._ports.ready(message.port_id, message.component, message.revision, host)
            case PortDown():
                if self._ports.lost(message.port_id, host):
                    LOG.info("port %s is down on host %s: %s", message.port_id, host, _one_line(message.reason))
            case Status():
                self._statuses.set_status(host, message.kind, message.id, message.status)
            case Problem():
                subject = " ".join((message.kind, message.id)).strip() or "no object named"
                LOG.warning("host %s reports an error (%s): %s", host, _one_line(subject), _one_line(message.text))

    def _write_states(self, reports: Sequence[tuple[str, HostReport]]) -> list[str]:
        answers = []
        valid: dict[tuple[str, str], AgentState] = {}
        for host, report in reports:
            try:
                states = _checked(host, report)
            except (BadReport, ForeignReport) as error:
                answers.append(str(error))
                continue
            answers.append("")
            for state in states:
                # The newest wins, but a start in an earlier one is kept: schedulers act on it.
                earlier = valid.get((state.agent_type, host))
                started = state.start_flag or (earlier is not None and earlier.start_flag)
                valid[state.agent_type, host] = replace(state, start_flag=started)
        every = list(valid.values())
        refusals: dict[str, str] = {}  # by host
        for start in range(0, len(every), AGENTS_PER_TRANSACTION):
            for written in self._agents.report_all(every[start : start + AGENTS_PER_TRANSACTION]):
                if written.refusal:
                    refusals[written.host] = written.refusal
                self._reported(written)
        return [answer or refusals.get(host, "") for answer, (host, _) in zip(answers, reports, strict=True)]


class ForeignReport(ValueError):
    """A host reports on an agent of another host."""


def _checked(host: str, report: HostReport) -> list[AgentState]:
    """The states of a host's agents to be stored, or BadReport, or ForeignReport."""
    states = report.message.states
    foreign = {state.host for state in states} - {host}
    if foreign:
        raise ForeignReport(f"host {host} cannot report for {', '.join(sorted(foreign))}")
    return [checked(replace(s, configurations={**s.configurations, FEED_BEHIND: report.behind})) for s in states]


def _one_line(text: str) -> str:
    """Text of a host for our log: without line breaks, so that it cannot fake log lines."""
    return " ".join(text.split())[:MAX_TEXT]


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
        if self._is_closed:
            one.done.cancel()
        if not all(report.is_heartbeat for report in reports):
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
