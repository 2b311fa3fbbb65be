"""The order of tests, which of them run in one worker, and the record of durations."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import COMMITTED, WORKERS, Recorder, Run, ordered, simulated, unit_of_work
from tests.support.lab_kinds import UNITS

LABS = Path(__file__).parents[1] / "lab"


def order_of(counts: dict[str, int], durations: dict[str, float]) -> list[str]:
    names = [name for name, count in counts.items() for _ in range(count)]
    items: list[Any] = [SimpleNamespace(nodeid=f"tests/{name}::test_{i}") for i, name in enumerate(names)]
    known = {f"tests/{name}": seconds for name, seconds in durations.items()}
    found = [item.nodeid.split("::")[0].removeprefix("tests/") for item in ordered(items, known)]
    assert sorted(found) == sorted(names)
    return list(dict.fromkeys(found))


def test_the_longest_are_first_and_both_kinds_end_together() -> None:
    durations = {"lab/a": 60.0, "lab/b": 30.0, "functional/c": 10.0, "api/a": 3.0, "unit/b": 6.0, "unit/c": 1.0}
    found = order_of(dict.fromkeys(durations, 1), durations)
    assert found == ["lab/a", "unit/b", "lab/b", "api/a", "functional/c", "unit/c"]


def test_a_new_file_is_estimated_by_its_tests() -> None:
    assert order_of({"lab/new": 4, "lab/known": 1, "lab/one": 1}, {"lab/known": 12.0}) == [
        *("lab/new", "lab/known", "lab/one")
    ]


def test_units_are_files_or_several_files_of_clients() -> None:
    assert unit_of_work("tests/api/test_ports.py::test_one[sqlite]") == "tests/api/test_ports.py"
    names = ("openstack_cli", "openstack_routers", "sdk", "vpn", "trunks")
    units = [unit_of_work(f"tests/clients/test_{name}.py::test_one") for name in names]
    assert units[0] == units[1]
    assert units[3] == units[4]
    assert len(set(units)) == 3


def test_modules_that_share_a_lab_are_one_unit() -> None:
    one, other = (unit_of_work(f"tests/lab/test_{name}.py::test_one") for name in ("dvr", "qos_routers"))
    assert one == other
    assert unit_of_work("tests/lab/test_faults.py::test_one") == "tests/lab/test_faults.py"
    modules = [name for unit in UNITS.values() for name in unit.modules]
    assert len(modules) == len(set(modules))
    assert [name for name in modules if not (LABS / f"test_{name}.py").exists()] == []


def test_tests_of_a_unit_follow_each_other() -> None:
    names = [f"clients/test_{name}.py" for name in ("vpn", "sdk", "trunks")]
    assert order_of(dict.fromkeys(names, 1), {}) == [names[0], names[2], names[1]]


def test_a_free_worker_takes_the_next_unit() -> None:
    durations = {"tests/lab/test_a.py": 30.0, "tests/lab/test_b.py": 20.0, "tests/lab/test_c.py": 5.0}
    names = [*durations]
    assert simulated(durations, workers=2) == [
        Run(names[0], 0.0, 30.0),
        Run(names[1], 0.0, 20.0),
        Run(names[2], 20.0, 25.0),
    ]


def test_no_unit_keeps_the_run_from_its_end() -> None:
    """By the committed durations: all workers end at about the same time."""
    runs = simulated(json.loads(COMMITTED.read_text()))
    end, share = max(run.end for run in runs), sum(run.end - run.start for run in runs) / WORKERS
    assert end <= 1.03 * share
    assert max(run.end - run.start for run in runs) <= share / 2


def test_durations_are_summed_up_by_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "durations.json")
    for name, seconds in (("lab/a.py::x", 1.0), ("lab/a.py::y[1]", 2.52), ("unit/b.py::A::z", 0.1)):
        report: Any = SimpleNamespace(nodeid=f"tests/{name}", duration=seconds)
        recorder.pytest_runtest_logreport(report)
    recorder.pytest_sessionfinish()
    assert json.loads((tmp_path / "durations.json").read_text()) == {"tests/lab/a.py": 3.5, "tests/unit/b.py": 0.1}
