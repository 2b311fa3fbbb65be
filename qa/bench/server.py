"""The server, started as a user does: with the command and a configuration file."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.support import memory

_PROBE = "/v2.0/networks?limit=1"
_START_SECONDS = 120.0
_STOP_SECONDS = 30.0
_UNLIMITED = ("network", "subnet", "port", "security_group", "security_group_rule", "router", "floatingip")


class ServerError(RuntimeError):
    """The server did not start, or did not stop."""


@dataclass(frozen=True)
class Running:
    """A server that responds."""

    url: str
    pid: int
    start_ms: float


def configuration(connection: str, port: int, state: Path, workers: int = 2, more: str = "") -> str:
    """The configuration file of a server without authentication and quotas. Its feed is at feed.sock in `state`.

    `more`: further lines of [DEFAULT].
    """
    quotas = "\n".join(f"quota_{name} = -1" for name in _UNLIMITED)
    # oslo.config would expand a dollar sign as a reference to another option.
    database = connection.replace("$", "$$")
    return f"""[DEFAULT]
bind_host = 127.0.0.1
bind_port = {port}
auth_strategy = noauth
api_workers = {workers}
state_path = {state.absolute()}
{more}
[database]
connection = {database}

[quotas]
{quotas}

[ml2]
project_network_types = vxlan

[ml2_type_vxlan]
vni_ranges = 1:20000
"""


@contextmanager
def running(connection: str, directory: Path, command: Path | None = None, more: str = "") -> Iterator[Running]:
    """A server on this database for the duration of the block, with its files in `directory`."""
    port = _free_port()
    config, log = directory / "neutrino.conf", directory / "server.log"
    config.write_text(configuration(connection, port, directory, more=more), encoding="utf-8")
    program = command or Path(sys.executable).with_name("neutrino")
    if not program.exists():
        raise ServerError("there is no neutrino command beside this Python: install the project first")
    with log.open("ab") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            [program, "server", "--config-file", config], stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        try:
            _await_answer(process, port, log)
            yield Running(f"http://127.0.0.1:{port}", process.pid, (time.perf_counter() - started) * 1000)
        finally:
            _stop(process)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_answer(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up = time.monotonic() + _START_SECONDS
    while not _answers(port):
        if process.poll() is not None:
            raise ServerError(f"the server ended with {process.returncode}:\n{_tail(log)}")
        if time.monotonic() > give_up:
            raise ServerError(f"the server does not answer:\n{_tail(log)}")
        time.sleep(0.01)


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", _PROBE)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate the server; processes that remain after a timeout are killed and reported."""
    family = memory.tree(process.pid)
    process.terminate()
    give_up = time.monotonic() + _STOP_SECONDS
    while (left := _left(process, family)) and time.monotonic() < give_up:
        time.sleep(0.02)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(_STOP_SECONDS)
    if left:
        raise ServerError(f"{len(left)} processes of the server did not end when asked to")


def _left(process: subprocess.Popen[bytes], family: list[int]) -> list[int]:
    """The pids of the server's processes that still run. Reaps the first of them."""
    first = [process.pid] if process.poll() is None else []
    return first + [pid for pid in family if pid != process.pid and memory.alive(pid)]
