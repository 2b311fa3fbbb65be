"""A lab of two hosts on the kernel datapath, which all tests of `qa.kernel` that need a whole cloud share: it takes
minutes to build where the guest is emulated. A plugin of pytest, as conftest files are not read there.

Tests of `tests.lab` run there too. Without a guest, pytest runs the same tests on the userspace datapath:
`pytest --noconftest -p qa.kernel.cloud FILE`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab import temporary_lab
from tests.support.lab_cleanup import cleaned
from tests.support.lab_control import Lab
from tests.support.lab_guests import (
    EVERYTHING,
    Guest,
    Spec,
    make_group,
    make_guests,
    make_network,
    wait_until_reachable,
)
from tests.support.lab_kinds import LabKind, kind_of_module
from tests.support.shared_labs import lab_of_kind, wait_for_agents

LOGGED_LINES = 40
_logs: list[Path] = []  # the directory of the lab's logs


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once, with the ends of the lab's logs: pytest's own summary follows only after the last test, an
    hour later, and the guest's files are gone with it. What a test that passed has printed is printed too.
    """
    if report.passed and report.when == "call" and report.capstdout:
        print(f"\n{report.capstdout}", flush=True)  # figures
    if not report.failed:
        return
    print(f"\n{report.nodeid}, {report.when}:\n{report.longreprtext}", flush=True)
    for path in (path for directory in _logs for path in sorted(directory.glob("*.log"))):
        lines = path.read_text(errors="replace").splitlines()
        print(f"--- {path.name}", *lines[-LOGGED_LINES:], sep="\n", flush=True)


@pytest.fixture(scope="session")
def cloud() -> Iterator[Lab]:
    with temporary_lab(hosts=2) as made:
        _logs.append(made.paths.logs)
        wait_for_agents(made)
        yield made


@pytest.fixture(scope="module")
def lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The cloud; for a module of `tests.lab`, a lab of its kind."""
    kind: LabKind | None = getattr(request.module, "LAB", None) or kind_of_module(request.path.as_posix())
    if kind is None:
        yield request.getfixturevalue("cloud")
    else:
        with lab_of_kind(kind) as made:
            _logs.append(made.paths.logs)
            yield made


@contextlib.contextmanager
def instances_on_both_hosts(lab: Lab, **network: Any) -> Iterator[tuple[Guest, Guest]]:
    """Two instances of one network that reach each other, on h1 and on h2."""
    with cleaned(lab):
        group, _ = make_group(lab, "open", *EVERYTHING)
        net = make_network(lab, "blue", **network)
        here, there = make_guests(lab, Spec("here", net, "h1", [group]), Spec("there", net, "h2", [group]))
        wait_until_reachable(here, there)
        yield here, there
