"""A server with worker processes that a test may kill, and clients that retry."""

from __future__ import annotations

import http.client
import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.process import TemporaryServer, wait_until

WORKERS = 2
SECONDS = 60.0  # how long a client retries


class LiveServer(TemporaryServer):
    name = "live"

    def __init__(self, configuration: str, python_path: str = "") -> None:
        super().__init__()
        self.port = free_port()
        self._configuration = configuration
        self._python_path = python_path

    def start(self) -> None:
        text = self._configuration.replace(
            "[DEFAULT]",
            f"[DEFAULT]\nbind_port = {self.port}\napi_workers = {WORKERS}\nstate_path = {self.directory}",
            1,
        )
        config = self.write("neutrino.conf", text)
        program = Path(sys.executable).with_name("neutrino")
        env = {"PYTHONPATH": self._python_path} if self._python_path else {}
        # A worker that receives SIGTERM before it serves ignores it: wait for all of them.
        self.spawn([program, "server", "--config-file", config], env, ready=lambda: self.started() == WORKERS)

    def started(self) -> int:
        """How many workers have begun to serve since the start."""
        return (self.directory / "neutrino-0.log").read_text(errors="replace").count("Started worker-")

    def workers(self) -> list[int]:
        """The processes that serve requests."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            if parent in self.pids and b"resource_tracker" not in command and b"server feed" not in command:
                found.append(int(entry.name))
        return sorted(found)

    def kill_worker(self, pid: int | None = None) -> int:
        """Kill one worker and wait until another has replaced it; gives the process id of the killed one."""
        before, count = self.workers(), self.started()
        victim = before[0] if pid is None else pid
        assert victim in before
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: self.started() > count, timeout=SECONDS, what="a new worker", failed=lambda: None)
        return victim


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any


class Client:
    """Requests of an administrator, each on a connection of its own."""

    def __init__(self, port: int, project: str = "admin") -> None:
        self._port = port
        self._project = project

    def once(self, method: str, path: str, body: Any = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=SECONDS)
        headers: Mapping[str, str] = {"Content-Type": "application/json", "X-Project-Id": self._project}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), dict(headers))
            response = connection.getresponse()
            data = response.read()
        finally:
            connection.close()
        return Answer(response.status, json.loads(data) if data else None)

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """Retry while the connection fails; any response is returned."""
        give_up = time.monotonic() + SECONDS
        while True:
            try:
                return self.once(method, path, body)
            except (OSError, http.client.HTTPException):
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.02)

    def make(self, kind: str, **values: Any) -> dict[str, Any]:
        answer = self.call("POST", f"/v2.0/{kind}s", {kind: values})
        assert answer.status == 201, answer
        made: dict[str, Any] = answer.body[kind]
        return made
