"""The load, step by step on every side in turns: what slows the machine down for a minute meets all of them.

A step is a section of the load, and goes to all sides in several rounds before the next step begins. It takes Neutron
minutes and ours seconds: in each round ours has it before and after Neutron, so as not to get one good or bad moment.
Filling up with ports is no measurement, and takes Neutron minutes: it happens once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from qa.bench import crud, listing, load, processor, routing, security
from qa.bench.client import LoadError
from qa.bench.timing import Figures
from qa.bench.workbench import Bench, Sizes, progress
from tests.support import memory

Each = TypeVar("Each")

_SETTLE_SECONDS = 60.0
_REQUEST_SECONDS = 1800.0  # of a busy machine: Neutron takes 16 s for 100 ports in one request on an idle one


@dataclass(frozen=True)
class Started:
    """A server that responds. `pids`: the first processes of all its parts."""

    url: str
    pids: list[int]
    start_ms: float


@dataclass
class Side:
    """Neutron, or our server on one database, with what was measured."""

    name: str
    start: Callable[[], AbstractContextManager[Started]]
    database_pids: list[int]
    starts_ms: list[float] = field(default_factory=list)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    operations: dict[str, list[Figures]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    url: str = ""
    pids: list[int] = field(default_factory=list)
    bench: Bench | None = None
    ports: listing.Ports | None = None

    def raw(self) -> dict[str, Any]:
        return {
            "starts_ms": [round(each, 1) for each in self.starts_ms],
            "memory": self.memory,
            "operations": self.operations,
            "processor_seconds": {name: [round(each, 2) for each in all_] for name, all_ in self.processor.items()},
        }

    def opened(self) -> Bench:
        if self.bench is None:
            raise LoadError(f"{self.name} has not been started")
        return self.bench

    def filled(self) -> listing.Ports:
        if self.ports is None:
            self.ports = listing.Ports(self.opened())
        return self.ports

    def observe(self, moment: str) -> None:
        each = [memory.of_tree(pid) for pid in self.pids]
        self.memory[moment] = {
            key: round(sum(one[key] for one in each), 1) for key in ("processes", "pss_mb", "rss_mb")
        }


def _nothing(side: Side) -> None:
    """Most steps need no preparation."""


@dataclass(frozen=True)
class Step:
    """A part of the load. `before` and `after`: once for each side, not measured."""

    name: str
    work: Callable[[Side], None]
    before: Callable[[Side], None] = _nothing
    after: Callable[[Side], None] = _nothing


def run(sides: Sequence[Side], sizes: Sizes, rounds: int, seconds: float) -> None:
    """Measure all sides. No request is made after `seconds`."""
    deadline = time.monotonic() + seconds
    with ExitStack() as stack:
        _starts(sides, rounds, stack)
        for side in sides:
            side.bench = load.opened(side.url, sizes, deadline - time.monotonic(), _REQUEST_SECONDS)
            stack.callback(side.bench.client.close)
            load.warm_up(side.bench)
        for step in _steps(sizes):
            _run_step(step, sides, rounds)


def settle(started: Started) -> None:
    processor.settle(started.pids, _SETTLE_SECONDS)


def _starts(sides: Sequence[Side], rounds: int, stack: ExitStack) -> None:
    """Start and stop each side; the last time it stays."""
    for number in range(rounds):
        for side in in_turn(sides, number):
            last = number == rounds - 1
            with ExitStack() as once:
                started = (stack if last else once).enter_context(side.start())
                side.starts_ms.append(started.start_ms)
                progress(f"start {number + 1} of {rounds}, {side.name}: {started.start_ms / 1000:.2f} s")
                # Also where it is stopped at once: a server that is stopped while it starts may hang.
                settle(started)
                if last:
                    side.url, side.pids = started.url, started.pids
                    side.observe("empty")


def _steps(sizes: Sizes) -> list[Step]:
    """In the order of the load."""
    return [
        Step("one client", lambda side: crud.one_client(side.opened())),
        Step("several clients", lambda side: crud.several_clients(side.opened())),
        Step("100 ports in one request", lambda side: listing.bulk(side.opened(), side.filled())),
        *(_lists(goal) for goal in sizes.list_sizes),
        Step("security groups", lambda side: security.run(side.opened())),
        Step("routers", lambda side: routing.run(side.opened())),
    ]


def _lists(goal: int) -> Step:
    return Step(
        f"lists of {goal:,} ports",
        lambda side: listing.lists(side.opened(), side.filled(), goal),
        before=lambda side: side.filled().fill(goal),
        after=lambda side: side.observe(f"ports_{goal}"),
    )


def _run_step(step: Step, sides: Sequence[Side], rounds: int) -> None:
    for side in sides:
        if step.before is not _nothing:
            progress(f"{step.name}: preparing {side.name}")
        step.before(side)
    for number in range(rounds):
        for side in around(sides):
            progress(f"{step.name}, round {number + 1} of {rounds}: {side.name}")
            _measure(step, side)
    for side in sides:
        step.after(side)


def _measure(step: Step, side: Side) -> None:
    bench, pids = side.opened(), [*side.pids, *side.database_pids]
    bench.results = {}
    before = processor.seconds(pids)
    try:
        step.work(side)
    except LoadError as error:
        raise LoadError(f"{side.name}, {step.name}: {error}") from error
    side.processor.setdefault(step.name, []).append(processor.seconds(pids) - before)
    for operation, figures in bench.results.items():
        side.operations.setdefault(operation, []).append(figures)


def around(sides: Sequence[Each]) -> list[Each]:
    """The order in a round of a step: all sides but the first, the first, the others again."""
    first, *others = sides
    return [*others, first, *reversed(others)]


def in_turn(sides: Sequence[Each], number: int) -> Sequence[Each]:
    """The order of the sides in a round: the reverse of that of the round before."""
    return sides if number % 2 == 0 else sides[::-1]
