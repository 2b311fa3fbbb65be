"""The five faults of docs/operator-guide.md, word by word: its commands run, and print what the guide says."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from neutrino.cli.lab_arguments import DEFAULT_LAB
from neutrino.lab.errors import wait_until
from tests.clients.shell import Shell
from tests.support.commands import run_neutrino
from tests.support.lab import address, pings
from tests.support.lab_control import Lab
from tests.support.lab_kinds import LabKind
from tests.support.launcher import PROGRAM
from tests.support.shared_labs import lab_of_kind

GUIDE = Path(__file__).parents[2] / "docs" / "operator-guide.md"
SECTION = GUIDE.read_text().partition("## Five faults on purpose")[2]
BY_THE_FIXTURE = ("neutrino lab up", "export ")


@dataclass(frozen=True)
class Terminal:
    """Where the guide's commands are typed, in a lab. The programs are loaded once, and not for each command."""

    lab: Lab
    shell: Shell
    variables: Mapping[str, str]

    def run(self, command: str) -> tuple[int, str]:
        """The status of a command, and what it prints."""
        program, *arguments = shlex.split(command.replace(DEFAULT_LAB, str(self.lab.paths.state)))
        if program == "openstack":
            status, out, error = self.shell.run(arguments)
        else:
            assert program == "neutrino", command
            if arguments[0] == "lab":
                arguments[1:1] = ["--state", str(self.lab.paths.state)]
            ended = run_neutrino(arguments, environment=self.variables)
            status, out, error = ended.status, ended.out, ended.error
        assert "Traceback" not in error
        return status, out + error

    def done(self, command: str) -> str:
        status, out = self.run(command)
        assert status == 0, f"{command}: {out}"
        return out

    def expect(self, number: int, command: str, *texts: str, status: int = 1) -> None:
        """The command of the guide ends with this status, soon, and prints these texts; the guide has them too."""
        wait_until(lambda: self.run(command)[0] == status, 60, f"{command} does not end with {status}")
        found, out = self.run(command)
        assert found == status, out
        for text in texts:
            assert text in out
            assert text in fault(number)


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    """In a lab made by the commands of the guide, but for its own directory and port, and quick agents."""
    assert shutil.which("openstack", path=str(Path(sys.executable).parent)), "the openstack client is not installed"
    kind = LabKind(hosts=2, roles=("l2", "dhcp", "l3"), agent="[agent]\nreport_interval = 1\n")
    with lab_of_kind(kind) as lab, contextlib.ExitStack() as stack:
        path = f"{PROGRAM.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        variables = {"PATH": path, "OS_CLIENT_CONFIG_FILE": str(lab.paths.clouds), "OS_CLOUD": "neutrino"}
        shell = stack.enter_context(Shell({**os.environ, **variables}))
        made = Terminal(lab, shell, variables)
        for command in commands(SECTION.partition("**1. ")[0]):
            if not command.startswith(BY_THE_FIXTURE):
                made.done(command)
        wait_until(lambda: pings(lab, "web", address(lab, "db")), 30, "web does not reach db")
        wait_until(lambda: pings(lab, "web", address(lab, "far")), 30, "web does not reach far")
        yield made


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("# ") for block in blocks for line in block.splitlines()]


def fault(number: int) -> str:
    """The guide's text on a fault."""
    found = re.search(rf"^\*\*{number}\. .*?(?=^\*\*{number + 1}\. |\Z)", SECTION, re.MULTILINE | re.DOTALL)
    assert found
    return found[0]


def test_one_a_security_group_without_a_rule(terminal: Terminal) -> None:
    breaks, trace, mends = commands(fault(1))
    wait_until(lambda: terminal.run(trace)[0] == 0, 60, "web does not reach db")
    terminal.done(breaks)
    verdict = "verdict: dropped (security-group-ingress)"
    terminal.expect(1, trace, verdict, "No ingress rule of security group empty allows TCP port 5432")
    terminal.done(mends)
    wait_until(lambda: pings(terminal.lab, "web", address(terminal.lab, "db"), seconds=1), 30, "web does not reach db")


def test_two_a_port_that_is_switched_off(terminal: Terminal) -> None:
    breaks, trace, history, mends = commands(fault(2))
    terminal.done(breaks)
    wait_until(
        lambda: not pings(terminal.lab, "web", address(terminal.lab, "db"), seconds=1), 30, "db is still connected"
    )
    terminal.expect(2, trace, "verdict: dropped (port-admin-down)", "is administratively down")
    shown = terminal.done(history)
    assert re.search(r"updated +\S+ +req-", shown)
    assert "admin_state_up: true → false" in shown
    terminal.done(mends)
    wait_until(lambda: pings(terminal.lab, "web", address(terminal.lab, "db"), seconds=1), 30, "web does not reach db")


def test_three_a_subnet_is_removed_from_the_router(terminal: Terminal) -> None:
    breaks, trace, mends = commands(fault(3))
    wait_until(lambda: terminal.run(trace)[0] == 0, 60, "web does not reach far")
    terminal.done(breaks)
    terminal.expect(3, trace, "verdict: dropped (no-route)")
    terminal.done(mends)
    wait_until(lambda: terminal.run(trace)[0] == 0, 60, "web does not reach far")


def test_four_the_agent_of_a_host_is_stopped(terminal: Terminal) -> None:
    breaks, status, trace, doctor, mends = commands(fault(4))
    wait_until(lambda: terminal.run(status)[0] == 0, 60, "status shows a problem")
    terminal.done(breaks)
    terminal.expect(4, status, "host h2 has no connection to any feed")
    terminal.expect(4, trace, "verdict: unknown (host-timeout)", "has not answered", status=3)
    assert pings(terminal.lab, "web", address(terminal.lab, "db")), "traffic continues"
    terminal.expect(4, doctor, "no agent runs")
    terminal.done(mends)
    wait_until(lambda: terminal.run(status)[0] == 0, 60, "status shows a problem still")


def test_five_flows_are_deleted_behind_the_agents_back(terminal: Terminal) -> None:
    stops, breaks, doctor, mends = commands(fault(5))
    terminal.done(stops)
    terminal.done(breaks)
    wait_until(
        lambda: not pings(terminal.lab, "web", address(terminal.lab, "db"), seconds=1), 30, "db is still connected"
    )
    terminal.expect(5, doctor, "drift")
    terminal.done(mends)
    wait_until(
        lambda: pings(terminal.lab, "web", address(terminal.lab, "db"), seconds=1),
        30,
        "the agent has not repaired the flows",
    )
