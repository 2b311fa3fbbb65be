"""Benchmark of the feed with thousands of simulated hosts, each with its own connection.

  python -m qa.bench.hosts [--hosts 5000] [--quick] [--database sqlite|postgresql|mariadb] [--out FILE]
  python -m qa.bench.hosts --show docs/benchmarks-hosts.json

One server as a user would start it, with two workers and its feed, and twenty ports for each host. The hosts are in two
processes on the same machine and take its processors as much as the server does, so the figures include both ends. Some
hosts have the agent's own feed client and keep all objects, the others keep digests (`lean_host.py`). At the end all of
them are compared with the database: a server that sends less is faster. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from qa.bench import command, databases, processor
from qa.bench.client import LoadError
from qa.bench.fleet import raise_descriptors
from qa.bench.hosts_cloud import Cloud, client_of, port_on
from qa.bench.hosts_fleet import Hosts, feed_mb, feed_pid, megabytes, progress, until
from qa.bench.hosts_report import markdown, missed
from qa.bench.layout import QUICK, Network, Sizes, networks
from qa.bench.machine import busy, machine
from qa.bench.resync import Storms
from qa.bench.server import Running
from qa.bench.timing import Figures, figures
from tests.support import memory

LISTS = 20  # repetitions of each list


class Bench:
    def __init__(self, sizes: Sizes, connection: str, directory: Path) -> None:
        self._sizes = sizes
        self._hosts = Hosts(sizes, connection, directory)
        self._storms = Storms(self._hosts, connection, directory)
        self._cloud = Cloud(networks(sizes, self._hosts.names))
        self.results: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        self._hosts.admit()
        self._storms.admit_probe()
        results, memories = self.results, dict[str, Any]()
        results["memory"] = memories
        try:
            with self._storms.started({}) as server:
                memories["empty"] = feed_mb(server.pid)
                progress("ports created and shown on the empty system")
                results["empty"] = self._cloud.create_and_show(server, self._sizes.requests)
                results["connect_s"] = self._connect()
                self._hosts.stop()
                self._fill(server)
            results["start"] = {}
            with self._storms.started(results["start"]) as server:
                memories["alone"] = feed_mb(server.pid)
                results["snapshots"] = self._storms.snapshots(server, memories)
                self._measure(server)
                results["compared"] = self._hosts.compare()
                before = self._hosts.processor_seconds
                killed = self._storms.kill(server)
            again: dict[str, Any] = {}
            with self._storms.started(again) as server:
                results["resync"] = {**self._storms.back(server, killed, before), "start": again}
                self._hosts.settle("nothing to be left")
                memories["connected"] = feed_mb(server.pid)
                memories["server"] = memory.of_tree(server.pid)["pss_mb"]
                results["compared"] = self._hosts.compare()
                self._hosts.stop()
        finally:
            self._hosts.stop()
        return results

    def _connect(self) -> float:
        """Start all hosts without any state; the seconds until they are synced, and their reports acknowledged."""
        started = time.monotonic()
        self._hosts.start()
        until(
            lambda: self._hosts.are_synced() and not self._hosts.status("unacknowledged"), "all hosts to have reported"
        )
        return round(time.monotonic() - started, 2)

    def _measure(self, server: Running) -> None:
        for process in self._hosts.fleet:
            process.ask("record")
        self.results["memory"]["host"] = megabytes(self._hosts.pids) / self._sizes.hosts
        self.results["new_port"] = self._new_ports(server)
        progress("ports created and shown, and lists, with all hosts connected")
        self.results["full"] = self._cloud.create_and_show(server, self._sizes.requests)
        self.results["lists"] = self._cloud.lists(server, LISTS)
        self._hosts.settle("the new ports to be wired")
        self.results["idle"] = self._idle(server)
        self.results["stuck"], self.results["stuck_hosts"] = self._stuck(server), self._sizes.stuck
        self._hosts.settle("the stuck hosts to be synced again")

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
            answers = [process.ask("seen", [made])[made] for process in self._hosts.fleet]
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
        lean = [name for name in self._hosts.names if name not in self._hosts.full]
        chosen = frozenset(rng.sample(lean, self._sizes.stuck))
        progress(f"new ports, while {len(chosen)} hosts do not read")
        for process in self._hosts.fleet:
            process.ask("stick", sorted(chosen))
        try:
            network = self._cloud.networks[-1]
            return figures(self._new_port(server, network, rng, chosen) for _ in range(few))
        finally:
            for process in self._hosts.fleet:
                process.ask("unstick")

    # --- at rest --------------------------------------------------------------------------------------------------

    def _idle(self, server: Running) -> dict[str, Any]:
        progress(f"{self._sizes.idle:.0f} s of nothing but reports")
        tree = memory.tree(server.pid)
        feed = feed_pid(server.pid)
        before, at = {pid: processor.of_process(pid)[0] for pid in [*tree, *self._hosts.pids]}, time.monotonic()
        time.sleep(self._sizes.idle)
        seconds = time.monotonic() - at
        spent = {pid: (processor.of_process(pid)[0] - began) / seconds * 100 for pid, began in before.items()}
        return {
            "feed_cpu_percent": round(spent[feed], 2),
            "server_cpu_percent": round(sum(spent[pid] for pid in tree), 2),
            "hosts_cpu_percent": round(sum(spent[pid] for pid in self._hosts.pids), 2),
            "reports_per_s": round(self._sizes.hosts / self._sizes.interval, 1),
        }


def measure(name: str, sizes: Sizes) -> dict[str, Any]:
    raise_descriptors(sizes.hosts)
    with (
        tempfile.TemporaryDirectory(prefix="neutrino-hosts-", ignore_cleanup_errors=True) as place,
        databases.database(name, Path(place)) as connection,
    ):
        return Bench(sizes, connection, Path(place)).run()


def main(arguments: list[str] | None = None) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--database", choices=databases.NAMES, default="sqlite")
    parser.add_argument("--hosts", type=int, default=Sizes().hosts, help="number of hosts, with twenty ports each")
    parser.add_argument(
        "--quick", action="store_true", help="a hundred hosts, half a minute; for a look, not for figures"
    )
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else replace(Sizes(), hosts=options.hosts)

    def measured() -> dict[str, Any]:
        return {
            "machine": {**machine(), "load_before": busy()},
            "quick": options.quick,
            "database": options.database,
            "hosts": sizes.hosts,
            "ports": sizes.all_ports,
            "networks": sizes.networks + 1,
            "results": measure(options.database, sizes),
        }

    return command.run(options, measured, markdown, missed, check=True)


if __name__ == "__main__":
    sys.exit(main())
