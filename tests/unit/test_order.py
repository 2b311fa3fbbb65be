"""The order of test files, and the record of their durations."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import Recorder, ordered

ROOT = Path(__file__).parents[1]


def order_of(counts: dict[str, int], durations: dict[str, float]) -> list[str]:
    items: list[Any] = [SimpleNamespace(path=ROOT / name) for name, count in counts.items() for _ in range(count)]
    found = [item.path.relative_to(ROOT).as_posix() for item in ordered(items, ROOT, durations)]
    assert sorted(found) == sorted(name for name, count in counts.items() for _ in range(count))
    return list(dict.fromkeys(found))


def test_the_longest_are_first_and_both_kinds_end_together() -> None:
    durations = {"lab/a": 60.0, "lab/b": 30.0, "clients/c": 10.0, "api/a": 3.0, "unit/b": 6.0, "unit/c": 1.0}
    found = order_of(dict.fromkeys(durations, 1), durations)
    assert found == ["lab/a", "unit/b", "lab/b", "api/a", "clients/c", "unit/c"]


def test_a_new_file_is_estimated_by_its_tests() -> None:
    assert order_of({"lab/new": 4, "lab/known": 1, "lab/one": 1}, {"lab/known": 12.0}) == [
        *("lab/new", "lab/known", "lab/one")
    ]


def test_durations_are_summed_up_by_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "durations.json")
    for name, seconds in (("lab/a.py::x", 1.0), ("lab/a.py::y[1]", 2.52), ("unit/b.py::A::z", 0.1)):
        report: Any = SimpleNamespace(nodeid=f"tests/{name}", duration=seconds)
        recorder.pytest_runtest_logreport(report)
    recorder.pytest_sessionfinish()
    assert json.loads((tmp_path / "durations.json").read_text()) == {"lab/a.py": 3.5, "unit/b.py": 0.1}
