"""Man pages of all commands, as man(7) text: neutrino(1), and one page for each first-level command."""

import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from neutrino.cli.documents.commands import Argument, Command

FILES = (
    ("/etc/neutrino/server.conf", "configuration of the server"),
    ("/etc/neutrino/agent.conf", "configuration of the host agent"),
    ("/etc/neutrino/credential", "credential of this host's agent for the feed"),
    ("/var/lib/neutrino", "files of the server, with the database if that is SQLite"),
    ("/var/lib/neutrino-agent", "files of the host agent"),
)
ENVIRONMENT = (
    ("OS_CLOUD, OS_AUTH_URL, …", "credentials of commands that use the API, as of the openstack client"),
    ("NEUTRINO_DEBUG", "if set, print the traceback of an unexpected error"),
)
EXIT_STATUS = (
    ("0", "success"),
    ("1", "failure; the error is on standard error, in one line"),
    ("2", "wrong arguments or configuration"),
    ("130", "interrupted by Ctrl-C"),
)
_CODE = re.compile(r"`([^`]+)`")
_LINE = re.compile(r"^([.'])", re.MULTILINE)


def pages(root: Command, version: str, seconds: int) -> Mapping[str, str]:
    """File names to texts; `seconds`: the date of the pages, since the epoch."""
    date = time.strftime("%Y-%m-%d", time.gmtime(seconds))
    names = [root, *root.commands]
    return {f"{_page(name)}.1": _render(name, names, version, date) for name in names}


def write(directory: Path, root: Command, version: str, seconds: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages(root, version, seconds).items():
        (directory / name).write_text(text, encoding="utf-8")


def _page(command: Command) -> str:
    return "-".join(command.path)


def _render(command: Command, all_commands: Sequence[Command], version: str, date: str) -> str:
    root, is_root = all_commands[0], command is all_commands[0]
    summary = (command.help or command.description).rstrip(".")
    lines = [
        f'.TH {_quoted(_page(command).upper())} 1 "{date}" {_quoted(f"neutrino {version}")} "User Commands"',
        ".SH NAME",
        f"{escape(_page(command))} \\- {escape(_plain(summary))}",
        ".SH SYNOPSIS",
        *_synopsis(command),
        ".SH DESCRIPTION",
        *_paragraphs(command.description),
    ]
    if is_root:
        lines += [".SH COMMANDS"]
        for each in command.commands:
            lines += [".TP", f".BR {_page(each)} (1)".replace("-", "\\-"), text(_sentence(each.help))]
    lines += _arguments(command, ".SH")
    for each in command.commands if not is_root else ():
        lines += [f".SH {_quoted('Command ' + ' '.join(each.path[1:]))}", *_synopsis(each), ".PP"]
        lines += [*_paragraphs(each.description), *_arguments(each, ".SS")]
        for deeper in each.commands:
            lines += [f".SS {_quoted(' '.join(deeper.path[1:]))}", *_synopsis(deeper), ".PP"]
            lines += [*_paragraphs(deeper.description), *_items((a, a.help) for a in deeper.options)]
    if is_root:
        lines += [".SH ENVIRONMENT", *_pairs(ENVIRONMENT), ".SH FILES", *_pairs(FILES)]
    lines += [".SH EXIT STATUS", *_pairs(EXIT_STATUS)]
    others = [each for each in (root, *root.commands) if each is not command]
    lines += [".SH SEE ALSO", *_see_also(others if is_root else others[:1])]
    return "\n".join(lines) + "\n"


def _synopsis(command: Command) -> list[str]:
    return [f".B {escape(command.name)}", escape(command.usage)] if command.usage else [f".B {escape(command.name)}"]


def _arguments(command: Command, heading: str) -> list[str]:
    lines = []
    shown = [positional for positional in command.positionals if positional.help or positional.choices]
    if shown:
        lines += [f"{heading} ARGUMENTS", *_items((each, each.help) for each in shown)]
    if command.options:
        lines += [f"{heading} OPTIONS", *_items((option, option.help) for option in command.options)]
    return lines


def _items(arguments: Iterable[tuple[Argument, str]]) -> list[str]:
    lines = []
    for argument, help in arguments:
        flags = ", ".join(f"\\fB{escape(flag)}\\fR" for flag in argument.flags)
        value = f"\\fI{escape(argument.name)}\\fR" if argument.name else ""
        lines += [".TP", " ".join(part for part in (flags, value) if part), text(_sentence(help)) or "\\&"]
    return lines


def _pairs(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, what in pairs for line in (".TP", f".B {escape(name)}", text(_sentence(what)))]


def _see_also(commands: Sequence[Command]) -> list[str]:
    pages = [f".BR {escape(_page(command))} (1)" for command in commands]
    return [f"{line}," for line in pages[:-1]] + pages[-1:]


def _paragraphs(description: str) -> list[str]:
    lines: list[str] = []
    for paragraph in filter(None, (part.strip() for part in description.split("\n\n"))):
        lines += [".PP"] * bool(lines) + [text(" ".join(paragraph.split()))]
    return lines or ["\\&"]


def escape(string: str) -> str:
    """Text as roff prints it: backslashes, hyphens that are typed as minus signs, and dots at the start of a line."""
    return _LINE.sub(r"\\&\1", _characters(string))


def text(string: str) -> str:
    """A help text: escaped, with `code` in bold."""
    parts = _CODE.split(string)  # every second part is code
    marked = "".join(f"\\fB{_characters(part)}\\fR" if at % 2 else _characters(part) for at, part in enumerate(parts))
    return _LINE.sub(r"\\&\1", marked)


def _characters(string: str) -> str:
    for character, name in (("\\", "\\e"), ("-", "\\-"), ("…", "..."), ("'", "\\(aq"), ("`", "\\(ga")):
        string = string.replace(character, name)
    return string


def _plain(string: str) -> str:
    return string.replace("`", "")


def _quoted(string: str) -> str:
    return '"' + escape(string).replace('"', "\\(dq") + '"'


def _sentence(string: str) -> str:
    string = " ".join(string.split())
    return string if not string or string.endswith((".", ")", ":")) else f"{string}."


if __name__ == "__main__":  # python -m neutrino.cli.documents.man DIRECTORY SECONDS
    from neutrino import __version__
    from neutrino.cli.documents.commands import describe
    from neutrino.cli.main import build_parser

    write(Path(sys.argv[1]), describe(build_parser()), __version__, int(sys.argv[2]))
