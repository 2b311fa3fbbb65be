"""The real `openstack` command line: as a program, and the same code many times in one process."""

from __future__ import annotations

import json
import os
import select
import shlex
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

PROGRAM = Path(sys.executable).with_name("openstack")
SECONDS = 120


class CommandFailed(AssertionError):
    """A command ended with another status than 0; its message is part of the error."""


def environment(home: Path, **variables: str) -> dict[str, str]:
    """Nothing of the user's own clouds."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "NO_PROXY": "127.0.0.1", **variables}


def run_program(command: str, variables: dict[str, str]) -> str:
    """The output of `openstack COMMAND`, typed by a user."""
    done = subprocess.run(
        [PROGRAM, *shlex.split(command)],
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise CommandFailed(f"openstack {command}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Shell:
    """`shell("network create blue")`: runs the command; its output is parsed if it is JSON."""

    def __init__(self, variables: dict[str, str]) -> None:
        self._variables = variables
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("shell_program.py")],
            env=self._variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __call__(self, command: str) -> None:
        """A command that prints nothing of interest: set, unset, delete."""
        self._run(shlex.split(command))

    def json(self, command: str) -> Any:
        """A command that prints an object or a list."""
        return json.loads(self._run([*shlex.split(command), "-f", "json"]))

    def refused(self, command: str) -> str:
        """The message of a command that must not succeed."""
        try:
            self._run(shlex.split(command))
        except CommandFailed as failure:
            return str(failure)
        raise AssertionError(f"openstack {command} was not refused")

    def run(self, arguments: list[str]) -> tuple[int, str, str]:
        """The status of a command, its output, and its errors."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        status, out, err = json.loads(self._line(self._process.stdout))
        return int(status or 0), str(out), str(err)

    def _run(self, arguments: list[str]) -> str:
        status, out, err = self.run(arguments)
        if status:
            raise CommandFailed(f"openstack {shlex.join(arguments)}: {status}\n{out}{err}")
        return out

    def _line(self, stream: IO[str] | None) -> str:
        assert stream is not None
        readable, _, _ = select.select([stream], [], [], SECONDS)  # one line at a time: nothing waits in its buffer
        line = stream.readline() if readable else ""
        if not line:
            raise CommandFailed("the openstack command gives no answer")
        return line
