"""Round trips, statements and processor time of each operation on a database server.

  python -m qa.bench.statements [--database postgresql|mariadb] [--command .../neutrino] [--repeats N] [--show NAME]
                                   [--agents]

The server's connections go through a proxy, which counts: so the figures are those of the real drivers, and another
checkout is measured with --command. Counts are medians over the requests, which leaves out what other processes (the
feed) send now and then; processor time is the mean, of all processes of the server and of the database. `--show` prints
the statements of one operation's last request. With `--agents` networks and routers are scheduled to agents, and ports
wait for their DHCP agents.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from qa.bench import agents, databases, server
from qa.bench.client import Client, Target
from qa.bench.observed_connections import Decoder, MariaDecoder, Observed, PostgresDecoder, observed
from qa.bench.operations import HEADERS, OPERATIONS, Ids, prepare
from qa.bench.workbench import progress
from tests.support import memory

_SECONDS = 900.0
_DECODERS: dict[str, Callable[[], Decoder]] = {"postgresql": PostgresDecoder, "mariadb": MariaDecoder}
_QUIET_SECONDS = 0.004  # for what a request sends after its response


@dataclass(frozen=True)
class Cost:
    """What one request of an operation takes."""

    operation: str
    trips: float
    statements: float
    kilobytes: float
    server_ms: float  # processor time
    database_ms: float
    wall_ms: float


def processor_seconds(roots: list[int]) -> float:
    """Processor time so far of all threads of these processes and their descendants (PostgreSQL has one per connection)."""
    total = 0
    for pid in {pid for root in roots for pid in memory.tree(root)}:
        for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(task.read_text().split()[0])
            except OSError:
                continue  # the thread ended meanwhile
    return total / 1e9


def measure(
    client: Client, counts: Observed, pids: tuple[list[int], list[int]], repeats: int, show: str | None
) -> list[Cost]:
    ids: Ids = defaultdict(list)
    prepare(client, ids)
    costs = []
    for operation, request in OPERATIONS.items():
        trips, numbers, sizes, times = [], [], [], []
        before = [processor_seconds(some) for some in pids]
        for number in range(repeats):
            counts.clear()
            reply = request(client, ids, number)
            if operation.startswith("create_"):
                ids[operation].append(str(reply.item()["id"]))
            times.append(reply.millis)
            time.sleep(_QUIET_SECONDS)
            trips.append(counts.trips)
            numbers.append(len(counts.statements))
            sizes.append(counts.bytes)
        if show in (operation, "all"):
            print(f"--- {operation}")
            for text in counts.statements:
                print(" ".join(text.split()))
        spent = [(processor_seconds(some) - was) * 1000 / repeats for some, was in zip(pids, before, strict=True)]
        cost = Cost(
            operation,
            statistics.median(trips),
            statistics.median(numbers),
            round(statistics.median(sizes) / 1024, 1),
            round(spent[0], 2),
            round(spent[1], 2),
            round(statistics.median(times), 2),
        )
        costs.append(cost)
        progress(
            f"{operation:21} {cost.trips:5g} {cost.statements:5g} {cost.server_ms:7.2f} {cost.database_ms:7.2f}"
            f" {cost.wall_ms:7.2f}"
        )
    return costs


def table(costs: list[Cost]) -> str:
    """The figures as a Markdown table."""
    lines = [
        "| operation | round trips | statements | kB | server, CPU | database, CPU | time |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for cost in costs:
        lines.append(
            f"| {cost.operation.replace('_', ' ')} | {cost.trips:g} | {cost.statements:g} | {cost.kilobytes} "
            f"| {cost.server_ms} ms | {cost.database_ms} ms | {cost.wall_ms} ms |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=list(_DECODERS), default="postgresql")
    parser.add_argument("--command", type=Path, help="the neutrino command of another checkout")
    parser.add_argument("--repeats", type=int, default=30, help="requests per operation")
    parser.add_argument("--show", choices=[*OPERATIONS, "all"], help="print the statements of this operation")
    parser.add_argument("--agents", action="store_true", help="with agents that networks and routers are scheduled to")
    args = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database = stack.enter_context(databases.running(args.database))
        url = sa.make_url(database.create_database("bench"))
        assert url.port is not None
        port, counts = stack.enter_context(observed(url.port, _DECODERS[args.database]))
        through = url.set(port=port).render_as_string(hide_password=False)
        running = stack.enter_context(server.running(through, directory, args.command))
        client = Client(Target(running.url, HEADERS, time.monotonic() + _SECONDS))
        stack.callback(client.close)
        if args.agents:
            agents.register(url.render_as_string(hide_password=False))
        pids = [running.pid], database.pids
        costs = measure(client, counts, pids, args.repeats, args.show)
    print(table(costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
