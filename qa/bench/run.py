"""Benchmark of the server on each database, from its start to its memory with thousands of ports, with tables.

  python -m qa.bench.run [--databases sqlite,postgresql,mariadb] [--quick] [--out FILE] [--check]

The database servers are started for the purpose and are gone afterwards, as is everything written to disk.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from qa.bench import databases, report
from qa.bench.load import run_load
from qa.bench.machine import machine
from qa.bench.server import running
from qa.bench.timing import figures
from qa.bench.workbench import QUICK, Sizes, progress
from tests.support import memory

# Other workers may still be starting when the first one responds.
SETTLE_SECONDS = 1.0


def measure(name: str, sizes: Sizes, starts: int) -> dict[str, Any]:
    """The raw result of one database."""
    with tempfile.TemporaryDirectory(prefix="neutrino-bench-", ignore_cleanup_errors=True) as place:
        directory = Path(place)
        progress(f"{name}: starting the database")
        with databases.database(name, directory) as connection:
            progress(f"{name}: starting the server")
            with running(connection, directory) as first:
                first_ms = first.start_ms
            times = []
            for _ in range(starts - 1):
                with running(connection, directory) as again:
                    times.append(again.start_ms)
            with running(connection, directory) as server:
                times.append(server.start_ms)
                time.sleep(SETTLE_SECONDS)
                seen = {"empty": memory.of_tree(server.pid)}
                load = run_load(
                    server.url, sizes, observe=lambda moment: seen.update({moment: memory.of_tree(server.pid)})
                )
    return {"start": {**figures(times), "empty_database_ms": round(first_ms, 1)}, "memory": seen, "load": load}


def _databases(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    unknown = sorted(set(names) - set(databases.NAMES))
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"choose among {', '.join(databases.NAMES)}")
    return names


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", type=_databases, default=list(databases.NAMES), metavar="NAME[,NAME...]")
    parser.add_argument("--quick", action="store_true", help="less of everything; for a look, not for figures")
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--check", action="store_true", help="fail where a figure wanted is missed")
    options = parser.parse_args(arguments)
    sizes, starts = (QUICK, 1) if options.quick else (Sizes(), 3)
    results: dict[str, dict[str, Any]] = {}
    failed = False
    for name in options.databases:
        try:
            results[name] = measure(name, sizes, starts)
        except (RuntimeError, TimeoutError) as error:
            # The load, the server or the database failed; continue with the other databases.
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
    print(report.document(results), end="")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        raw = {"machine": machine(), "quick": options.quick, "databases": results}
        options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    missed = report.missed(results)
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if failed or (options.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
