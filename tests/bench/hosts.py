"""Benchmark of the feed with a thousand simulated hosts, each with its own connection and the real client.

  python -m tests.bench.hosts [--quick] [--database sqlite|postgresql|mariadb] [--out docs/benchmarks-hosts.json]
  python -m tests.bench.hosts --show docs/benchmarks-hosts.json

One server as a user would start it, two workers and the feed beside them. The hosts are in two processes on the same
machine and take its processors as much as the server does: what is measured is both ends together. At the end some hosts
are held against the database, for a server that tells less is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from neutrino.server.feed.kinds import readers
from neutrino.server.feed.readers import read_all
from tests.bench import databases, memory
from tests.bench.client import Client, LoadError, Target
from tests.bench.fleet import Process, Simulated, raise_descriptors
from tests.bench.hosts_report import markdown
from tests.bench.layout import QUICK, Network, Sizes, host_names, networks, tunneling_ip
from tests.bench.machine import busy, machine
from tests.bench.server import Running, running
from tests.bench.timing import figures
from tests.bench.workbench import progress
from tests.support.feed_scope import scope

SECONDS = 900.0  # timeout of a step
BULK = 100
SAMPLE = 20  # hosts whose objects are compared with the database


class Bench:
    def __init__(self, sizes: Sizes, connection: str, directory: Path) -> None:
        self._sizes = sizes
        self._connection = connection
        self._directory = directory
        self._networks = networks(sizes, host_names(sizes.hosts))
        self._ids: dict[str, tuple[str, str]] = {}  # network's id and project, by its name
        self._fleet: list[Process] = []
        self.results: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        whos = self._admit()
        try:
            with self._server() as server:
                self.results["memory"] = {"empty": _feed_mb(server.pid)}
                self._connect(whos)
                self._fill(server)
                self._settle("all ports to be known and wired")
                self.results["new_port"] = self._new_ports(server)
                self._settle("the new ports to be wired")
                self.results["idle"] = self._idle(server)
                self.results["memory"]["host"] = _mb(self._fleet_pids()) / self._sizes.hosts
                self._compare()
                killed = time.monotonic()
                os.kill(server.pid, signal.SIGKILL)
                self._until(lambda: self._ask("synced") == 0, "the hosts to see that the server is gone")
            started = time.monotonic()
            with self._server() as server:
                self._until(self._all_synced, "all hosts to be back")
                self.results["reconnect"] = {
                    "after_kill_s": round(time.monotonic() - killed, 2),
                    "after_start_s": round(time.monotonic() - started, 2),
                    "first_200_s": round(server.start_ms / 1000, 2),
                }
                self._settle("nothing to be left")
                self.results["memory"]["connected"] = _feed_mb(server.pid)
                self.results["memory"]["server"] = memory.of_tree(server.pid)["pss_mb"]
                self._compare()
                self._stop()
        finally:
            self._stop()
        with self._server() as server:  # the same without hosts, as the baseline
            time.sleep(2)
            self.results["memory"]["alone"] = _feed_mb(server.pid)
        return self.results

    def _stop(self) -> None:
        while self._fleet:
            self._fleet.pop().stop()

    def _server(self) -> Any:
        return running(self._connection, self._directory)

    # --- hosts ----------------------------------------------------------------------------------------------------

    def _admit(self) -> list[Simulated]:
        """Issue every host a credential, as `neutrino host add` does."""
        progress(f"{self._sizes.hosts} hosts")
        db = Database(self._connection, sqlite_durable=False)
        schema.ensure(db)
        credentials = Credentials(db)
        names = host_names(self._sizes.hosts)
        made = [Simulated(name, credentials.add(name), tunneling_ip(i)) for i, name in enumerate(names)]
        db.close()
        return made

    def _connect(self, whos: Sequence[Simulated]) -> None:
        sizes, address = self._sizes, f"unix:{self._directory.absolute() / 'feed.sock'}"
        started = time.monotonic()
        self._fleet += [Process(whos[i :: sizes.processes], address, sizes.interval) for i in range(sizes.processes)]
        self._until(lambda: self._all_synced() and not self._ask("unacknowledged"), "all hosts to have reported")
        self.results["connect_s"] = round(time.monotonic() - started, 2)

    def _fleet_pids(self) -> list[int]:
        return [process.pid for process in self._fleet]

    def _ask(self, what: str) -> int:
        return sum(process.ask("status")[what] for process in self._fleet)

    def _all_synced(self) -> bool:
        return self._ask("synced") == self._sizes.hosts

    def _settle(self, what: str) -> None:
        """Wait until no messages are pending in either direction."""
        before = -1

        def settled() -> bool:
            nonlocal before
            known, before = before, self._ask("objects")
            return (
                before == known and self._all_synced() and not self._ask("unacknowledged") and not self._ask("waiting")
            )

        self._until(settled, what, every=1.0)

    def _until(self, condition: Callable[[], bool], what: str, every: float = 0.05) -> None:
        progress(what)
        give_up = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > give_up:
                raise TimeoutError(f"{what}: not within {SECONDS:.0f} s")
            time.sleep(every)

    # --- ports ----------------------------------------------------------------------------------------------------

    def _client(self, server: Running, project: str) -> Client:
        headers = {"X-Project-Id": project, "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
        return Client(Target(server.url, headers, time.monotonic() + SECONDS))

    def _fill(self, server: Running) -> None:
        """Create the networks, each in its own project, and their ports, a hundred per request."""
        progress(f"{self._sizes.all_ports} ports on {len(self._networks)} networks")
        started = time.monotonic()
        for network in self._networks:
            project = uuid.uuid4().hex
            client = self._client(server, project)
            made = client.post("/networks", {"network": {"name": network.name}}).item()["id"]
            subnet = {"network_id": made, "ip_version": 4, "cidr": network.cidr}
            client.post("/subnets", {"subnet": subnet})
            self._ids[network.name] = made, project
            for start in range(0, len(network.hosts), BULK):
                several = [_port(made, host) for host in network.hosts[start : start + BULK]]
                ports = client.post("/ports", {"ports": several}).items()
                if any(port["binding:vif_type"] != "ovs" for port in ports):
                    raise LoadError(f"a port of network {network.name} was not bound")
            client.close()
        self.results["create_s"] = round(time.monotonic() - started, 2)
        self._until(lambda: self._ask("unacknowledged") == 0, "all their reports to be acknowledged", every=1.0)
        self.results["wired_s"] = round(time.monotonic() - started, 2)

    def _new_ports(self, server: Running) -> dict[str, Any]:
        progress("new ports, one by one")
        rng = random.Random(2)
        ordinary = [rng.choice(self._networks[:-1]) for _ in range(self._sizes.new_ports)]
        few = max(self._sizes.new_ports // 4, 3)
        return {
            "ordinary": figures(self._new_port(server, network, rng) for network in ordinary),
            "everywhere": figures(self._new_port(server, self._networks[-1], rng) for _ in range(few)),
        }

    def _new_port(self, server: Running, network: Network, rng: random.Random) -> float:
        """Milliseconds from the request until the last host of the network has the port."""
        network_id, project = self._ids[network.name]
        client = self._client(server, project)
        client.get("/networks?limit=1&fields=id")  # connect before the measurement
        began = time.monotonic()
        made = client.post("/ports", {"port": _port(network_id, rng.choice(network.hosts))}).item()["id"]
        client.close()
        last = 0.0

        def known() -> bool:
            nonlocal last
            answers = [process.ask("seen", [made])[made] for process in self._fleet]
            last = max(at for _, at in answers)
            return bool(sum(count for count, _ in answers) == len(network.everywhere))

        give_up = time.monotonic() + 60
        while not known():
            if time.monotonic() > give_up:
                raise LoadError(f"a new port of network {network.name} is not known to all of its hosts")
            time.sleep(0.02)
        time.sleep(0.1)  # for the report of the port's own host
        return (last - began) * 1000

    # --- at rest --------------------------------------------------------------------------------------------------

    def _idle(self, server: Running) -> dict[str, Any]:
        progress(f"{self._sizes.idle:.0f} s of nothing but reports")
        tree = memory.tree(server.pid)
        feed = _feed_pid(server.pid)
        before, at = {pid: _cpu(pid) for pid in [*tree, *self._fleet_pids()]}, time.monotonic()
        time.sleep(self._sizes.idle)
        seconds = time.monotonic() - at
        spent = {pid: (_cpu(pid) - began) / seconds * 100 for pid, began in before.items()}
        return {
            "feed_cpu_percent": round(spent[feed], 2),
            "server_cpu_percent": round(sum(spent[pid] for pid in tree), 2),
            "hosts_cpu_percent": round(sum(spent[pid] for pid in self._fleet_pids()), 2),
            "reports_per_s": round(self._sizes.hosts / self._sizes.interval, 1),
        }

    # --- is it right? ---------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        progress(f"{SAMPLE} hosts against the database")
        db = Database(self._connection)
        with db.read() as connection:
            records = read_all(connection, readers())
        db.close()
        for name in random.Random(3).sample(host_names(self._sizes.hosts), min(SAMPLE, self._sizes.hosts)):
            wanted: dict[str, list[bytes]] = {}
            for (kind, _), value in scope(records, name).items():
                wanted.setdefault(kind, []).append(msgspec.json.encode(value))
            has = next(found for process in self._fleet if (found := process.ask("objects", name)) is not None)
            if {kind: sorted(map(_plain, several)) for kind, several in has.items()} != {
                kind: sorted(map(_plain, several)) for kind, several in wanted.items()
            }:
                raise LoadError(f"host {name} does not have what the database says")


def _plain(data: bytes) -> str:
    """An object's text whatever the order of its sets."""

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(part) for key, part in value.items()}
        if isinstance(value, list):
            return sorted((ordered(part) for part in value), key=json.dumps)
        return value

    return json.dumps(ordered(json.loads(data)), sort_keys=True)


def _port(network_id: str, host: str) -> dict[str, Any]:
    return {"network_id": network_id, "binding:host_id": host, "device_owner": "compute:bench"}


def _feed_pid(server: int) -> int:
    for pid in memory.tree(server):
        if b"server feed" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    raise LoadError("the server has no feed beside it")


def _feed_mb(server: int) -> float:
    return _mb([_feed_pid(server)])


def _mb(pids: Sequence[int]) -> float:
    return round(sum(memory.pss_kb(pid) for pid in pids) / 1024, 2)


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(name: str, sizes: Sizes) -> dict[str, Any]:
    raise_descriptors(sizes.hosts)
    with (
        tempfile.TemporaryDirectory(prefix="neutrino-hosts-", ignore_cleanup_errors=True) as place,
        databases.database(name, Path(place)) as connection,
    ):
        return Bench(sizes, connection, Path(place)).run()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=databases.NAMES, default="sqlite")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything; for a look, not for figures")
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--show", type=Path, help="only print the table of figures that were written earlier")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(markdown(json.loads(options.show.read_text(encoding="utf-8"))), end="")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as by Ctrl-C: what was started is ended
    sizes = QUICK if options.quick else Sizes()
    load = busy()
    try:
        result = measure(options.database, sizes)
    except (RuntimeError, TimeoutError) as error:
        print(f"hosts: {error}", file=sys.stderr)
        return 1
    raw = {
        "machine": {**machine(), "load_before": load},
        "quick": options.quick,
        "database": options.database,
        "hosts": sizes.hosts,
        "ports": sizes.all_ports,
        "networks": sizes.networks + 1,
        "results": result,
    }
    print(markdown(raw), end="")
    if options.out is not None:
        options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
