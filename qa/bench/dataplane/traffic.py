"""Traffic between two machines of the lab: what passes in some seconds, by iperf3 and by `endpoint.py`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from neutrino.lab.errors import LabError
from qa.takeover.lab.paths import TrafficPath

FIRST_PORT, LAST_PORT = 7000, 7099  # that servers listen on: a security group has to let these in
PARALLEL = 32  # connections that are being opened at a time
SMALL = 64  # bytes of a datagram
# Before other processes, as the switch: on a busy machine traffic would measure these.
_FIRST = ("nice", "-n", "-20")
_ENDPOINT = (*_FIRST, sys.executable, "-P", str(Path(__file__).with_name("endpoint.py")))
_IPERF = (*_FIRST, "iperf3")
_PATIENCE = 30.0  # seconds beyond those of the measurement


class Machines(Protocol):
    """Where commands run by the name of the machine: a `Lab`, for example."""

    def run(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]: ...

    def popen(self, where: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[str]: ...


@dataclass(frozen=True)
class Measured:
    """What one measurement has found: the figure, and how many units have passed."""

    value: float
    units: float


@dataclass(frozen=True)
class Metric:
    """A figure of a path. `unit` is that of the table, `per`: what the switch's processor time is divided by."""

    name: str
    unit: str
    per: str
    wanted: float  # times Neutron's
    less_is_better: bool
    measure: Callable[[Machines, TrafficPath, float], Measured]


def throughput(machines: Machines, path: TrafficPath, seconds: float) -> Measured:
    ended = _iperf(machines, path, seconds)["sum_received"]
    return Measured(ended["bits_per_second"] / 1e6, ended["bytes"] / 1e6)


def packets(machines: Machines, path: TrafficPath, seconds: float) -> Measured:
    """Small datagrams that arrive, while as many as possible are sent."""
    ended = _iperf(machines, path, seconds, "--udp", "--bitrate", "0", "--length", str(SMALL))["sum"]
    arrived = ended["packets"] - ended["lost_packets"]
    return Measured(arrived / ended["seconds"] / 1000, arrived / 1000)


def connections(machines: Machines, path: TrafficPath, seconds: float) -> Measured:
    with _listening(machines, path, [*_ENDPOINT, "accept", str(FIRST_PORT + 1)]):
        words = ["connect", path.target, str(FIRST_PORT + 1), str(seconds), str(PARALLEL)]
        found = _json(machines, path, [*_ENDPOINT, *words], seconds)
    if found["failed"]:
        raise LabError(f"{path.name}: {found['failed']} of {found['connections']} connections have failed")
    return Measured(found["connections"] / found["seconds"], found["connections"])


def round_trips(machines: Machines, path: TrafficPath, seconds: float) -> Measured:
    with _listening(machines, path, [*_ENDPOINT, "echo", str(FIRST_PORT + 2)]):
        words = ["ping", path.target, str(FIRST_PORT + 2), str(seconds)]
        found = _json(machines, path, [*_ENDPOINT, *words], seconds)
    return Measured(found["p99_us"], found["round_trips"])


METRICS = (
    Metric("throughput", "Mbit/s", "MB", 1.0, False, throughput),
    Metric("packets", "1000/s", "1000 packets", 1.0, False, packets),
    Metric("new connections", "/s", "connection", 1.2, False, connections),
    Metric("round trip, 99th percentile", "µs", "round trip", 1.0, True, round_trips),
)


def _iperf(machines: Machines, path: TrafficPath, seconds: float, *options: str) -> Mapping[str, Any]:
    port = ["--port", str(FIRST_PORT)]
    with _listening(machines, path, [*_IPERF, "--server", "--one-off", "--forceflush", *port], "Server listening"):
        client = [*_IPERF, "--client", path.target, *port, "--json", "--time", f"{seconds:.0f}", *options]
        found = _json(machines, path, client, seconds)
    if "error" in found:
        raise LabError(f"{path.name}: iperf3: {found['error']}")
    ended: Mapping[str, Any] = found["end"]
    return ended


@contextmanager
def _listening(machines: Machines, path: TrafficPath, argv: Sequence[str], word: str = "ready") -> Iterator[None]:
    """A server on the receiving machine for the duration of the block."""
    with machines.popen(path.receiver, argv, stderr=subprocess.STDOUT) as server:
        try:
            assert server.stdout is not None
            said = ""
            while word not in said:
                line = server.stdout.readline()
                if not line:
                    raise LabError(f"{path.name}: {argv[0]} ended: {said}")
                said += line
            yield
        finally:
            server.send_signal(signal.SIGKILL)


def _json(machines: Machines, path: TrafficPath, argv: Sequence[str], seconds: float) -> dict[str, Any]:
    done = machines.run(path.source, argv, check=False, timeout=seconds + _PATIENCE)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise LabError(f"{path.name}: {' '.join(argv)}: {(done.stderr or done.stdout).strip()}") from None
    return found
