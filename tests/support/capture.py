"""Capture packets on a device with tcpdump, for the duration of a `with` block."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from neutrino.lab.errors import LabError

START_SECONDS = 30.0
READY = "listening on"


class Capture:
    """`lines`: the output of tcpdump so far; `wait_for` waits for a text in it."""

    def __init__(
        self,
        start: Callable[[Sequence[str]], subprocess.Popen[str]],
        device: str,
        expression: str,
        *,
        direction: str = "inout",
    ) -> None:
        options = ["-i", device, "-Q", direction, "-n", "-e", "-l", "--immediate-mode", "-Z", "root"]
        self._argv = ["tcpdump", *options, *([expression] if expression else [])]
        self._start = start
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._ready = False
        self._stderr = ""

    def __enter__(self) -> Self:
        self._process = self._start(self._argv)
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_packets, self._read_stderr)]
        for reader in self._readers:
            reader.start()
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._process.poll() is not None, START_SECONDS)
        if not self._ready:
            self.stop()
            raise LabError(f"tcpdump does not start: {self._stderr.strip()}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, wanted: str, timeout: float = 20.0) -> None:
        """Wait for a line with this text."""
        with self._changed:
            if not self._changed.wait_for(lambda: any(wanted in line for line in self._lines), timeout):
                seen = "\n".join(self._lines[-50:])
                raise LabError(f"no packet with {wanted!r} was seen in {timeout:.0f} s, only:\n{seen}")

    def wait_until_quiet(self, seconds: float = 0.3, timeout: float = 5.0) -> None:
        """Wait until no packet is seen for a while; returns at the timeout if packets never cease."""
        give_up = time.monotonic() + timeout
        with self._changed:
            while time.monotonic() < give_up and self._changed.wait(seconds):
                pass

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(START_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for reader in self._readers:
            reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read_packets(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line.rstrip("\n"))
                self._changed.notify_all()

    def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            with self._changed:
                self._stderr += line
                self._ready = self._ready or READY in line
                self._changed.notify_all()
        self._process.wait()
        with self._changed:
            self._changed.notify_all()
