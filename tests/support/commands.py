"""Runs `neutrino` commands to their ends: `run_neutrino(["status", "--endpoint", "http://127.0.0.1:1"])`.

`leaves` lists the commands of the parser, with words for their required arguments.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from neutrino.cli.parser import Parser
from neutrino.lab.timing import scaled
from tests.support.launcher import launch

SECONDS = scaled(60.0)
HUNG = -999
# Arguments of commands that check more than argparse knows.
ARGUMENTS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("host", "roles"): ("none", "--roles", "l2"),
    ("history",): ("port", "none"),
}


@dataclass(frozen=True)
class Leaf:
    words: tuple[str, ...]  # the command and its action
    arguments: tuple[str, ...]  # a value for each required argument
    options: frozenset[str]

    def __str__(self) -> str:
        return " ".join(self.words)


def leaves(parser: Parser, words: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """All commands, with the action where it is one of several words."""
    for name, (_, inner) in parser.commands.items():
        yield from leaves(inner, (*words, name))
    if parser.commands:
        return
    arguments = [declared.action for declared in parser.arguments]
    positional = [each for each in arguments if not each.option_strings]
    required = [each for each in arguments if each.option_strings and each.required]
    options = frozenset(option for each in arguments for option in each.option_strings)
    first = positional[0] if positional else None
    actions: Sequence[str | None] = list(first.choices) if first is not None and first.choices else [None]
    others = positional[1:] if actions != [None] else positional
    values = [word for each in required for word in (each.option_strings[0], _value(each))]
    values += [_value(each) for each in others if each.nargs != "*"]
    for word in actions:
        found = (*words, word) if word else words
        yield Leaf(found, ARGUMENTS.get(found, tuple(values)), options)


def _value(action: argparse.Action) -> str:
    if action.choices:
        return str(next(iter(action.choices)))
    return "1" if action.type in (int, float) else "none"


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    error: str


def run_neutrino(
    argv: Sequence[str],
    *,
    output: str = "",
    unprivileged: bool = False,
    environment: Mapping[str, str] | None = None,
    directory: str | Path = "/",
    inside: int | None = None,
) -> Done:
    """Run a command to its end. `output`: `closed`, `broken` (a pipe without a reader), or a path such as /dev/full.

    `environment` has further variables; `inside` is the pid of a process whose network and mount namespaces it gets.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        with _opened(output, out) as standard:
            process = launch(
                argv,
                standard,
                error.fileno(),
                environment={**os.environ, **(environment or {})},
                directory=directory,
                inside=inside,
                unprivileged=unprivileged,
            )
        try:
            status = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            status = HUNG
        texts = [_read(file) for file in (out, error)]
    return Done(status, *texts)


@contextlib.contextmanager
def _opened(output: str, file: IO[bytes]) -> Iterator[int | None]:
    if output == "broken":
        reader, writer = os.pipe()
        os.close(reader)
    elif output.startswith("/"):
        writer = os.open(output, os.O_WRONLY)
    else:
        yield None if output == "closed" else file.fileno()
        return
    yield writer
    os.close(writer)


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
