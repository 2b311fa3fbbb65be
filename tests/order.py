"""The order in which units of tests, mostly files, run: the longest first, those that wait beside those that compute.

A lab waits for its hosts most of the time, a test of the API computes: side by side they take less time than all of one
kind after the other. What is left when some workers have nothing to do any more should be short.

Durations of files are those of the last whole run in this checkout (`scripts/suite`), else the committed ones, which
`make durations` refreshes; those of a new file are estimated by its number of tests.

    python -m tests.order      when each of the longest units starts and ends, by the recorded durations
"""

from __future__ import annotations

import heapq
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.lab_kinds import unit_of_module

COMMITTED = Path(__file__).with_name("durations.json")
RECORDED = Path(__file__).parents[1] / "build" / "durations.json"
# A worker that runs tests of clients starts a server without and one with Keystone, and a client for each: so not all do.
CLIENTS = "tests/clients/"
CLIENT_UNITS = ("openstack", "sdk")  # by the beginning of a file's name; all other files are one unit
WAITING = ("clients", "lab", "functional")
SECONDS_PER_TEST = {"clients": 1.0, "lab": 5.0, "functional": 1.0, "faults": 1.0, "unit": 0.02}
OTHERWISE = 0.1
WORKERS = 6  # of `make test`


def known_durations() -> dict[str, float]:
    """Seconds by file, of a recent run."""
    for path in (RECORDED, COMMITTED):
        if path.exists():
            durations: dict[str, float] = json.loads(path.read_text())
            return durations
    return {}


def unit_of_work(nodeid: str) -> str:
    """Tests of one unit run in one worker: those of a file, of files that share a lab, or of several files of clients."""
    path = nodeid.split("::", 1)[0]
    if not path.startswith(CLIENTS):
        return unit_of_module(path) or path
    name = path.removeprefix(f"{CLIENTS}test_")
    return next((f"{CLIENTS}{part}" for part in CLIENT_UNITS if name.startswith(part)), CLIENTS)


def ordered(items: Iterable[pytest.Item], durations: Mapping[str, float]) -> list[pytest.Item]:
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(unit_of_work(item.nodeid), []).append(item)
    seconds = {unit: _seconds(tests, durations) for unit, tests in units.items()}
    longest_first = sorted(units, key=seconds.__getitem__, reverse=True)
    starts: dict[str, float] = {}
    for waits in (True, False):
        names = [name for name in longest_first if (_kind(units[name][0]) in WAITING) is waits]
        starts |= _shares(names, [seconds[name] for name in names])
    return [*chain.from_iterable(units[name] for name in sorted(longest_first, key=starts.__getitem__))]


def _kind(item: pytest.Item) -> str:
    return item.nodeid.removeprefix("tests/").split("/", 1)[0]


def _seconds(tests: Sequence[pytest.Item], durations: Mapping[str, float]) -> float:
    """The time that the tests take: known by file, or estimated."""
    files = Counter(test.nodeid.split("::", 1)[0] for test in tests)
    each = SECONDS_PER_TEST.get(_kind(tests[0]), OTHERWISE)
    return sum(durations.get(name, each * count) for name, count in files.items())


def _shares(units: Sequence[str], seconds: Sequence[float]) -> dict[str, float]:
    """By unit: which share of the time of its kind is over when it starts, so that both kinds end together."""
    before = accumulate(seconds, initial=0.0)
    total = sum(seconds) or 1.0
    return {unit: start / total for unit, start in zip(units, before, strict=False)}


@dataclass(frozen=True)
class Run:
    """When a worker runs a unit, in seconds since the first."""

    unit: str
    start: float
    end: float


def simulated(durations: Mapping[str, float], workers: int = WORKERS) -> list[Run]:
    """The units in their order, each taken by the worker that is free first, with the recorded durations."""
    files: list[Any] = [SimpleNamespace(nodeid=f"{name}::test") for name in durations]
    seconds: dict[str, float] = {}
    for item in ordered(files, durations):
        unit, path = unit_of_work(item.nodeid), item.nodeid.removesuffix("::test")
        seconds[unit] = seconds.get(unit, 0.0) + durations[path]
    free, runs = [0.0] * workers, []
    for unit, duration in seconds.items():
        start = heapq.heappop(free)
        runs.append(Run(unit, start, start + duration))
        heapq.heappush(free, start + duration)
    return runs


class Recorder:
    """A plugin that sums up the durations of the tests by file, and writes them to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.split("::", 1)[0]
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        rounded = {name: round(seconds, 1) for name, seconds in sorted(self._seconds.items())}
        self._path.write_text(json.dumps(rounded, indent=0) + "\n")


def _table(runs: Sequence[Run]) -> str:
    """The longest units, and when the run ends; in parentheses, when it would if all workers ended together."""
    longest = sorted(runs, key=lambda run: run.start - run.end)[:25]
    lines = [f"{run.end - run.start:7.0f} s   {run.start:6.0f} to {run.end:6.0f}   {run.unit}" for run in longest]
    end, share = max(run.end for run in runs), sum(run.end - run.start for run in runs) / WORKERS
    return "\n".join([*lines, f"all units: {end:.0f} s ({share:.0f} s)\n"])


if __name__ == "__main__":
    sys.stdout.write(_table(simulated(known_durations())))
