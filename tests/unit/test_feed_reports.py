"""What many hosts say at once: written together, in each one's order, and nobody suffers for another's nonsense."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from neutrino.feed.messages import PortDown, PortUp, Problem, Report
from neutrino.model.agents import FEED_BEHIND, OVS, AgentState, AgentStatus
from neutrino.server import errors
from neutrino.server.feed.reports import HostReport, HostReports, ReportBatches, Reports
from neutrino.server.hosts import registry
from neutrino.server.ml2.ports.provisioning import Done

UP = [HostReport(PortUp(serial=1, port_id="p"))]


def state(host: str, *, started: bool = False, **said: Any) -> AgentState:
    return AgentState(OVS, "neutrino-agent", host, "N/A", configurations=said, start_flag=started)


def report(host: str, *, started: bool = False) -> list[HostReport]:
    return [HostReport(Report(serial=1, states=(state(host, started=started),)))]


class Writer:
    """Writes when it is let, and remembers what came together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may = asyncio.Event()
        self.fails: dict[str, Exception] = {}

    async def __call__(self, several: Sequence[HostReports]) -> list[list[str]]:
        self.batches.append([host for host, _ in several])
        await self.may.wait()
        for host, _ in several:
            if host in self.fails:
                raise self.fails[host]
        return [[""] * len(said) for _, said in several]


@contextlib.asynccontextmanager
async def batches(writer: Writer, delay: float = 3600.0) -> AsyncIterator[ReportBatches]:
    made = ReportBatches(writer, delay)
    running = asyncio.create_task(made.run())
    try:
        async with asyncio.timeout(20):
            yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def turns() -> None:
    """Everybody who can go on does."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_comes_while_it_writes_is_written_together() -> None:
    async def test() -> None:
        writer = Writer()
        async with batches(writer) as batch:
            first = asyncio.create_task(batch.take("h1", UP))
            await turns()
            rest = [asyncio.create_task(batch.take(f"h{i}", UP)) for i in range(2, 6)]
            await turns()
            assert writer.batches == [["h1"]]
            writer.may.set()
            assert await asyncio.gather(first, *rest) == [[""]] * 5
        assert writer.batches == [["h1"], ["h2", "h3", "h4", "h5"]]

    asyncio.run(test())


def test_only_a_plain_report_waits_for_others() -> None:
    async def test() -> None:
        writer = Writer()
        writer.may.set()
        async with batches(writer) as batch:
            plain = [asyncio.create_task(batch.take(f"h{i}", report(f"h{i}"))) for i in range(3)]
            await turns()
            assert writer.batches == []
            await batch.take("new", report("new", started=True))
            await asyncio.gather(*plain)
        assert writer.batches == [["h0", "h1", "h2", "new"]]
        async with batches(writer, delay=0.01) as batch:
            assert await batch.take("h1", report("h1")) == [""]

    asyncio.run(test())


def test_one_that_cannot_be_written_is_alone_with_that() -> None:
    async def test() -> None:
        writer = Writer()
        writer.may.set()
        writer.fails = {"bad": errors.InvalidInput("a value beyond all bounds")}
        async with batches(writer) as batch:
            taken = [asyncio.create_task(batch.take(host, UP)) for host in ("h1", "bad", "h2")]
            done = await asyncio.gather(*taken, return_exceptions=True)
        assert [done[0], done[2]] == [[""], [""]]
        assert isinstance(done[1], errors.InvalidInput)

    asyncio.run(test())


def test_without_the_database_nobody_is_told_that_it_is_done() -> None:
    async def test() -> None:
        writer = Writer()
        writer.may.set()
        writer.fails = {"h1": errors.DatabaseUnreachable()}
        async with batches(writer) as batch:
            taken = [asyncio.create_task(batch.take(host, UP)) for host in ("h1", "h2")]
            done = await asyncio.gather(*taken, return_exceptions=True)
            assert all(isinstance(one, errors.DatabaseUnreachable) for one in done)
            assert len(writer.batches) == 1
            writer.fails = {}
            assert await batch.take("h2", UP) == [""]

    asyncio.run(test())


def test_a_host_that_left_meanwhile_keeps_nobody() -> None:
    async def test() -> None:
        writer = Writer()
        async with batches(writer) as batch:
            taken = [asyncio.create_task(batch.take(host, UP)) for host in ("h1", "h2")]
            await turns()
            taken[0].cancel()
            writer.may.set()
            assert await taken[1] == [""]

    asyncio.run(test())


# --- what is done with it ---------------------------------------------------------------------------------------------


class Agents:
    def __init__(self) -> None:
        self.written: list[list[AgentState]] = []

    def report_all(self, states: Sequence[AgentState]) -> list[registry.Report]:
        self.written.append(list(states))
        return [registry.Report(s.host, s.agent_type, s.host, AgentStatus.ALIVE, s.start_flag) for s in states]


class Ports:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def complete_all(self, done: Sequence[Done], component: str) -> set[str]:
        self.calls.append(list(done))
        return set()

    def ready(self, port_id: str, component: str, revision: int, host: str) -> bool:
        raise AssertionError

    def lost(self, port_id: str, host: str) -> bool:
        self.calls.append((port_id, host))
        return True


class Statuses:
    def set_status(self, host: str, kind: str, key: str, status: str) -> bool:
        raise AssertionError


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def ports() -> Ports:
    return Ports()


@pytest.fixture
def reports(agents: Agents, ports: Ports) -> Reports:
    return Reports(agents, lambda report: None, ports, Statuses())


def test_ports_that_come_up_are_taken_together_and_in_order(reports: Reports, ports: Ports) -> None:
    first = [
        HostReport(PortUp(serial=1, port_id="a", revision=3)),
        HostReport(PortUp(serial=2, port_id="b", revision=4)),
    ]
    second = [HostReport(PortUp(serial=1, port_id="b", revision=9)), HostReport(PortDown(serial=2, port_id="c"))]
    third = [HostReport(PortUp(serial=1, port_id="c", revision=1)), HostReport(Problem(serial=2, text="no"))]
    assert reports.write([("h1", first), ("h2", second), ("h3", third)]) == [["", ""]] * 3
    assert ports.calls == [[("a", "h1", 3), ("b", "h1", 4), ("b", "h2", 9)], ("c", "h2"), [("c", "h3", 1)]]


def test_reports_of_all_hosts_are_one_write_without_what_is_wrong(reports: Reports, agents: Agents) -> None:
    behind = [HostReport(Report(serial=1, states=(state("h1", devices=1),)), behind=7)]
    foreign = [HostReport(Report(serial=1, states=(state("h1"),)))]
    wrong = [HostReport(Report(serial=1, states=(state("h3", bad=object()),)))]
    answers = reports.write([("h1", behind), ("h2", foreign), ("h3", wrong), ("h4", report("h4", started=True))])
    assert [bool(answer) for (answer,) in answers] == [False, True, True, False]
    assert "h2 cannot report for h1" in answers[1][0]
    (written,) = agents.written
    assert [(s.host, s.configurations[FEED_BEHIND], s.start_flag) for s in written] == [
        ("h1", 7, False),
        ("h4", 0, True),
    ]


def test_a_start_is_not_lost_behind_the_next_report(reports: Reports, agents: Agents) -> None:
    reports.write([("h1", [*report("h1", started=True), *report("h1")])])
    ((only,),) = agents.written
    assert only.start_flag
