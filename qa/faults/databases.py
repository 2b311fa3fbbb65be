"""Database failover under load: no acknowledged write is lost, no refused write appears, all hosts converge.

  python -m qa.faults.databases [--scenario NAME]... [--seconds N] [--list]

Three servers with their feeds, behind HAProxy, on a Galera cluster of three nodes (each server writes to another node) and
on PostgreSQL with a synchronous standby. Clients write through HAProxy, one prober writes through each server, and hosts
with the real feed client are connected. In each scenario one fault happens and is repaired; then the answers are compared
with the contents of every node, the tables with each other, and the hosts with the database. Needs root, MariaDB with
Galera 4, PostgreSQL and HAProxy. The exit status is 0 only if every scenario passed.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import signal
import sys
import time
from collections.abc import Iterator, Sequence

from qa.bench.workbench import progress
from qa.faults.failover import galera_scenarios, postgres_scenarios
from qa.faults.failover.cloud import Result
from qa.faults.failover.network import enter
from qa.faults.failover.report import table

FAMILIES = (galera_scenarios, postgres_scenarios)


def run(chosen: Sequence[str], seconds: float, results: list[Result]) -> None:
    """Run the scenarios and append their results one by one."""
    for family in FAMILIES:
        names = [name for name in family.SCENARIOS if not chosen or name in chosen]
        for result in family.run(names, seconds) if names else ():
            results.append(result)
            state = "passed" if result.passed else "FAILED"
            progress(f"{result.name}: {state}, longest stall {result.figures.stall:.1f} s")
            for line in (*result.violations[:20], *(f"{n} × {what}" for what, n in result.figures.defects.items())):
                progress(f"    {line}")


@contextlib.contextmanager
def _ended_by_signal() -> Iterator[None]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as by Ctrl-C: what was started is ended
    yield


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [name for family in FAMILIES for name in family.SCENARIOS]
    parser.add_argument("--scenario", action="append", choices=names, default=[], help="only this one; may be repeated")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long a fault lasts (default: %(default)s)")
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    options = parser.parse_args(arguments)
    if options.list:
        for family in FAMILIES:
            for name, what in family.SCENARIOS.items():
                print(f"{name:22} {what}")
        return 0
    enter()
    logging.getLogger("neutrino").setLevel(logging.CRITICAL)
    began = time.monotonic()
    results: list[Result] = []
    try:
        with _ended_by_signal():
            run(options.scenario, options.seconds, results)
    finally:  # also after Ctrl-C: what was measured so far
        print(table(results))
    failed = [one.name for one in results if not one.passed]
    print(f"{len(results) - len(failed)} of {len(results)} scenarios passed in {time.monotonic() - began:.0f} s")
    if failed:
        print("failed: " + ", ".join(failed))
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
