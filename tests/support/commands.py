"""Runs `neutrino` commands in forked children of one process that has loaded the code: a hundred runs in a few seconds.

    with Commands() as commands:
        done = commands(["status", "--endpoint", "http://127.0.0.1:1"])

`Commands("neutrino.cli.agent")` loads no more than that; `inside` runs a command in the namespaces of a lab's host.
`leaves` lists the commands of the parser, with words for their required arguments.
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import functools
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from neutrino.cli.parser import Parser
from neutrino.lab.timing import Deadline

SECONDS = 60.0
NOBODY = 65534
ALL = (
    "neutrino.cli.agent",
    "neutrino.cli.database",
    "neutrino.cli.doctor.agent",
    "neutrino.cli.lab",
    "neutrino.cli.server",
    "neutrino.cli.status.command",
    "neutrino.cli.up.command",
    "neutrino.server.main",
)
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


class Commands:
    def __init__(self, *modules: str) -> None:
        self._modules = modules or ALL

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.commands", *self._modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def __call__(
        self,
        argv: Sequence[str],
        *,
        output: str = "",
        unprivileged: bool = False,
        environment: Mapping[str, str] | None = None,
        directory: str | Path = "/",
        inside: int | None = None,
    ) -> Done:
        """`output`: `closed`, `broken` (a pipe without a reader), or a path such as /dev/full.

        `inside`: the pid of a process whose network and mount namespaces the command gets.
        """
        request = {"argv": list(argv), "output": output, "unprivileged": unprivileged, "cwd": str(directory)}
        request |= {"inside": inside}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**request, "environment": dict(environment or {})}) + "\n")
        self._process.stdin.flush()
        return Done(**json.loads(self._process.stdout.readline()))


@functools.cache
def loaded(*modules: str) -> Commands:
    """One for all tests of this process; it ends with it."""
    commands = Commands(*modules)
    commands.start()
    atexit.register(commands.stop)
    return commands


# --- in the process that forks ----------------------------------------------------------------------------------------


def _serve() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_run(json.loads(line))) + "\n")
        sys.stdout.flush()


def _run(request: Mapping[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        child = os.fork()
        if child == 0:
            _child(request, out.fileno(), error.fileno())
        status = _wait(child)
        texts = []
        for file in (out, error):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return {"status": status, "out": texts[0], "error": texts[1]}


def _wait(child: int) -> int:
    deadline = Deadline(SECONDS)
    while not deadline.has_passed():
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -999  # it hung


def _child(request: Mapping[str, Any], out: int, error: int) -> NoReturn:
    status = 99
    try:
        output = request["output"]
        null = os.open(os.devnull, os.O_RDONLY)
        if output == "broken":
            reader, target = os.pipe()
            os.close(reader)
        else:
            target = os.open(output, os.O_WRONLY) if output.startswith("/") else out
        for number, descriptor in enumerate((null, target, error)):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, m, closefd=False) for n, m in ((0, "r"), (1, "w"), (2, "w")))
        if output == "closed":
            os.close(1)
            sys.stdout = None  # as Python has it then
        if request["inside"] is not None:
            _enter(request["inside"])
        os.chdir(request["cwd"])
        if request["unprivileged"]:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        os.environ.update(request["environment"])
        from neutrino.cli.main import main

        status = main(request["argv"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()  # as the interpreter does at its end
        except (OSError, AttributeError):
            status = 120
        sys.stderr.flush()
        os._exit(status)


def _enter(process: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    opened = [os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ("net", "mnt")]
    for namespace in opened:
        if libc.setns(namespace, 0) != 0:
            raise OSError(ctypes.get_errno(), f"the namespaces of {process} cannot be entered")


if __name__ == "__main__":
    _serve()
