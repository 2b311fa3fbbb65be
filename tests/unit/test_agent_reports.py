"""When an agent reports: at the start, on demand, and again while it applies what the last report did not have."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from neutrino.agent.runtime.loop import Reporter
from neutrino.model.agents import AgentState

LONG = 1000.0


@dataclass
class Feed:
    """Counts reports; each wakes the test."""

    applied: list[int] = field(default_factory=list)
    started: list[bool] = field(default_factory=list)
    reported: asyncio.Event = field(default_factory=asyncio.Event)

    def report(self, states: Sequence[AgentState], applied: int) -> None:
        self.applied.append(applied)
        self.started += [state.start_flag for state in states]
        self.reported.set()

    async def next(self) -> None:
        async with asyncio.timeout(30):
            await self.reported.wait()
        self.reported.clear()


@dataclass
class Applying:
    position: int | None

    def describe(self) -> Iterable[AgentState]:
        yield AgentState("Open vSwitch agent", "neutrino-agent", "h1", "N/A")

    def applied(self) -> int | None:
        return self.position


def reporting(feed: Feed, *roles: Applying, interval: float = LONG, first_check: float = 0.01) -> tuple[Reporter, Any]:
    reporter = Reporter(feed, lambda: interval, first_check)  # type: ignore[arg-type]
    return reporter, asyncio.ensure_future(reporter.run(roles))  # type: ignore[arg-type]


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _catches_up() -> None:
    feed, role = Feed(), Applying(3)
    _, task = reporting(feed, role, Applying(7), Applying(None))
    await feed.next()
    role.position = 7
    await feed.next()
    assert feed.applied == [3, 7]
    assert feed.started == [True] * 3 + [False] * 3
    await _ended(task)


def test_a_host_that_catches_up_after_a_report_reports_again() -> None:
    asyncio.run(_catches_up())


async def _wanted() -> None:
    feed = Feed()
    reporter, task = reporting(feed, Applying(3), interval=0)  # never again by the clock
    await feed.next()
    reporter.soon()
    await feed.next()
    assert feed.applied == [3, 3]
    await _ended(task)


def test_a_report_on_demand() -> None:
    asyncio.run(_wanted())


async def _regular() -> None:
    feed = Feed()
    _, task = reporting(feed, Applying(3), interval=0.03)
    for _ in range(3):
        await feed.next()
    await _ended(task)


def test_reports_at_intervals() -> None:
    asyncio.run(_regular())
