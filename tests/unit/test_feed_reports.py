"""Reports of many hosts: batched, in each host's order, one host's invalid report not affecting others."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from neutrino.feed.messages import ErrorMessage, PortDown, PortReady, PortUp, Report, Traffic
from neutrino.model.agents import OVS, AgentState, AgentStatus
from neutrino.server import errors
from neutrino.server.feed.reports import batches as lanes
from neutrino.server.feed.reports.batches import HostReports, ReportBatches, ReportLanes, Wait
from neutrino.server.feed.reports.reports import HOST_SECONDS, Reports
from neutrino.server.hosts import registry
from neutrino.server.ml2.ports.provisioning import Done, Ready

UP = [PortUp(serial=1, port_id="p")]


def state(host: str, *, started: bool = False, **configurations: Any) -> AgentState:
    return AgentState(OVS, "neutrino-agent", host, "N/A", configurations=configurations, start_flag=started)


def report(host: str, *, started: bool = False) -> list[Report]:
    return [Report(serial=1, states=(state(host, started=started),))]


class Writer:
    """Writes when allowed, and records the batches."""

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
        return [[""] * len(reports) for _, reports in several]


async def at_once(seconds: float) -> bool:
    return True


async def in_storm(seconds: float) -> bool:
    """Time is up, and many hosts still wait for their snapshots."""
    return False


@contextlib.asynccontextmanager
async def batches(writer: Writer, delay: float = 3600.0, calm: Wait = at_once) -> AsyncIterator[ReportBatches]:
    made = ReportBatches(writer, delay, calm)
    running = asyncio.create_task(made.run())
    try:
        async with asyncio.timeout(20):
            yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def turns() -> None:
    """Let all tasks run that can."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_reports_during_a_write_are_written_together() -> None:
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


def test_only_a_heartbeat_waits_for_others() -> None:
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


def test_reports_wait_for_a_calm_moment() -> None:
    async def test() -> None:
        writer, calm = Writer(), asyncio.Event()
        writer.may.set()

        async def is_calm(seconds: float) -> bool:
            return await calm.wait()

        async with batches(writer, calm=is_calm) as batch:
            taken = [asyncio.create_task(batch.take(host, UP)) for host in ("h1", "h2")]
            await turns()
            assert writer.batches == []
            taken.append(asyncio.create_task(batch.take("h3", UP)))
            await turns()
            calm.set()
            await asyncio.gather(*taken)
        assert writer.batches == [["h1", "h2", "h3"]]

    asyncio.run(test())


def test_only_the_host_whose_report_fails_gets_the_error() -> None:
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


def test_nothing_is_acknowledged_without_the_database() -> None:
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


def test_a_host_that_disconnects_does_not_block_the_batch() -> None:
    async def test() -> None:
        writer = Writer()
        async with batches(writer) as batch:
            taken = [asyncio.create_task(batch.take(host, UP)) for host in ("h1", "h2")]
            await turns()
            taken[0].cancel()
            writer.may.set()
            assert await taken[1] == [""]

    asyncio.run(test())


class Sizes:
    """Records how many reports of each host are written at once; of a host in `slow` one at a time."""

    def __init__(self, *slow: str) -> None:
        self.batches: list[dict[str, int]] = []
        self._slow = slow

    async def __call__(self, several: Sequence[HostReports]) -> list[list[str]]:
        written = [reports[:1] if host in self._slow else reports for host, reports in several]
        self.batches.append({host: len(some) for (host, _), some in zip(several, written, strict=True)})
        await asyncio.sleep(0)
        return [[str(getattr(each, "serial", 0)) for each in some] for some in written]


def downs(count: int) -> list[PortDown]:
    return [PortDown(serial=i, port_id="p") for i in range(count)]


def test_many_reports_of_one_host_are_written_in_shares() -> None:
    async def test() -> None:
        writer = Sizes()
        async with batches(writer) as batch:
            many = [asyncio.create_task(batch.take("h1", downs(1000))) for _ in range(16)]  # on all its connections
            await turns()
            done = len(writer.batches)
            assert await batch.take("h2", downs(2)) == ["0", "1"]
            assert len(writer.batches) <= done + 2
            assert await asyncio.gather(*many) == [[str(i) for i in range(1000)]] * 16
        assert max(sizes["h1"] for sizes in writer.batches if "h1" in sizes) == lanes.SHARE

    asyncio.run(test())


def test_what_a_write_leaves_is_written_by_the_next_one_in_order() -> None:
    async def test() -> None:
        async with batches(Sizes("h1")) as batch:
            first, second = (asyncio.create_task(batch.take("h1", downs(count))) for count in (5, 3))
            assert await second == ["0", "1", "2"]
            assert first.done()
            assert await first == [str(i) for i in range(5)]

    asyncio.run(test())


def test_heartbeats_and_metering_counters_have_lanes_of_their_own() -> None:
    class Blocking(Sizes):
        async def __call__(self, several: Sequence[HostReports]) -> list[list[str]]:
            if any(isinstance(each, PortDown | Traffic) for _, some in several for each in some):
                await asyncio.Event().wait()
            return await super().__call__(several)

    async def test() -> None:
        made = ReportLanes(Blocking(), 0.0, at_once)
        running = asyncio.create_task(made.run())
        for report_ in (PortDown(port_id="p"), Traffic()):
            stuck = asyncio.create_task(made.take("h1", [report_]))
            await turns()
            assert not stuck.done()
        # Of the same host too, and of others.
        assert await made.take("h1", report("h1")) == ["1"]
        assert await made.take("h2", report("h2")) == ["1"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(test(), 20))


def test_heartbeats_wait_for_a_calm_moment_only_briefly() -> None:
    async def test() -> None:
        waits: list[float] = []

        async def calm(seconds: float) -> bool:
            waits.append(seconds)
            return True

        made = ReportLanes(Sizes(), 0.0, calm)
        running = asyncio.create_task(made.run())
        await made.take("h1", report("h1"))
        await made.take("h1", UP)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        heartbeat, port = waits
        # With a write of so many hosts each time, the agents of 30,000 hosts do not look dead (agent_down_time).
        assert 30_000 / lanes.HOSTS_PER_BATCH * heartbeat < 75 < 30_000 / lanes.HOSTS_PER_BATCH * port

    asyncio.run(asyncio.wait_for(test(), 20))


def test_in_a_storm_ports_are_written_for_a_few_hosts_at_a_time_and_heartbeats_for_all() -> None:
    count = 2 * lanes.HOSTS_IN_STORM

    async def test() -> None:
        writer = Sizes()
        made = ReportLanes(writer, 0.0, in_storm)
        running = asyncio.create_task(made.run())
        try:
            for reports in (UP, [Traffic()]):
                await asyncio.gather(*(made.take(f"h{number}", reports) for number in range(count)))
            assert [len(sizes) for sizes in writer.batches] == [lanes.HOSTS_IN_STORM] * 4
            assert len({host for sizes in writer.batches for host in sizes}) == count
            await asyncio.gather(*(made.take(f"h{number}", report(f"h{number}")) for number in range(count)))
            assert len(writer.batches[-1]) == count
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(test(), 20))


def test_answers_are_in_the_order_of_the_reports() -> None:
    async def test() -> None:
        made = ReportLanes(Sizes(), 0.0, at_once)
        running = asyncio.create_task(made.run())
        mixed = [PortDown(serial=1, port_id="p"), Report(serial=2), Traffic(serial=3), PortDown(serial=4, port_id="p")]
        assert await made.take("h1", mixed) == ["1", "2", "3", "4"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(test(), 20))


# --- writing ---------------------------------------------------------------------------------------------------------


class Agents:
    def __init__(self) -> None:
        self.written: list[list[AgentState]] = []
        self.refusals: dict[str, str] = {}

    def report_all(self, states: Sequence[AgentState]) -> list[registry.AgentReport]:
        self.written.append(list(states))
        return [
            registry.AgentReport(
                s.host, s.agent_type, s.host, AgentStatus.ALIVE, s.start_flag, refusal=self.refusals.get(s.host, "")
            )
            for s in states
        ]


class Ports:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def complete_all(self, done: Sequence[Done], component: str) -> set[str]:
        self.calls.append(list(done))
        return set()

    def ready_all(self, reports: Sequence[Ready]) -> object:
        self.calls.append(("ready", list(reports)))
        return set()

    def lost(self, port_id: str, host: str) -> bool:
        self.calls.append((port_id, host))
        return True


@pytest.fixture
def agents() -> Agents:
    return Agents()


@pytest.fixture
def ports() -> Ports:
    return Ports()


@pytest.fixture
def reports(agents: Agents, ports: Ports) -> Reports:
    return Reports(agents, lambda report: None, ports, {})


def test_port_up_reports_are_written_together_and_in_order(reports: Reports, ports: Ports) -> None:
    first = [
        PortUp(serial=1, port_id="a", revision=3),
        PortUp(serial=2, port_id="b", revision=4),
    ]
    second = [PortUp(serial=1, port_id="b", revision=9), PortDown(serial=2, port_id="c")]
    third = [PortUp(serial=1, port_id="c", revision=1), ErrorMessage(serial=2, text="no")]
    assert reports.write([("h1", first), ("h2", second), ("h3", third)]) == [["", ""]] * 3
    assert ports.calls == [[("a", "h1", 3), ("b", "h1", 4), ("b", "h2", 9)], ("c", "h2"), [("c", "h3", 1)]]


def test_what_components_have_finished_is_written_together(reports: Reports, ports: Ports) -> None:
    first = [PortReady(serial=1, port_id="a", revision=3), PortUp(serial=2, port_id="b", revision=4)]
    second = [PortUp(serial=1, port_id="c", revision=9), PortReady(serial=2, port_id="b", revision=4)]
    third = [PortDown(serial=1, port_id="c"), PortReady(serial=2, port_id="d", revision=1)]
    assert reports.write([("h1", first), ("h2", second), ("h3", third)]) == [["", ""]] * 3
    assert ports.calls == [
        [("b", "h1", 4), ("c", "h2", 9)],
        ("ready", [("a", "h1", 3), ("b", "h2", 4)]),
        ("c", "h3"),
        ("ready", [("d", "h3", 1)]),
    ]


def test_the_time_of_one_host_in_a_write_is_bounded(agents: Agents, ports: Ports) -> None:
    """Each report of h1 takes long: what is left has no answer, and the reports of h2 are written."""
    now = 0.0

    class Slow(Ports):
        def lost(self, port_id: str, host: str) -> bool:
            nonlocal now
            now += HOST_SECONDS * 0.6 if host == "h1" else 0.0
            return super().lost(port_id, host)

    slow = Slow()
    made = Reports(agents, lambda report: None, slow, {}, clock=lambda: now)
    many = [*downs(4), PortUp(serial=9, port_id="p")]
    assert made.write([("h1", many), ("h2", downs(3))]) == [["", ""], ["", "", ""]]
    assert slow.calls == [("p", "h1"), ("p", "h1"), ("p", "h2"), ("p", "h2"), ("p", "h2")]


def test_agent_states_of_all_hosts_are_one_write_and_each_host_gets_its_refusal(
    reports: Reports, agents: Agents
) -> None:
    agents.refusals["h2"] = "its tunnel address is in use"
    answers = reports.write([("h1", report("h1")), ("h2", report("h2")), ("h4", report("h4", started=True))])
    assert answers == [[""], ["its tunnel address is in use"], [""]]
    (written,) = agents.written
    assert [(s.host, s.start_flag) for s in written] == [("h1", False), ("h2", False), ("h4", True)]


def test_the_next_report_does_not_hide_a_start(reports: Reports, agents: Agents) -> None:
    reports.write([("h1", [*report("h1", started=True), *report("h1")])])
    ((only,),) = agents.written
    assert only.start_flag
