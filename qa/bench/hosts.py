"""Benchmark of the feed with thousands of simulated hosts, each with its own connection.

  python -m qa.bench.hosts [--hosts 5000] [--quick] [--database sqlite|postgresql|mariadb] [--out FILE]
  python -m qa.bench.hosts --show docs/benchmarks-hosts.json

One server as a user would start it, with two workers and its feed, and twenty ports for each host. The hosts are in two
processes on the same machine and take its processors as much as the server does, so the figures include both ends. Some
hosts have the agent's own feed client and keep all objects, the others keep digests (`lean_host.py`). At the end all of
them are compared with the database: a server that sends less is faster. Exit status 1 if a target is missed.
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
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from qa.bench import databases
from qa.bench.client import LoadError
from qa.bench.fleet import Process, Simulated, raise_descriptors
from qa.bench.hosts_check import Expected, are_equal, records_of, wanted_objects
from qa.bench.hosts_cloud import SECONDS, Cloud, client_of, port_on
from qa.bench.hosts_report import markdown, missed
from qa.bench.layout import QUICK, Network, Sizes, host_names, networks, tunneling_ip
from qa.bench.machine import busy, machine
from qa.bench.server import Running, running
from qa.bench.timing import Figures, figures
from tests.support import memory

LISTS = 20  # repetitions of each list
STARTED = time.monotonic()
# Hosts are away while the cloud is filled, and a port is bound only to a live one.
CONFIGURATION = "agent_down_time = 3600\n"


def progress(text: str) -> None:
    print(f"{time.monotonic() - STARTED:6.0f} s  {text}", file=sys.stderr, flush=True)


class Bench:
    def __init__(self, sizes: Sizes, connection: str, directory: Path) -> None:
        self._sizes = sizes
        self._connection = connection
        self._directory = directory
        self._names = host_names(sizes.hosts)
        self._cloud = Cloud(networks(sizes, self._names))
        self._full = frozenset(random.Random(3).sample(self._names, min(sizes.full, sizes.hosts)))
        self._fleet: list[Process] = []
        self.results: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        whos = self._admit()
        try:
            with self._server() as server:
                self.results["memory"] = {"empty": _feed_mb(server.pid)}
                progress("ports created and shown on the empty system")
                self.results["empty"] = self._cloud.create_and_show(server, self._sizes.requests)
                self.results["connect_s"] = self._connect(whos, "all hosts to have reported")
                self._stop()
                self._fill(server)
            with self._server() as server:  # a feed process that has never had a connection, as the baseline
                self._until(lambda: _feed_mb(server.pid) > self.results["memory"]["empty"], "the feed to start")
                time.sleep(2)
                self.results["memory"]["alone"] = _feed_mb(server.pid)
                self.results["snapshot_s"] = self._connect(
                    whos, "all hosts to have their first snapshot", reports=False
                )
                self.results["memory"]["snapshots"] = _feed_mb(server.pid)
                self._settle("all ports to be wired")
                self._measure(server)
                self._compare()
                killed = time.monotonic()
                progress("server killed")
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
        return self.results

    def _measure(self, server: Running) -> None:
        for process in self._fleet:
            process.ask("record")
        self.results["memory"]["host"] = _mb(self._fleet_pids()) / self._sizes.hosts
        self.results["new_port"] = self._new_ports(server)
        progress("ports created and shown, and lists, with all hosts connected")
        self.results["full"] = self._cloud.create_and_show(server, self._sizes.requests)
        self.results["lists"] = self._cloud.lists(server, LISTS)
        self._settle("the new ports to be wired")
        self.results["idle"] = self._idle(server)
        self.results["stuck"], self.results["stuck_hosts"] = self._stuck(server), self._sizes.stuck
        self._settle("the stuck hosts to be synced again")

    def _stop(self) -> None:
        while self._fleet:
            self._fleet.pop().stop()

    def _server(self) -> Any:
        return running(self._connection, self._directory, more=CONFIGURATION)

    # --- hosts ----------------------------------------------------------------------------------------------------

    def _admit(self) -> list[Simulated]:
        """Issue every host a credential, as `neutrino host add` does."""
        progress(f"{self._sizes.hosts} hosts, {self._sizes.all_ports} ports")
        db = Database(self._connection, sqlite_durable=False)
        schema.ensure(db)
        credentials = Credentials(db)
        made = [
            Simulated(name, credentials.add(name), tunneling_ip(i), name in self._full)
            for i, name in enumerate(self._names)
        ]
        db.close()
        return made

    def _connect(self, whos: Sequence[Simulated], what: str, *, reports: bool = True) -> float:
        """Start all hosts, without any state; the seconds until they are synced, and their reports acknowledged."""
        sizes, address = self._sizes, f"unix:{self._directory.absolute() / 'feed.sock'}"
        started = time.monotonic()
        self._fleet += [Process(whos[i :: sizes.processes], address, sizes.interval) for i in range(sizes.processes)]
        self._until(lambda: self._all_synced() and not (reports and self._status("unacknowledged")), what)
        return round(time.monotonic() - started, 2)

    def _fleet_pids(self) -> list[int]:
        return [process.pid for process in self._fleet]

    def _ask(self, what: str) -> int:
        return sum(process.ask(what) for process in self._fleet)

    def _status(self, what: str) -> int:
        return sum(process.ask("status")[what] for process in self._fleet)

    def _all_synced(self) -> bool:
        return self._ask("synced") == self._sizes.hosts

    def _settle(self, what: str) -> None:
        """Wait until no messages are pending in either direction."""
        before: dict[str, int] = {}

        def settled() -> bool:
            nonlocal before
            answers = [process.ask("status") for process in self._fleet]
            found = {name: sum(answer[name] for answer in answers) for name in answers[0]}
            known, before = before, found
            quiet = not found["unacknowledged"] and not found["waiting"]
            return quiet and found == known and found["synced"] == self._sizes.hosts

        self._until(settled, what, every=1.0)
        progress(f"  {before['objects']:,} objects on the hosts")

    def _until(self, condition: Callable[[], bool], what: str, every: float = 0.1) -> None:
        progress(f"waiting for {what}")
        give_up = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > give_up:
                raise TimeoutError(f"{what}: not within {SECONDS:.0f} s")
            time.sleep(every)

    # --- ports ----------------------------------------------------------------------------------------------------

    def _fill(self, server: Running) -> None:
        progress("networks and ports")
        started = time.monotonic()
        self._cloud.fill(server)
        self.results["create_s"] = round(time.monotonic() - started, 2)

    def _new_ports(self, server: Running) -> dict[str, Figures]:
        progress("new ports, one by one")
        rng = random.Random(2)
        ordinary = [rng.choice(self._cloud.networks[:-1]) for _ in range(self._sizes.new_ports)]
        few = max(self._sizes.new_ports // 4, 3)
        everywhere = self._cloud.networks[-1]
        return {
            "ordinary": figures(self._new_port(server, network, rng) for network in ordinary),
            "everywhere": figures(self._new_port(server, everywhere, rng) for _ in range(few)),
        }

    def _new_port(
        self, server: Running, network: Network, rng: random.Random, without: frozenset[str] = frozenset()
    ) -> float:
        """Milliseconds from the request until the last host of the network has the port."""
        network_id, project = self._cloud.ids[network.name]
        hosts = sorted(network.everywhere - without)
        client = client_of(server, project)
        client.get("/networks?limit=1&fields=id")  # connect before the measurement
        began = time.monotonic()
        made = client.post("/ports", {"port": port_on(network_id, rng.choice(hosts))}).item()["id"]
        client.close()
        last = 0.0

        def known() -> bool:
            nonlocal last
            answers = [process.ask("seen", [made])[made] for process in self._fleet]
            last = max(at for _, at in answers)
            return bool(sum(count for count, _ in answers) == len(hosts))

        give_up = time.monotonic() + 60
        while not known():
            if time.monotonic() > give_up:
                raise LoadError(f"a new port of network {network.name} is not known to all of its hosts")
            time.sleep(0.05)
        time.sleep(0.1)  # for the report of the port's own host
        return (last - began) * 1000

    def _stuck(self, server: Running) -> Figures:
        """New ports on all hosts while some of them do not read their connections."""
        rng, few = random.Random(4), max(self._sizes.new_ports // 4, 3)
        lean = [name for name in self._names if name not in self._full]
        chosen = frozenset(rng.sample(lean, self._sizes.stuck))
        progress(f"new ports, while {len(chosen)} hosts do not read")
        for process in self._fleet:
            process.ask("stick", sorted(chosen))
        try:
            network = self._cloud.networks[-1]
            return figures(self._new_port(server, network, rng, chosen) for _ in range(few))
        finally:
            for process in self._fleet:
                process.ask("unstick")

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
        progress(f"{len(self._full)} hosts compared with the database by objects, the others by digests")
        records = records_of(self._connection)
        for name in sorted(self._full):
            has = next(found for process in self._fleet if (found := process.ask("objects", name)) is not None)
            if not are_equal(has, wanted_objects(records, name)):
                raise LoadError(f"the objects of host {name} differ from the database")
        expected, compared = Expected(records), 0
        for process in self._fleet:
            for name, has_digests in process.ask("summaries", seconds=300).items():
                wanted = expected.of(name)
                if has_digests != wanted:
                    kinds = [kind for kind in wanted if has_digests.get(kind) != wanted[kind]]
                    raise LoadError(f"digests of host {name} differ from the database: {kinds}")
                compared += 1
        self.results["compared"] = len(self._full) + compared


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
    parser.add_argument("--hosts", type=int, default=Sizes().hosts, help="number of hosts, with twenty ports each")
    parser.add_argument(
        "--quick", action="store_true", help="a hundred hosts, half a minute; for a look, not for figures"
    )
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--show", type=Path, help="only print the tables of figures that were written earlier")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(markdown(json.loads(options.show.read_text(encoding="utf-8"))), end="")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as by Ctrl-C: what was started is ended
    sizes = QUICK if options.quick else replace(Sizes(), hosts=options.hosts)
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
    return 1 if missed(raw) else 0


if __name__ == "__main__":
    sys.exit(main())
