"""The order in which files of tests run: the longest first, those that wait beside those that compute.

A lab waits for its hosts most of the time, a test of the API computes: side by side they take less time than all of one
kind after the other. What is left when some workers have nothing to do any more should be short.

Durations of files are those of the last whole run in this checkout (`scripts/suite`), else the committed ones, which
`make durations` refreshes; those of a new file are estimated by its number of tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path

import pytest

COMMITTED = Path(__file__).with_name("durations.json")
RECORDED = Path(__file__).parents[1] / "build" / "durations.json"
WAITING = ("clients", "lab", "functional")
SECONDS_PER_TEST = {"clients": 1.0, "lab": 5.0, "functional": 1.0, "faults": 1.0, "unit": 0.02}
OTHERWISE = 0.1


def known_durations() -> dict[str, float]:
    """Seconds by file, of a recent run."""
    for path in (RECORDED, COMMITTED):
        if path.exists():
            durations: dict[str, float] = json.loads(path.read_text())
            return durations
    return {}


def ordered(items: Iterable[pytest.Item], root: Path, durations: Mapping[str, float]) -> list[pytest.Item]:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path.relative_to(root).as_posix(), []).append(item)

    def kind(name: str) -> str:
        return name.split("/", 1)[0]

    def seconds(name: str) -> float:
        return durations.get(name, SECONDS_PER_TEST.get(kind(name), OTHERWISE) * len(files[name]))

    longest_first = sorted(files, key=seconds, reverse=True)
    waiting = [name for name in longest_first if kind(name) in WAITING]
    computing = [name for name in longest_first if kind(name) not in WAITING]
    starts = {**_shares(waiting, [*map(seconds, waiting)]), **_shares(computing, [*map(seconds, computing)])}
    return [*chain.from_iterable(files[name] for name in sorted(longest_first, key=starts.__getitem__))]


def _shares(names: Sequence[str], seconds: Sequence[float]) -> dict[str, float]:
    """By file: which share of the time of its kind is over when it starts, so that both kinds end together."""
    before = accumulate(seconds, initial=0.0)
    total = sum(seconds) or 1.0
    return {name: start / total for name, start in zip(names, before, strict=False)}


class Recorder:
    """A plugin that sums up the durations of the tests by file, and writes them to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.split("::", 1)[0].removeprefix("tests/")
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        rounded = {name: round(seconds, 1) for name, seconds in sorted(self._seconds.items())}
        self._path.write_text(json.dumps(rounded, indent=0) + "\n")
