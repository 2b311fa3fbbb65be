"""The process of the meters, as the run uses it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from neutrino.lab.errors import LabError
from qa.takeover.lab.meters.measurements import Measurements, Plan
from tests.support.process import ENDS_WITH_US


class RunningMeters:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self) -> Measurements:
        """All measurements since the start."""
        self.write("read")
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise LabError(f"the process of the meters ended with {self._process.wait()}")
        return msgspec.json.decode(line, type=Measurements)

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()


@contextmanager
def running(plan: Plan) -> Iterator[RunningMeters]:
    command = [*ENDS_WITH_US, sys.executable, "-m", "qa.takeover.lab.meters"]
    with subprocess.Popen(
        command, text=True, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        meters = RunningMeters(process)
        try:
            meters.write(msgspec.json.encode(plan).decode())
            yield meters
        finally:
            process.kill()
