"""Benchmark of OpenStack Neutron and of this project on one machine in one run, with a table of ratios.

  python -m qa.bench.neutron [--ports 5000] [--databases mariadb,sqlite] [--rounds N] [--quick] [--out FILE] [--check]

Neutron is installed from PyPI into build/neutron/venv (requirements-neutron.lock). MariaDB, RabbitMQ and the servers are
started for the purpose and are gone afterwards, also after Ctrl-C, as is everything written to disk but this
environment. Creating ports takes Neutron most of the time.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from qa.bench import databases, server
from qa.bench.machine import busy, machine
from qa.bench.neutron import processes, rounds, table
from qa.bench.neutron.configuration import Place
from qa.bench.neutron.rounds import Side, Started
from qa.bench.workbench import QUICK, Sizes, progress
from tests.support.rabbitmq import RabbitMQ

_SETUP_SECONDS = 1800.0
_FEWEST_PORTS = 500


def sizes(ports: int, quick: bool) -> Sizes:
    """As of `qa.bench.run`, but one request with 100 ports in each round."""
    return replace(QUICK if quick else Sizes(), list_sizes=tuple(sorted({min(1000, ports), ports})), bulk_repeats=1)


def install() -> None:
    """Install what is missing: Debian packages, .venv, build/neutron/venv."""
    progress("scripts/setup neutron: installs what is missing")
    subprocess.run([processes.ROOT / "scripts" / "setup", "neutron"], check=True, timeout=_SETUP_SECONDS)


@contextmanager
def _neutron(place: Place) -> Iterator[Started]:
    with processes.running(place) as (running, pids):
        yield Started(running.url, pids, running.start_ms)


@contextmanager
def _ours(connection: str, directory: Path) -> Iterator[Started]:
    with server.running(connection, directory) as running:
        yield Started(running.url, [running.pid], running.start_ms)


def _sides(names: list[str], directory: Path, stack: ExitStack) -> list[Side]:
    """Neutron and ours, each with a database of its own that it has used once."""
    progress("starting MariaDB and RabbitMQ")
    mariadb = stack.enter_context(databases.running("mariadb"))
    broker = stack.enter_context(RabbitMQ())
    mariadb.create_database("neutron")
    place = processes.write_files(directory / "neutron", mariadb.url("neutron"), broker.url)
    progress("neutron: neutron-db-manage upgrade heads")
    processes.migrate(place)
    sides = [Side(table.NEUTRON, partial(_neutron, place), mariadb.pids)]
    for name in names:
        own = directory / name
        own.mkdir()
        pids: list[int] = []
        if name == "sqlite":
            connection = f"sqlite:///{own / 'bench.sqlite'}"
        else:
            host = mariadb if name == "mariadb" else stack.enter_context(databases.running(name))
            host.create_database("neutrino")
            connection, pids = host.url("neutrino"), host.pids
        sides.append(Side(name, partial(_ours, connection, own), pids))
    for side in sides:
        progress(f"{side.name}: first start, which fills tables")
        with side.start() as started:
            rounds.settle(started)
    return sides


def measure(names: list[str], measured: Sizes, repeats: int, seconds: float) -> tuple[dict[str, Any], str]:
    """The raw result of each side, Neutron first, and why it is not complete, or nothing."""
    sides: list[Side] = []
    failure = ""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="neutrino-bench-", ignore_cleanup_errors=True) as place,
            ExitStack() as stack,
        ):
            sides += _sides(names, Path(place), stack)
            rounds.run(sides, measured, repeats, seconds)
    except (RuntimeError, TimeoutError, subprocess.SubprocessError) as error:
        failure = f"not complete: {error}"
    except KeyboardInterrupt:
        failure = "interrupted; everything is stopped"
    return {side.name: side.raw() for side in sides if side.starts_ms}, failure


def _versions() -> dict[str, str]:
    """What was measured: Neutron and what it is built on."""
    (site,) = (processes.VENV / "lib").glob("python3*/site-packages")
    wanted = {"neutron", "neutron-lib", "oslo.db", "oslo.messaging", "pyuwsgi", "sqlalchemy"}
    found = {each.name.lower(): each.version for each in distributions(path=[str(site)])}
    return {name: found[name] for name in sorted(wanted & set(found))}


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--databases", default="mariadb", metavar="NAME[,NAME...]", help="of our server")
    parser.add_argument("--ports", type=int, default=1000, help="how many ports the lists have")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--hours", type=float, default=3.0, help="give up after this long")
    parser.add_argument("--quick", action="store_true", help="less of everything; for a look, not for figures")
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--check", action="store_true", help="fail where a figure wanted is missed")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of raw figures written earlier")
    options = parser.parse_args(arguments)
    options.databases = options.databases.split(",")
    if unknown := set(options.databases) - set(databases.NAMES):
        parser.error(f"no database: {', '.join(sorted(unknown))}; choose among {', '.join(databases.NAMES)}")
    # Each round of ours creates 200 ports in two requests, beside 20 of a small network.
    if options.ports < _FEWEST_PORTS or not 1 <= options.rounds <= (options.ports - 20) // 200:
        parser.error(f"at least {_FEWEST_PORTS} ports, and 200 for each round")
    return options


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    if options.show is not None:
        raw = json.loads(options.show.read_text(encoding="utf-8"))
        print(table.document(raw["sides"], raw["ports"]), end="")
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs without the first
        signal.signal(number, signal.default_int_handler)
    try:
        install()
    except subprocess.SubprocessError as error:
        print(f"Neutron could not be installed: {error}", file=sys.stderr)
        return 1
    before = busy()
    measured = sizes(options.ports, options.quick)
    sides, failure = measure(options.databases, measured, options.rounds, options.hours * 3600)
    missed = []
    if table.NEUTRON in sides:
        print(table.document(sides, options.ports), end="")
        missed = table.missed(sides, options.ports)
    if options.out is not None:
        run = {"ports": options.ports, "rounds": options.rounds, "quick": options.quick, "failure": failure}
        load = {"load_before": before, "load_after": busy()}
        raw = {"machine": machine(), **load, "versions": _versions(), **run, "sides": sides}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    if failure:
        print(failure, file=sys.stderr)
    return 1 if failure or (options.check and missed) else 0


if __name__ == "__main__":
    sys.exit(main())
