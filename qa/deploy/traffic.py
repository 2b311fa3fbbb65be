"""Traffic that goes on during a step: pings every 20 ms, and requests through the load balancer."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

INTERVAL = 0.02
ANSWER = re.compile(r"^(?:\[([\d.]+)\])?.*icmp_seq=(\d+) ttl", re.MULTILINE)
SENT = re.compile(r"^(\d+) packets transmitted", re.MULTILINE)
ON_THE_WAY = 5  # the last ones, whose answers may not have come yet


@dataclass(frozen=True)
class PingCount:
    sent: int
    lost: int
    longest: float  # seconds between two answers, less the interval
    ended: float = 0.0  # the longest gap, as a time of the clock; 0: with the path, or not known


def counted(text: str) -> PingCount:
    """Of the output of ping. A path that ends to answer has lost all that was sent afterwards."""
    times = {int(found[2]): float(found[1] or 0) for found in ANSWER.finditer(text)}
    answered = sorted(times)
    if not answered:
        return PingCount(0, 0, 0.0)
    summary = SENT.search(text)  # none if it was killed with its machine
    sent = int(summary[1]) if summary else answered[-1]
    if sent - answered[-1] <= ON_THE_WAY:
        sent = answered[-1]
    gaps = [(later - earlier, later) for earlier, later in zip([0, *answered], [*answered, sent + 1], strict=True)]
    longest, end = max(gaps)
    return PingCount(sent, sent - len(answered), (longest - 1) * INTERVAL, times.get(end, 0.0) if longest > 1 else 0.0)


@dataclass(eq=False)
class Ping:
    """One path. `words`: the beginning of the command, which enters the namespace of the sender."""

    name: str
    words: Sequence[str]
    target: str
    log: Path
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("wb") as file:
            # The signal that ends it is for ping, which handles it, and not for nsenter, which waits for ping.
            command = [
                "env",
                "--ignore-signal=INT",
                *self.words,
                "ping",
                "-n",
                "-D",
                "-i",
                str(INTERVAL),
                "-W",
                "1",
                self.target,
            ]
            self._process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)

    def stop(self) -> PingCount:
        """End it, and count."""
        assert self._process
        for number in (signal.SIGINT, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
                break
        return counted(self.log.read_text())


@dataclass(eq=False)
class ApiLoad:
    """Clients that create, read and delete networks."""

    url: str
    token: Callable[[], str]
    ca: str
    clients: int = 3
    pause: float = 0.1
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    longest: float = 0.0
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(self.clients)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(90)

    def _run(self, number: int) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.verify = self.ca
            while not self._stop.wait(self.pause):
                made = self._do(session, "POST", "networks", {"network": {"name": f"load-{number}"}})
                self._do(session, "GET", "networks?limit=1&fields=id")
                if made:
                    self._do(session, "DELETE", f"networks/{made['network']['id']}")

    def _do(self, session: requests.Session, method: str, path: str, body: Any = None) -> dict[str, dict[str, str]]:
        began = time.monotonic()
        found: dict[str, dict[str, str]] = {}
        try:
            answer = session.request(
                method, f"{self.url}/v2.0/{path}", json=body, timeout=60, headers={"X-Auth-Token": self.token()}
            )
            reason = "" if answer.status_code < 400 else f"{method} {answer.status_code} {answer.text[:200]}"
            if not reason and answer.content:
                found = answer.json()
        except requests.RequestException as error:
            reason = f"{method} {error!r}"
        self.longest = max(self.longest, time.monotonic() - began)
        self.outcomes["failed" if reason else "succeeded"] += 1
        if reason:
            self.failures.append(f"{time.strftime('%H:%M:%S')} {reason}")
        return found
