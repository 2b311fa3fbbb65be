"""What rates cost a server: reports of many hosts, from the frame to the database, and GET /v2.0/rates meanwhile.

    python -m qa.bench.rates                    # 5,000 hosts with 40 ports, of which 12 count, on SQLite
    python -m qa.bench.rates --hosts 500 --url postgresql+psycopg://…

Every host reports once per interval, spread over it. Time is that of one interval, and does not pass: the figures are
processor time of the feed's part, transactions, and bytes in the database.
"""

import argparse
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from neutrino.features.rates.api import RatesApi
from neutrino.features.rates.reports import SLOT_SECONDS, RateReports
from neutrino.features.rates.tables import host_rates
from neutrino.feed.messages import Rates, encode, read_from_host
from neutrino.model.rates import Counted
from neutrino.server.config import configuration
from neutrino.server.db.session import Database
from neutrino.server.feed.reports.rules import refusal
from neutrino.server.main import Server, assemble, begin

BATCH_SECONDS = 1.0  # of reports that are written together: what arrives during a write
ASKED = 50  # ports of one request, each on another host
REQUESTS = 40
TURNS = 5


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=5000)
    parser.add_argument("--ports", type=int, default=12, help="of each host that count anything")
    parser.add_argument("--interval", type=int, default=30)
    parser.add_argument("--url", default="", help="of an empty database; by default SQLite in a temporary directory")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory:
        server = _server(Path(directory), given.url)
        try:
            _measure(server, given)
        finally:
            server.close()
    return 0


def _server(directory: Path, url: str) -> Server:
    file = directory / "neutrino.conf"
    connection = url or f"sqlite:///{directory}/neutrino.sqlite"
    file.write_text(
        f"[DEFAULT]\nauth_strategy = noauth\nstate_path = {directory}\n[database]\nconnection = {connection}\n"
    )
    server = assemble(configuration([str(file)]))
    begin(server)
    return server


def _measure(server: Server, given: argparse.Namespace) -> None:
    now = [1_800_000_000.0]
    reports = RateReports(server.db, lambda: now[0])
    hosts = [f"compute-{number:05}" for number in range(given.hosts)]
    ports = {host: [str(uuid.uuid4()) for _ in range(given.ports)] for host in hosts}
    cpu, size, step, writes = list[float](), 0, 1, list[float]()
    for turn in range(TURNS):
        frames = list(_frames(hosts, ports, given.interval, turn))
        size = sum(len(frame) for _, frame in frames) // len(frames)
        step = max(1, int(len(frames) * BATCH_SECONDS / given.interval))
        ticks = time.process_time()
        for start in range(0, len(frames), step):
            received = [(host, message) for host, frame in frames[start : start + step] for message in _read(frame)]
            for host, message in received:
                assert not refusal(message, host, ("l2",), {})
            at = time.perf_counter()
            reports.take(received)
            writes.append(time.perf_counter() - at)
            now[0] += BATCH_SECONDS
        cpu.append(time.process_time() - ticks)
        now[0] += max(0, SLOT_SECONDS - given.interval)
    with server.db.read() as connection:
        rows, stored = connection.execute(
            sa.select(sa.func.count(), sa.func.sum(sa.func.length(host_rates.c.counted)))
        ).one()
    share, each = statistics.median(cpu) / given.interval, statistics.median(cpu) / given.hosts * 1e6
    longest, usual = max(writes) * 1000, statistics.median(writes) * 1000
    print(f"{given.hosts} hosts with {given.ports} ports that count, every {given.interval} s, {server.db.dialect}")
    print(f"a report has {size} bytes; all of them are {given.hosts * size / given.interval / 1000:.0f} kB/s")
    print(f"processor time of the feed: {share:.2%} of a core ({each:.0f} µs a report)")
    print(f"a transaction for {step} reports: median {usual:.0f} ms, longest {longest:.0f} ms")
    print(f"{rows} rows of {stored / rows:.0f} bytes; full rings of all hosts: {_full(given, stored / rows):.0f} MB")
    _ask(server.db, now, hosts, ports)


def _full(given: argparse.Namespace, each: float) -> float:
    return float(given.hosts * 600 / max(given.interval, SLOT_SECONDS) * each / 1e6)


def _frames(hosts: list[str], ports: dict[str, list[str]], interval: int, turn: int) -> Iterator[tuple[str, bytes]]:
    for number, host in enumerate(hosts):
        counted = {port: Counted(123_456_789 + number, 98_765_432, 123_456, 98_765) for port in ports[host]}
        tunnels = {f"10.{n}.{number % 250}.{turn}": Counted(1_234_567, 7_654_321, 12_345, 54_321) for n in range(8)}
        yield host, encode([Rates(serial=turn, seconds=interval, ports=counted, tunnels=tunnels)])


def _read(frame: bytes) -> list[Rates]:
    return [message for message in read_from_host(frame) if isinstance(message, Rates)]


def _ask(db: Database, now: list[float], hosts: list[str], ports: dict[str, list[str]]) -> None:
    """The part of a request after its ports are found: the reports of as many hosts as a table shows ports of."""
    api = RatesApi(db, lambda: now[0])
    took = list[float]()
    for number in range(REQUESTS):
        some = hosts[number : number + ASKED]
        began = time.perf_counter()
        with db.read() as connection:
            found = api.reports(connection, some, {ports[host][0] for host in some})
        took.append(time.perf_counter() - began)
        assert len(found) == len(some)
    print(f"GET /v2.0/rates, the reports of {ASKED} hosts: median {statistics.median(took) * 1000:.1f} ms")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
