"""Commands in the code blocks of README and guides exist, with the options that are given there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openstackclient.shell import OpenStackShell

from neutrino.cli.lab_arguments import with_vm_action
from neutrino.cli.main import build_parser

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in ROOT.glob("docs/*.md")))
GROUPS = (
    *("openstack.cli", "openstack.common", "openstack.identity.v3", "openstack.compute.v2", "openstack.network.v2"),
    *(f"openstack.network.v2.{name}" for name in ("dynamic_routing", "fwaas", "taas", "vpnaas")),
)
OF_NEUTRONCLIENT = ("network log ", "network loggable ")  # not installed with the tests; tests/clients calls the API
VALUES = {r"\$\(.*\)": "VALUE", r"\$interface": "public"}  # as a shell would put them in
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def blocks(text: str) -> Iterator[str]:
    """The lines of code blocks, fenced or indented; those that end in a backslash with the next."""
    fenced, line = False, ""
    for raw in text.splitlines():
        if raw.strip().startswith("```"):
            fenced = not fenced
        elif fenced or raw.startswith("    "):
            line += raw.strip()
            if not line.endswith("\\"):
                yield line
            line = f"{line[:-1]} " if line.endswith("\\") else ""


def commands(page: str) -> list[str]:
    """Of code blocks, without prompts, comments and explanations, which are two spaces behind; some of the text."""
    text = (ROOT / page).read_text()
    found = re.findall(r"`((?:make|python -m) [^`\n]+)`", text)
    for line in blocks(text):
        bare = re.sub(r"^([#$] )?(sudo )?(\.venv/bin/)?", "", line)
        for pattern, value in VALUES.items():
            bare = re.sub(pattern, value, bare)
        bare = re.split(r"\s+#|\s{2,}(?!-)| >", bare)[0]
        if re.match(r"(neutrino|openstack|make|python3?) ", bare) and "·" not in bare:
            found.append(bare)
    return found


@pytest.fixture(scope="module")
def openstack() -> Any:
    manager = OpenStackShell().command_manager
    for group in GROUPS:
        manager.add_command_group(group)
    return manager


def accepts(manager: Any, words: list[str]) -> None:
    network = SimpleNamespace(is_network_endpoint_enabled=lambda: True)
    factory, name, rest = manager.find_command(words)
    factory(SimpleNamespace(client_manager=network), None).get_parser(name).parse_args(rest)


def check(command: str, openstack: Any) -> None:
    program, *words = shlex.split(command)
    if program == "neutrino":
        build_parser().parse_args(with_vm_action(words))
    elif program == "openstack" and not command.removeprefix("openstack ").startswith(OF_NEUTRONCLIENT):
        accepts(openstack, words)
    elif program == "make":
        assert words[0] in TARGETS
    elif words[:1] == ["-m"] and words[1].startswith("tests."):
        assert list(ROOT.glob(words[1].replace(".", "/") + "*")), f"there is no {words[1]}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_exist(page: str, openstack: Any, capsys: pytest.CaptureFixture[str]) -> None:
    refused = []
    for command in commands(page):
        try:
            check(command, openstack)
        except (SystemExit, ValueError, AssertionError) as error:
            refused.append(f"{command}: {capsys.readouterr().err.strip() or error}")
    assert refused == []


def test_there_are_commands() -> None:
    found = [command for page in PAGES for command in commands(page)]
    assert len([command for command in found if command.startswith("openstack ")]) > 80
    assert len([command for command in found if command.startswith("neutrino ")]) > 50
