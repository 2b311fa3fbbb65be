"""Compares the API of two checkouts: a server of each runs at the same time, and every request goes to both, in turns.

  python -m qa.bench.compare --old ../before/.venv/bin/neutrino [--database NAME] [--repeats N]

Load from outside, disk and caches of the machine meet both servers alike, so the ratio shows a few percent that two
separate runs do not: those differ by more from one minute to the next. Each server has a database of its own; databases of
PostgreSQL and MariaDB are on one database server.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from qa.bench import databases, server
from qa.bench.client import Client, Reply, Target
from qa.bench.operations import HEADERS, OPERATIONS, Ids, prepare
from qa.bench.timing import at_once
from qa.bench.workbench import progress

_SECONDS = 1200.0
CLIENTS = 4
PORTS_OF_CLIENT = 10  # in each round


def compare(old: Client, new: Client, repeats: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of both per operation, and how many times the old one's the new one takes."""
    ids: dict[Client, Ids] = {old: defaultdict(list), new: defaultdict(list)}
    for client in (old, new):
        prepare(client, ids[client])
    figures = {}
    for operation, request in OPERATIONS.items():
        times: dict[Client, list[float]] = {old: [], new: []}
        for number in range(repeats):
            # Who is first changes, for the second request may find processor caches warmer.
            for client in (old, new) if number % 2 else (new, old):
                reply = request(client, ids[client], number)
                times[client].append(reply.millis)
                if operation.startswith("create_"):
                    ids[client][operation].append(str(reply.item()["id"]))
        figures[operation] = _figures(operation, times[old], times[new])
    return figures


def compare_concurrent(old: Client, new: Client, rounds: int) -> dict[str, float]:
    """Ports created by several clients on one network of each server, in turns; the median time of a round of both."""
    body: dict[Client, dict[str, Any]] = {}
    for client in (old, new):
        network = client.post("/networks", {"network": {"name": "together"}}).item()["id"]
        client.post("/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/16"}})
        body[client] = {"port": {"network_id": network}}
    times: dict[Client, list[float]] = {old: [], new: []}
    for number in range(rounds):
        for client in (old, new) if number % 2 else (new, old):
            measured, _ = at_once(
                client.target, [range(PORTS_OF_CLIENT)] * CLIENTS, partial(_create_port, body[client])
            )
            times[client].append(1000 / measured["per_s"])
    return _figures("create_port, 4 clients", times[old], times[new])


def _create_port(body: dict[str, Any], client: Client, _: int) -> Reply:
    return client.post("/ports", body)


def _figures(operation: str, old: Sequence[float], new: Sequence[float]) -> dict[str, float]:
    before, after = statistics.median(old), statistics.median(new)
    progress(f"{operation:23} {before:7.2f} {after:7.2f} {after / before:6.2f}")
    return {"old_ms": round(before, 2), "new_ms": round(after, 2), "ratio": round(after / before, 2)}


def _creator(database: str, stack: ExitStack) -> Callable[[str, Path], str]:
    """Creates an empty database with this name, or in this directory, and returns its connection URL."""
    if database == "sqlite":
        return lambda name, directory: f"sqlite:///{directory}/neutrino.sqlite"
    host = stack.enter_context(databases.running(database))
    return lambda name, directory: str(host.create_database(name))


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the API of two checkouts, request by request")
    parser.add_argument("--old", type=Path, required=True, help="the neutrino command of the other checkout")
    parser.add_argument("--database", choices=databases.NAMES, default="sqlite")
    parser.add_argument("--repeats", type=int, default=200, help="requests per operation and server")
    args = parser.parse_args()
    with ExitStack() as stack:
        clients: list[Client] = []
        create = _creator(args.database, stack)
        for name, command in (("before", args.old), ("after", None)):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running = stack.enter_context(server.running(create(name, directory), directory, command))
            client = Client(Target(running.url, HEADERS, time.monotonic() + _SECONDS))
            stack.callback(client.close)
            clients.append(client)
        old, new = clients
        figures = compare(old, new, args.repeats)
        figures["create_port_together"] = compare_concurrent(old, new, max(4, args.repeats // 20))
    mean = statistics.geometric_mean(each["ratio"] for each in figures.values())
    json.dump({"operations": figures, "geometric_mean": round(mean, 3)}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
