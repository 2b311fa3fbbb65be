"""Compares the API of two checkouts: a server of each runs at the same time, and every request goes to both, in turns.

  python -m tests.bench.compare --old ../before/.venv/bin/neutrino [--repeats N]

Load from outside, disk and caches of the machine meet both servers alike, so the ratio shows a few percent that two
separate runs do not: those differ by more from one minute to the next. Both servers have a database of their own (SQLite).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.bench import server
from tests.bench.client import Client, Reply, Target
from tests.bench.workbench import progress

_HEADERS = {"X-Project-Id": "bench", "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
_SECONDS = 1200.0

Ids = dict[str, list[str]]  # ids of created objects, by operation
Request = Callable[[Client, Ids, int], Reply]


def _interface(action: str) -> Request:
    def request(client: Client, ids: Ids, number: int) -> Reply:
        path = f"/routers/{ids['create_router'][number]}/{action}_router_interface"
        return client.put(path, {"subnet_id": ids["create_subnet"][number]})

    return request


# In this order: later operations use the objects of earlier ones.
OPERATIONS: dict[str, Request] = {
    "create_network": lambda client, ids, number: client.post("/networks", {"network": {"name": f"bench-{number}"}}),
    "create_subnet": lambda client, ids, number: client.post(
        "/subnets", {"subnet": {"network_id": ids["create_network"][number], "ip_version": 4, "cidr": "10.0.0.0/24"}}
    ),
    "create_port": lambda client, ids, number: client.post(
        "/ports", {"port": {"network_id": ids["create_network"][number]}}
    ),
    "show_port": lambda client, ids, number: client.get(f"/ports/{ids['create_port'][number]}"),
    "list_ports": lambda client, ids, number: client.get("/ports"),
    "update_port": lambda client, ids, number: client.put(
        f"/ports/{ids['create_port'][number]}", {"port": {"name": "renamed"}}
    ),
    "create_router": lambda client, ids, number: client.post("/routers", {"router": {"name": f"bench-{number}"}}),
    "add_interface": _interface("add"),
    "show_router": lambda client, ids, number: client.get(f"/routers/{ids['create_router'][number]}"),
    "remove_interface": _interface("remove"),
    "create_group": lambda client, ids, number: client.post("/security-groups", {"security_group": {"name": "bench"}}),
    "create_rule": lambda client, ids, number: client.post(
        "/security-group-rules",
        {
            "security_group_rule": {
                "security_group_id": ids["create_group"][number],
                "direction": "ingress",
                "protocol": "tcp",
                "port_range_min": 80,
                "port_range_max": 80,
            }
        },
    ),
    "delete_group": lambda client, ids, number: client.delete(f"/security-groups/{ids['create_group'][number]}"),
    "delete_router": lambda client, ids, number: client.delete(f"/routers/{ids['create_router'][number]}"),
    "delete_port": lambda client, ids, number: client.delete(f"/ports/{ids['create_port'][number]}"),
    "delete_subnet": lambda client, ids, number: client.delete(f"/subnets/{ids['create_subnet'][number]}"),
    "delete_network": lambda client, ids, number: client.delete(f"/networks/{ids['create_network'][number]}"),
}


def compare(old: Client, new: Client, repeats: int) -> dict[str, dict[str, float]]:
    """Median milliseconds of both per operation, and how many times the old one's the new one takes."""
    ids: dict[Client, Ids] = {old: defaultdict(list), new: defaultdict(list)}
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
        before, after = statistics.median(times[old]), statistics.median(times[new])
        figures[operation] = {"old_ms": round(before, 2), "new_ms": round(after, 2), "ratio": round(after / before, 2)}
        progress(f"{operation:17} {before:7.2f} {after:7.2f} {after / before:6.2f}")
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description="compare the API of two checkouts, request by request")
    parser.add_argument("--old", type=Path, required=True, help="the neutrino command of the other checkout")
    parser.add_argument("--repeats", type=int, default=200, help="requests per operation and server")
    args = parser.parse_args()
    with ExitStack() as stack:
        clients: list[Client] = []
        for command in (args.old, None):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            running = stack.enter_context(server.running(f"sqlite:///{directory}/neutrino.sqlite", directory, command))
            client = Client(Target(running.url, _HEADERS, time.monotonic() + _SECONDS))
            stack.callback(client.close)
            clients.append(client)
        old, new = clients
        figures = compare(old, new, args.repeats)
    mean = statistics.geometric_mean(each["ratio"] for each in figures.values())
    json.dump({"operations": figures, "geometric_mean": round(mean, 3)}, sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
