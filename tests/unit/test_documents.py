"""Man pages and shell completion, generated from the parsers of all commands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from neutrino.cli.documents import completion, man
from neutrino.cli.documents.commands import describe
from neutrino.cli.main import build_parser
from neutrino.cli.parser import Parser
from tests.support.cpu_time import cpu_seconds

ROOT = describe(build_parser())
COMMANDS = list(ROOT.walk())


def test_every_command_has_a_help_text_and_a_description() -> None:
    for command in COMMANDS[1:]:
        assert command.help, f"{command.name} has no help text"
        assert "\n" not in command.help, f"the help text of {command.name} is not one line"
        assert command.description
    assert ROOT.description


def test_every_option_has_a_help_text() -> None:
    without = [
        f"{command.name} {option.flags}" for command in COMMANDS for option in command.options if not option.help
    ]
    assert without == []


def test_internal_commands_are_left_out() -> None:
    names = {command.path[1] for command in ROOT.commands}
    assert {"server", "agent", "vm", "completion", "config"} <= names
    assert "metadata" not in names


# --- man pages --------------------------------------------------------------------------------------------------------


def test_there_is_a_page_for_each_command() -> None:
    assert set(man.pages(ROOT, "1.0", 0)) == {"neutrino.1", *(f"neutrino-{each.path[1]}.1" for each in ROOT.commands)}


def test_a_page_describes_options_and_subcommands() -> None:
    page = man.pages(ROOT, "1.0", 0)["neutrino-vm.1"]
    assert '.TH "NEUTRINO\\-VM" 1 "1970-01-01" "neutrino 1.0"' in page
    assert "\\fB\\-\\-network\\fR \\fINETWORK\\fR" in page
    for action in ("create", "exec", "delete", "list"):
        assert f'.SH "Command vm {action}"' in page


def test_text_is_escaped() -> None:
    assert man.escape(r"C:\new -x") == r"C:\enew \-x"
    assert man.escape(".hidden") == r"\&.hidden"
    assert man.text("run `neutrino up`.") == r"run \fBneutrino up\fR."
    assert man.text(".conf of `a-b`") == r"\&.conf of \fBa\-b\fR"
    # A control line may start anywhere in a text of several lines.
    assert man.escape("a\n.b").splitlines()[1] == r"\&.b"


def test_odd_help_texts_stay_one_page() -> None:
    parser = Parser(prog="neutrino", description="A \\ line.\n\n.SH not a section")
    parser.add_argument("--odd", metavar='"QUOTED"', help="50%% of `it's` \\n -- 'quoted'")
    page = man.pages(describe(parser), "1.0", 0)["neutrino.1"]
    assert page.count("\n.SH ") == len(
        ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "ENVIRONMENT", "FILES", "EXIT", "SEE"]
    )
    assert "\\&.SH not a section" in page


def test_mandoc_finds_nothing(tmp_path: Path) -> None:
    man.write(tmp_path, ROOT, "1.0", 0)
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout + done.stderr == ""


def test_a_rendered_page_reads_as_the_help_text(tmp_path: Path) -> None:
    man.write(tmp_path, ROOT, "1.0", 0)
    shown = subprocess.run(
        ["mandoc", "-T", "ascii", "-O", "width=200", str(tmp_path / "neutrino-host.1")],
        capture_output=True,
        text=True,
        check=True,
    )
    text = re.sub(r".\x08", "", shown.stdout)  # overstrikes: bold and underlined
    assert "--roles ROLES" in text
    assert "manage the credentials of hosts for the feed" in text


# --- completion -------------------------------------------------------------------------------------------------------

BASH_CASES = (
    (["serv"], {"server"}),
    (["agent", ""], {"run", "verify", "teardown"}),
    (["vm", ""], {"create", "exec", "delete", "list"}),
    (["lab", "up", "--datap"], {"--datapath"}),
    (["lab", "up", "--datapath", ""], {"system", "netdev"}),
    (["lab", "up", "--datapath", "=", "n"], {"netdev"}),
    (["lab", "up", "--datapath", "="], {"system", "netdev"}),
    (["vm", "--state", "x", "ex"], {"exec"}),  # the value of an option is not a command
    (["config", "sample", ""], {"server", "agent"}),  # by its place
    (["server", "--config-file", "fil"], {"file.conf"}),
    (["up", "--state", "f"], {"folder"}),
    (["completion", "z"], {"zsh"}),
)


def _complete_in_bash(directory: Path, cases: list[list[str]]) -> list[set[str]]:
    script = [completion.render("bash", ROOT)]
    for words in cases:
        quoted = " ".join(f"'{word}'" for word in words)
        script.append(f"COMP_WORDS=(neutrino {quoted}); COMP_CWORD={len(words)}; COMPREPLY=(); _neutrino")
        script.append('printf "%s " "${COMPREPLY[@]}"; echo')
    (directory / "script").write_text("\n".join(script))
    # -u: a variable that is not set is an error. Without a PATH, as no program may run.
    done = subprocess.run(
        ["/bin/bash", "--norc", "-u", "script"],
        cwd=directory,
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    (tmp_path / "file.conf").touch()
    (tmp_path / "folder").mkdir()
    found = _complete_in_bash(tmp_path, [words for words, _ in BASH_CASES])
    for (words, expected), got in zip(BASH_CASES, found, strict=True):
        assert got == expected, words


def test_bash_completes_every_command_and_option(tmp_path: Path) -> None:
    cases: list[list[str]] = []
    expected: list[set[str]] = []
    for command in COMMANDS:
        words = list(command.path[1:])
        cases.append([*words, "-"])
        expected.append({flag for option in command.options for flag in option.flags})
        if command.commands:
            cases.append([*words, ""])
            expected.append({each.path[-1] for each in command.commands})
    assert _complete_in_bash(tmp_path, cases) == expected


def test_completion_takes_no_time(tmp_path: Path) -> None:
    began = cpu_seconds()
    _complete_in_bash(tmp_path, [["lab", "up", "--datapath", ""]] * 20)
    assert cpu_seconds() - began < 2.0  # 20 presses of TAB; each start of Python takes 0.2 s or more


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["s"], {"server"}),
        (["vm", ""], {"create", "exec", "delete", "list"}),
        (["lab", "up", "--datapath", ""], {"system", "netdev"}),
        (["config", "sample", ""], {"server", "agent"}),
    ],
)
def test_zsh_completes(words: list[str], expected: set[str], tmp_path: Path) -> None:
    """compadd, zsh's builtin that offers the words, is replaced by one that prints them."""
    (tmp_path / "_neutrino").write_text(completion.render("zsh", ROOT))
    typed = " ".join(f"'{word}'" for word in ["neutrino", *words])
    script = f"""
        compdef() {{ : }}
        compset() {{ : }}
        compadd() {{ shift; print -l -- "$@" }}
        words=({typed}); CURRENT={len(words) + 1}
        source ./_neutrino
        _neutrino
    """
    done = subprocess.run(["zsh", "-f", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    # zsh itself filters by the word that is being typed.
    assert expected <= set(done.stdout.split())


def test_fish_has_a_line_for_each_command_and_option() -> None:
    lines = completion.render("fish", ROOT).splitlines()
    text = "\n".join(lines)
    for command in COMMANDS[1:]:
        assert f" -a {command.path[-1]} " in text
    options = [line for line in lines if " -l " in line]
    assert len(options) == sum(any(f.startswith("--") for f in o.flags) for c in COMMANDS for o in c.options)
    assert not any(line.count("'") % 2 and "\\'" not in line for line in lines)
