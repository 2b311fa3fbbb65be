"""The five faults of docs/operator-guide.md, word by word: its commands run, and print what the guide says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from neutrino.cli.lab_arguments import DEFAULT_LAB
from neutrino.lab.errors import wait_until
from tests.support.lab import address, pings
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.launcher import PROGRAM
from tests.support.shared_labs import lab_of_kind

GUIDE = Path(__file__).parents[2] / "docs" / "operator-guide.md"
SECTION = GUIDE.read_text().partition("## Five faults on purpose")[2]
SECONDS = 120
BY_THE_FIXTURE = ("neutrino lab up", "export ")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Made by the commands of the guide, but for its own directory and port, and quick agents."""
    assert shutil.which("openstack", path=str(Path(sys.executable).parent)), "the openstack client is not installed"
    with lab_of_kind(LabKind(hosts=2, roles=("l2", "dhcp", "l3"), agent="[agent]\nreport_interval = 1\n")) as made:
        for command in commands(SECTION.partition("**1. ")[0]):
            if not command.startswith(BY_THE_FIXTURE):
                done(made, command)
        wait_until(lambda: pings(made, "web", address(made, "db")), 30, "web does not reach db")
        wait_until(lambda: pings(made, "web", address(made, "far")), 30, "web does not reach far")
        yield made


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("# ") for block in blocks for line in block.splitlines()]


def fault(number: int) -> str:
    """The guide's text on a fault."""
    found = re.search(rf"^\*\*{number}\. .*?(?=^\*\*{number + 1}\. |\Z)", SECTION, re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


def run(lab: Lab, command: str) -> tuple[int, str]:
    """A command of the guide, in this lab."""
    here = command.replace(DEFAULT_LAB, str(lab.paths.state))
    here = re.sub(r"^neutrino lab ", f"neutrino lab --state {lab.paths.state} ", here)
    path = f"{PROGRAM.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OS_CLIENT_CONFIG_FILE": str(lab.paths.clouds), "OS_CLOUD": "neutrino"}
    words = ["bash", "-c", here]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


def done(lab: Lab, command: str) -> str:
    status, out = run(lab, command)
    assert status == 0, f"{command}: {out}"
    return out


def expect(lab: Lab, number: int, command: str, *texts: str, status: int = 1) -> None:
    """The command of the guide ends with this status, soon, and prints these texts; the guide has them too."""
    wait_until(lambda: run(lab, command)[0] == status, 60, f"{command} does not end with {status}")
    found, out = run(lab, command)
    assert found == status, out
    for text in texts:
        assert text in out
        assert text in fault(number)


def test_one_a_security_group_without_a_rule(lab: Lab) -> None:
    breaks, trace, mends = commands(fault(1))
    wait_until(lambda: run(lab, trace)[0] == 0, 60, "web does not reach db")
    done(lab, breaks)
    verdict = "verdict: dropped (security-group-ingress)"
    expect(lab, 1, trace, verdict, "No ingress rule of security group empty allows TCP port 5432")
    done(lab, mends)
    wait_until(lambda: pings(lab, "web", address(lab, "db"), seconds=1), 30, "web does not reach db")


def test_two_a_port_that_is_switched_off(lab: Lab) -> None:
    breaks, trace, history, mends = commands(fault(2))
    done(lab, breaks)
    wait_until(lambda: not pings(lab, "web", address(lab, "db"), seconds=1), 30, "db is still connected")
    expect(lab, 2, trace, "verdict: dropped (port-admin-down)", "is administratively down")
    shown = done(lab, history)
    assert re.search(r"updated +\S+ +req-", shown)
    assert "admin_state_up: true → false" in shown
    done(lab, mends)
    wait_until(lambda: pings(lab, "web", address(lab, "db"), seconds=1), 30, "web does not reach db")


def test_three_a_subnet_is_removed_from_the_router(lab: Lab) -> None:
    breaks, trace, mends = commands(fault(3))
    wait_until(lambda: run(lab, trace)[0] == 0, 60, "web does not reach far")
    done(lab, breaks)
    expect(lab, 3, trace, "verdict: dropped (no-route)")
    done(lab, mends)
    wait_until(lambda: run(lab, trace)[0] == 0, 60, "web does not reach far")


def test_four_the_agent_of_a_host_is_stopped(lab: Lab) -> None:
    breaks, status, trace, doctor, mends = commands(fault(4))
    wait_until(lambda: run(lab, status)[0] == 0, 60, "status shows a problem")
    done(lab, breaks)
    expect(lab, 4, status, "host h2 has no connection to any feed")
    expect(lab, 4, trace, "verdict: unknown (host-timeout)", "has not answered", status=3)
    assert pings(lab, "web", address(lab, "db")), "traffic continues"
    expect(lab, 4, doctor, "no agent runs")
    done(lab, mends)
    wait_until(lambda: run(lab, status)[0] == 0, 60, "status shows a problem still")


def test_five_flows_are_deleted_behind_the_agents_back(lab: Lab) -> None:
    stops, breaks, doctor, mends = commands(fault(5))
    done(lab, stops)
    done(lab, breaks)
    wait_until(lambda: not pings(lab, "web", address(lab, "db"), seconds=1), 30, "db is still connected")
    expect(lab, 5, doctor, "drift")
    done(lab, mends)
    wait_until(lambda: pings(lab, "web", address(lab, "db"), seconds=1), 30, "the agent has not repaired the flows")
