"""Sample configuration files: all options, with the defaults in force, and the values that packages set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from neutrino.agent import config as agent
from neutrino.cli.sample import NONE, OPTIONS, Set, as_text, render
from neutrino.server import config as server
from tests.support.packaging import packages

READ = {"server": server.configuration, "agent": agent.configuration}
BY_MACHINE = {"host", "state_path"}  # shown as a description
PROGRAMS = ("server", "agent")


def _packaged(program: str) -> dict[tuple[str, str], Set]:
    (package,) = [each for each in packages.PACKAGES if program in each.sample.values()]
    return {(each.section, each.name): Set(each.value, each.why) for each in package.values}


@pytest.mark.parametrize("program", PROGRAMS)
def test_everything_is_commented_out(program: str) -> None:
    lines = [line for line in render(program).splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"\[\w+\]", line) for line in lines)
    assert len(lines) == len(set(lines))


@pytest.mark.parametrize("program", PROGRAMS)
def test_shown_defaults_are_the_defaults(program: str, tmp_path: Path) -> None:
    """With every option uncommented, the configuration equals that without a file."""
    lines = []
    for line in render(program).splitlines():
        shown = re.fullmatch(r"#(\w+) ?= ?(.*)", line)
        if shown and shown[2] != NONE and shown[1] not in BY_MACHINE:
            lines.append(f"{shown[1]} = {shown[2]}")
        elif line.startswith("["):
            lines.append(line)
    path = tmp_path / "all.conf"
    path.write_text("\n".join(lines) + "\n")
    without, with_file = READ[program]([]), READ[program]([str(path)])
    compared = 0
    for section, options in OPTIONS[program]().items():
        for option in options:
            if section != "DEFAULT" and section not in without:
                continue  # of a library, which registers it while the server is assembled
            one, other = ((conf if section == "DEFAULT" else conf[section]) for conf in (without, with_file))
            if option.dest in one:
                assert getattr(one, option.dest) == getattr(other, option.dest), (section, option.dest)
                compared += 1
    assert compared > 80


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_our_options_are_there_with_a_help_text(program: str) -> None:
    ours = server.OPTIONS.items() if program == "server" else agent.GROUPS
    listed = {(section, option.dest): option for section, options in OPTIONS[program]().items() for option in options}
    for group, options in ours:
        for option in options:
            assert listed[group or "DEFAULT", option.dest].help, (group, option.dest)


def test_options_of_libraries_are_there() -> None:
    text = render("server")
    for name in (
        "[keystone_authtoken]",
        "#www_authenticate_uri",
        "#auth_url",
        "#policy_file",
        "#log_file",
        "#allowed_origin",
    ):
        assert f"\n{name}" in text


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_file_of_the_package_is_valid(program: str, tmp_path: Path) -> None:
    values = _packaged(program)
    path = tmp_path / f"{program}.conf"
    path.write_text(render(program, values))
    conf = READ[program]([str(path)])
    for (section, name), given in values.items():
        assert as_text(getattr(conf if section == "DEFAULT" else conf[section], name)) == given.value
    set_lines = [line for line in path.read_text().splitlines() if line and line[0] not in "#["]
    assert len(set_lines) == len(values)


def test_the_packaged_server_starts_and_the_packaged_agent_is_complete(tmp_path: Path) -> None:
    for program in PROGRAMS:
        (tmp_path / program).write_text(render(program, _packaged(program)))
    server.check_listening(server.configuration([str(tmp_path / "server")]))
    agent.check(agent.configuration([str(tmp_path / "agent")]))


def test_a_value_of_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match="no such options"):
        render("agent", {("DEFAULT", "no_such_option"): Set("1", "why")})


@pytest.mark.parametrize(
    ("value", "text"), [(None, NONE), (True, "true"), (["a", "b"], "a,b"), ({"a": 1}, "a:1"), (1.5, "1.5"), ("", "")]
)
def test_values_are_written_as_in_a_file(value: object, text: str) -> None:
    assert as_text(value) == text
