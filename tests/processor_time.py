"""Processor time of tests with everything that they start: `pytest -p tests.processor_time --processor-time FILE`.

    python -m tests.processor_time FILE [OTHER]      by directory and by file, of one record or of two

The process that runs tests joins a control group, which its children inherit, daemons too. What it used since the previous
report counts for the test of this report: preparation and teardown of fixtures are the test's that runs them. Servers that
workers share are no children of a worker: they are counted with the first process, as REST. It needs root, and cpuacct or
cgroup v2.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

REST = "rest"
_PROPERTY = "processor time"
_V1, _V2 = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
_NANOSECONDS, _MICROSECONDS = 1e9, 1e6
_LISTED = 60
_PREFIX = "tests-"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--processor-time", type=Path, metavar="FILE", help="write the processor seconds of each test file"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    if path := config.getoption("--processor-time"):  # before the process leaves the machine's mount namespace
        config.pluginmanager.register(_Accounts(path))


class _Accounts:
    """In the first process and, forked, in each worker."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._first = os.getpid()
        root = _V1 if _V1.is_dir() else _V2
        self._root, self._parent = (
            Path(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}")  # /sys is another one later
            for path in (root, tempfile.mkdtemp(prefix=_PREFIX, dir=root))
        )
        self._group = self._join()
        self._before = 0.0
        self._seconds: Counter[str] = Counter()

    def _join(self) -> Path:
        group = self._parent / str(os.getpid())
        group.mkdir()
        (group / "cgroup.procs").write_text("0")
        self._joined = os.getpid()
        return group

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        if self._joined != os.getpid():
            self._group, self._before = self._join(), 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        now = _used(self._group)
        report.user_properties.append((_PROPERTY, now - self._before))
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if os.getpid() == self._first:
            used = sum(float(value) for name, value in report.user_properties if name == _PROPERTY)
            self._seconds[report.nodeid.split("::", 1)[0]] += used  # type: ignore[assignment]
            report.user_properties[:] = [entry for entry in report.user_properties if entry[0] != _PROPERTY]

    def pytest_unconfigure(self) -> None:
        if os.getpid() != self._first:
            return
        groups = [group for group in self._parent.iterdir() if group.is_dir()]
        total = sum(map(_used, groups))
        self._seconds[REST] = total - sum(self._seconds.values())  # type: ignore[assignment]
        rounded = {name: round(seconds, 2) for name, seconds in sorted(self._seconds.items())}
        self._path.write_text(json.dumps(rounded, indent=0) + "\n")
        (self._root / "cgroup.procs").write_text("0")
        with contextlib.suppress(OSError):  # a process has not ended yet
            for group in (*groups, self._root / self._parent.readlink().name):
                group.rmdir()


def _used(group: Path) -> float:
    """Seconds of all processes that have been in the group."""
    usage = group / "cpuacct.usage"
    if usage.exists():
        return int(usage.read_text()) / _NANOSECONDS
    first, *_ = (group / "cpu.stat").read_text().split("\n")
    return int(first.split()[1]) / _MICROSECONDS


# --- the table --------------------------------------------------------------------------------------------------------


def table(records: list[Mapping[str, float]]) -> str:
    lines: list[str] = []
    directories = [_by_directory(record) for record in records]
    for kind in (directories, records):
        names = sorted({name for record in kind for name in record}, key=lambda name: -kind[0].get(name, 0.0))
        lines += [
            "".join(f"{record.get(name, 0.0):10.1f}" for record in kind) + f"  {name}" for name in names[:_LISTED]
        ]
        lines.append("".join(f"{sum(record.values()):10.1f}" for record in kind) + "  total\n")
    return "\n".join(lines)


def _by_directory(record: Mapping[str, float]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for name, value in record.items():
        directory = name.rpartition("/")[0] or name
        seconds[directory] = seconds.get(directory, 0.0) + value
    return seconds


if __name__ == "__main__":
    sys.stdout.write(table([json.loads(Path(name).read_text()) for name in sys.argv[1:]]))
