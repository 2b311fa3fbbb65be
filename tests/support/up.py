"""`neutrino up`, started and ended as a user does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.launcher import PROGRAM, launch
from tests.support.machine import Machine
from tests.support.memory import alive, tree
from tests.support.ports import free_port
from tests.support.process import Process, wait_until

READY = "Ctrl-C ends it"


@dataclass
class Up:
    process: Process
    output: Path
    url: str

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def ctrl_c(self) -> int:
        """Send SIGINT to the whole process group, as a terminal does; returns the exit status."""
        family = tree(self.process.pid)
        os.killpg(self.process.pid, signal.SIGINT)
        status = self.process.wait(timeout=60)
        wait_until(
            lambda: not any(map(alive, family)), timeout=30, what="a process of neutrino up", failed=lambda: None
        )
        return status


@contextmanager
def up(
    directory: Path, *arguments: str, path: str | None = None, on: Machine | None = None, before: Sequence[str] = ()
) -> Iterator[Up]:
    """`neutrino up` in a directory, once it has printed the next steps."""
    if on is not None:
        arguments = (*arguments, "--state", str(directory / "state"))
    else:
        arguments = (*arguments, "--no-dataplane")  # do not create devices on this machine
    port = free_port()
    output = directory / "output"
    environment = {"PATH": path or f"{PROGRAM.parent}:{os.environ['PATH']}", "HOME": str(directory)}
    words = ["up", "--port", str(port), *arguments]
    with output.open("wb") as file:
        process: Process
        if before:
            command = [*before, str(PROGRAM), *words]
            process = subprocess.Popen(
                on.inside(command) if on is not None else command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        else:
            inside, here = (on.pid, Path("/")) if on is not None else (None, directory)  # "/" as nsenter has it
            process = launch(words, file.fileno(), environment=environment, directory=here, inside=inside)
    running = Up(process, output, f"http://127.0.0.1:{port}")
    try:
        wait_until(
            lambda: READY in running.text,
            timeout=60,
            what="neutrino up",
            failed=lambda: None if process.poll() is None else f"ended with {process.returncode}:\n{running.text}",
        )
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=60)


def commands(text: str) -> list[str]:
    return [line.strip() for line in re.findall(r"^  \S.*$", text, re.MULTILINE)]
