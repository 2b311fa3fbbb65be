"""Memory of the server by process: when it has just started, and with the ports of the benchmark.

  python -m qa.bench.processes [--database sqlite] [--ports 5000] [--old COMMAND]

`--old`: the command of another checkout, measured first. A process's own memory are the pages that no other process has.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from qa.bench import databases
from qa.bench.load import run_load
from qa.bench.run import SETTLE_SECONDS
from qa.bench.server import Running, running
from qa.bench.workbench import Sizes
from tests.support import memory

MOMENTS = ("empty", "ports")
FIELDS = ("Pss", "Rss", "Private_Dirty")
Seen = dict[str, dict[str, memory.Kilobytes]]  # by moment and process


def measure(database: str, ports: int, command: Path | None = None) -> Seen:
    seen: Seen = {}
    with tempfile.TemporaryDirectory(prefix="neutrino-bench-", ignore_cleanup_errors=True) as place:
        directory = Path(place)
        with databases.database(database, directory) as connection:
            with running(connection, directory, command):
                pass  # creates the schema
            with running(connection, directory, command) as server:
                time.sleep(SETTLE_SECONDS)
                seen["empty"] = by_process(server)

                def observe(moment: str) -> None:
                    seen["ports"] = by_process(server)

                run_load(server.url, Sizes(list_sizes=(ports,)), observe=observe)
    return seen


def by_process(server: Running) -> dict[str, memory.Kilobytes]:
    """The fields of each process by its name, such as "feed" or "worker-1"."""
    found = {}
    for pid in memory.tree(server.pid):
        name = memory.command(pid).removeprefix("neutrino-server").strip()
        found["supervisor" if pid == server.pid else name] = memory.fields(pid)
    return dict(sorted(found.items()))


def table(seen: Seen, ports: int) -> str:
    lines = [
        f"| process | PSS, empty | RSS | own | PSS, {ports:,} ports | RSS | own |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    totals = dict.fromkeys(((moment, field) for moment in MOMENTS for field in FIELDS), 0)
    for name in seen["empty"]:
        values = []
        for key in totals:
            kilobytes = seen[key[0]].get(name, {}).get(key[1], 0)
            totals[key] += kilobytes
            values.append(kilobytes)
        lines.append(_row(name, values))
    return "\n".join([*lines, _row("all", list(totals.values()))])


def _row(name: str, kilobytes: list[int]) -> str:
    return f"| {name} | " + " | ".join(f"{value / 1024:.1f} MB" for value in kilobytes) + " |"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=databases.NAMES, default="sqlite")
    parser.add_argument("--ports", type=int, default=5000)
    parser.add_argument("--old", type=Path, metavar="COMMAND", help="the neutrino command of another checkout")
    options = parser.parse_args(arguments)
    for name, command in (("before", options.old), ("now", None)):
        if name == "now" or command is not None:
            print(f"{name}:\n{table(measure(options.database, options.ports, command), options.ports)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
