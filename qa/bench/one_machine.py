"""Benchmark of a whole cloud on one machine: what a client waits for while the agent and the switch work beside the server.

  python -m qa.bench.one_machine [--rounds 8] [--count 20] [--out docs/benchmarks-one-machine.json] [--check]
  python -m qa.bench.one_machine --show docs/benchmarks-one-machine.json

Two servers with the same configuration run all the time: one of a lab with one host, so with agent, Open vSwitch and
dnsmasq beside it, as `neutrino up` starts them, and one without any agent. Rounds alternate, and in each of them only one
server has requests. A round of the lab ends when its processes are quiet, so that the other server has the machine alone.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neutrino.lab.hosts.processes import read_members
from neutrino.lab.lab import AGENT_NICE
from qa.bench import command, processor, server
from qa.bench.client import Client, Reply, Target
from qa.bench.machine import busy, machine
from qa.bench.operations import HEADERS
from qa.bench.timing import at_once
from qa.bench.workbench import identity, progress
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab

WANTED = 1.5  # times the latency without agents
CLIENTS = 4
HOST = "h1"
_SECONDS = 3600.0
_QUIET_SECONDS = 20.0
_INTERVAL = 0.4


@dataclass
class Side:
    """One of the two servers, its times in milliseconds and its processor time in seconds, by operation."""

    name: str
    client: Client
    spent: Callable[[], Mapping[str, float]]
    millis: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    processor: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))
    requests: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def measure(self, operation: str, work: Callable[[], Sequence[Reply]]) -> list[str]:
        """Do the work, wait until everything that it caused is done, and account both. Gives the ids of the replies."""
        before = self.spent()
        replies = work()
        self.millis[operation] += [reply.millis for reply in replies]
        self.requests[operation] += len(replies)
        for part, seconds in quiet(self.spent).items():
            self.processor[operation][part] += seconds - before.get(part, 0.0)
        return [identity(reply) for reply in replies if reply.content]


def quiet(spent: Callable[[], Mapping[str, float]], hosts: int = 1) -> Mapping[str, float]:
    """Wait until the processes do little: below a tenth of a core for each host, whose agent looks for drift."""
    give_up = time.monotonic() + _QUIET_SECONDS
    before = spent()
    while True:
        time.sleep(_INTERVAL)
        now = spent()
        if sum(now.values()) - sum(before.values()) <= 0.1 * hosts * _INTERVAL or time.monotonic() > give_up:
            return now
        before = now


def run_round(side: Side, number: int, count: int) -> None:
    """A round of requests; everything that it has created is deleted at its end."""
    client = side.client

    def create_subnet(network: str) -> Reply:
        body = {"network_id": network, "ip_version": 4, "cidr": "10.0.0.0/16"}
        return client.post("/subnets", {"subnet": body})

    networks = side.measure(
        "create network",
        lambda: [client.post("/networks", {"network": {"name": f"r{number}-{n}"}}) for n in range(count)],
    )
    side.measure("create subnet", lambda: [create_subnet(network) for network in networks])
    body = {"port": {"network_id": networks[0]}}
    ports = side.measure("create port", lambda: [client.post("/ports", body) for _ in range(count)])
    bound = {"port": {"network_id": networks[1], "device_owner": "compute:nova", "binding:host_id": HOST}}
    ports += side.measure("create bound port", lambda: [client.post("/ports", bound) for _ in range(count)])
    side.measure(
        "update port", lambda: [client.put(f"/ports/{port}", {"port": {"name": "new"}}) for port in ports[:count]]
    )
    side.measure("show port", lambda: [client.get(f"/ports/{port}") for port in ports[:count]])
    shares = [range(count)] * CLIENTS
    ports += side.measure(
        f"create port, {CLIENTS} clients",
        lambda: at_once(client.target, shares, lambda each, _: each.post("/ports", body))[1],
    )
    side.measure("delete port", lambda: [client.delete(f"/ports/{port}") for port in ports])
    side.measure("delete network", lambda: [client.delete(f"/networks/{network}") for network in networks])


# --- processor time ---------------------------------------------------------------------------------------------------


def lab_time(lab: Lab) -> Mapping[str, float]:
    """The processor time of the lab's processes by part, programs that the agent has run included."""
    spent: dict[str, float] = defaultdict(float)
    for pid in read_members(lab.paths.state):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        own, children = processor.of_process(pid)
        spent[_part(words)] += own
        spent["programs"] += children
    return spent


def yield_to_clients(lab: Lab) -> None:
    """Give the agents the priority that `neutrino up` and `neutrino lab up` start them with."""
    for host in lab.hosts:
        for thread in Path(f"/proc/{lab.agent_pid(host)}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), AGENT_NICE)


def _part(words: str) -> str:
    parts = ("ovs-vswitchd", "ovsdb-server", "dnsmasq", "neutrino agent", "feed", "metadata", "worker", "server")
    return next((part for part in parts if part in words), "other")


# --- figures ----------------------------------------------------------------------------------------------------------


def figures(sides: Iterable[Side]) -> dict[str, Any]:
    return {
        side.name: {
            operation: {
                "p50_ms": round(statistics.median(millis), 2),
                "p95_ms": round(sorted(millis)[int(len(millis) * 0.95)], 2),
                "processor_ms": {
                    part: round(1000 * seconds / side.requests[operation], 2)
                    for part, seconds in sorted(side.processor[operation].items())
                    if 1000 * seconds / side.requests[operation] >= 0.05
                },
            }
            for operation, millis in side.millis.items()
        }
        for side in sides
    }


def ratios(raw: Mapping[str, Any]) -> dict[str, float]:
    without, beside = raw["without"], raw["with"]
    return {operation: beside[operation]["p50_ms"] / without[operation]["p50_ms"] for operation in without}


def document(raw: Mapping[str, Any]) -> str:
    lines = [
        "| operation | without agents | with agents | 95th percentile | ratio | wanted | met | processor time |",
        "|---|---:|---:|---:|---:|---:|:---:|---|",
    ]
    for operation, ratio in ratios(raw).items():
        without, beside = raw["without"][operation], raw["with"][operation]
        shares = ", ".join(f"{part} {millis:.1f}" for part, millis in _largest(beside["processor_ms"]))
        total = sum(beside["processor_ms"].values())
        lines.append(
            f"| {operation} | {without['p50_ms']:.2f} ms | {beside['p50_ms']:.2f} ms | {beside['p95_ms']:.1f} ms "
            f"| {ratio:.2f} × | {WANTED} × | {'yes' if ratio <= WANTED else '**no**'} | {total:.1f} ms: {shares} |"
        )
    return "\n".join(lines) + "\n"


def _largest(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda part: -part[1])[:5]


def measure(rounds: int, count: int) -> dict[str, Any]:
    deadline = time.monotonic() + _SECONDS
    with temporary_lab(hosts=1) as lab, tempfile.TemporaryDirectory() as name:
        yield_to_clients(lab)
        directory = Path(name)
        with server.running(f"sqlite:///{directory}/neutrino.sqlite", directory) as alone:
            sides = (
                Side(
                    "without",
                    Client(Target(alone.url, HEADERS, deadline)),
                    lambda: {"server": processor.seconds([alone.pid])},
                ),
                Side("with", Client(Target(lab.settings.url, HEADERS, deadline)), lambda: lab_time(lab)),
            )
            for side in sides:
                run_round(side, 0, 2)
                for kept in (side.millis, side.processor, side.requests):
                    kept.clear()  # the first requests of a server are slower
            for number in range(rounds):
                progress(f"round {number + 1} of {rounds}")
                for side in sides if number % 2 else reversed(sides):
                    run_round(side, number + 1, count)
            for side in sides:
                side.client.close()
    return figures(sides)


def main(arguments: list[str] | None = None) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--count", type=int, default=20, help="requests of an operation in a round")
    command.add_check(parser)
    options = parser.parse_args(arguments)

    def measured() -> dict[str, Any]:
        before = {"machine": machine(), "busy_before": busy()}
        return {**before, **measure(options.rounds, options.count), "busy_after": busy()}

    return command.run(options, measured, document, missed, check=options.check)


def missed(raw: Mapping[str, Any]) -> list[str]:
    return [f"{operation}: {ratio:.2f} ×" for operation, ratio in ratios(raw).items() if ratio > WANTED]


if __name__ == "__main__":
    sys.exit(main())
