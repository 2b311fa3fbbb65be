"""Commands, links and options that docs/operator-guide.md names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from neutrino.agent.config import GROUPS as AGENT
from neutrino.cli.lab_arguments import with_vm_action
from neutrino.cli.main import COMMANDS, build_parser
from neutrino.server.config import OPTIONS as SERVER

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "operator-guide.md"
TEXT = GUIDE.read_text()
# Sections of libraries, whose options are registered by these.
LIBRARIES = {"keystone_authtoken", "oslo_middleware", "healthcheck", "nova", "neutron", "designate"}


def commands() -> list[str]:
    """All `neutrino …` commands, of code blocks and of the text, with an action or an option."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        found += [line[2:].partition("  #")[0].partition(" >")[0] for line in block.splitlines()]
    found += re.findall(r"`(neutrino [^`]+)`", TEXT)
    return sorted({line.strip() for line in found if line.startswith("neutrino ")})


@pytest.mark.parametrize("command", commands())
def test_the_command_is_accepted(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(command)[1:]
    assert words[0] in COMMANDS, command
    complete = words + {("pki",): ["list"], ("vm",): ["list"], ("lab", "vm"): ["list"]}.get(tuple(words), [])
    if complete == ["trace"] or (complete[:1] == ["history"] and len(complete) == 1):
        return  # named without arguments
    try:
        build_parser().parse_args(with_vm_action(complete))
    except SystemExit:
        pytest.fail(f"{command}: {capsys.readouterr().err}")


def test_there_are_commands() -> None:
    assert len(commands()) > 25


def test_options_exist() -> None:
    known = {(group or "DEFAULT", option.name) for group, options in (*SERVER.items(), *AGENT) for option in options}
    named = set(re.findall(r"`\[(\w+)\] (\w+)", TEXT))
    for block in re.findall(r"^```ini\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL):
        group = "DEFAULT"
        for line in block.splitlines():
            if header := re.fullmatch(r"\[(\w+)\]", line):
                group = header[1]
            elif option := re.match(r"(\w+) =", line):
                named.add((group, option[1]))
    assert len(named) > 8
    assert (
        sorted(f"[{group}] {name}" for group, name in named if group not in LIBRARIES and (group, name) not in known)
        == []
    )
