"""The commands of a parser as plain values, from which man pages and shell completion are rendered."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass

from neutrino.cli.parser import Declared, Parser

_DIRECTORY = re.compile(r"(^|_)(state|dir|directory|path)$")
_FILE = re.compile(r"(^|_)(files?|cert|key|ca)$")


@dataclass(frozen=True)
class Argument:
    """An option, or a positional argument if it has no flags."""

    flags: tuple[str, ...]
    name: str  # of its value, as shown; empty: the option takes none
    help: str
    choices: tuple[str, ...] = ()
    kind: str = ""  # "file" or "directory", for completion
    repeatable: bool = False
    required: bool = True


@dataclass(frozen=True)
class Command:
    path: tuple[str, ...]  # ("neutrino", "vm", "create")
    help: str  # one line, as the parent command lists it
    description: str
    usage: str  # the arguments, without the command itself
    options: tuple[Argument, ...]
    positionals: tuple[Argument, ...]
    commands: tuple["Command", ...]

    @property
    def name(self) -> str:
        return " ".join(self.path)

    def walk(self) -> Iterator["Command"]:
        yield self
        for command in self.commands:
            yield from command.walk()


def describe(parser: Parser, path: tuple[str, ...] = (), help: str = "") -> Command:
    """The command of this parser with all its subcommands; commands without a help text are internal, and left out."""
    path = path or (parser.prog,)
    arguments = [_argument(argument) for argument in parser.arguments if argument.action.help is not argparse.SUPPRESS]
    description = parser.description or _sentence(help)
    usage = " ".join(parser.format_usage().split()).removeprefix(f"usage: {parser.prog}").strip()
    options = tuple(argument for argument in arguments if argument.flags)
    positionals = tuple(argument for argument in arguments if not argument.flags)
    commands = tuple(describe(inner, (*path, name), text) for name, (text, inner) in parser.commands.items() if text)
    return Command(path, help, description, usage, options, positionals, commands)


def _argument(declared: Declared) -> Argument:
    action = declared.action
    takes_value = action.nargs != 0
    choices = tuple(map(str, action.choices or ()))
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    name = metavar or ("|".join(choices) if choices else action.dest.upper())
    return Argument(
        flags=tuple(action.option_strings),
        name=name if takes_value else "",
        help=(action.help or "") % vars(action),
        choices=choices,
        kind=_kind(action.dest, metavar) if takes_value and not choices else "",
        repeatable=declared.repeatable,
        required=action.required,
    )


def _kind(dest: str, metavar: str) -> str:
    if metavar in ("FILE", "DIRECTORY"):
        return metavar.lower()
    return "directory" if _DIRECTORY.search(dest) else "file" if _FILE.search(dest) else ""


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""
