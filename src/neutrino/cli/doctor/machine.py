"""The machine that is examined, as the checks see it: programs, files and clock. All reading, nothing is changed."""

import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

SECONDS = 10.0  # for a program


@dataclass(frozen=True, slots=True)
class Done:
    """A program that has ended; status -1: it could not be started, or was ended after its time."""

    status: int
    out: str = ""
    error: str = ""


class Machine(Protocol):
    def run(self, command: Sequence[str], seconds: float = SECONDS) -> Done: ...

    def which(self, program: str) -> str | None: ...

    def read(self, path: str) -> str | None:
        """Read the text of a file; None if it cannot be read."""
        ...

    def free(self, path: str) -> tuple[int, int]:
        """Return size and free bytes of the file system of a path."""
        ...

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class ThisMachine:
    def run(self, command: Sequence[str], seconds: float = SECONDS) -> Done:
        try:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=seconds
            )
        except subprocess.TimeoutExpired:
            return Done(-1, error=f"{command[0]} did not end within {seconds:g} s")
        except OSError as error:
            return Done(-1, error=f"{command[0]}: {error.strerror or error}")
        return Done(done.returncode, done.stdout, done.stderr)

    def which(self, program: str) -> str | None:
        return shutil.which(program)

    def read(self, path: str) -> str | None:
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    def free(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
