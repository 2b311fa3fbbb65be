"""Benchmark of what happens to many hosts at once: first snapshots, and reconnection after the server was killed.

  python -m qa.bench.resync [--hosts 5000] [--quick] [--database sqlite|postgresql|mariadb] [--out FILE]
  python -m qa.bench.resync --show docs/benchmarks-resync.json

The hosts and the comparison at the end are those of `hosts.py`, of which this is the part about storms. Networks and ports
are written into the database as rows, as the API has written those of a template, so the cloud of 5,000 hosts takes
a minute instead of six. Exit status 1 if a target is missed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from neutrino.feed.address import parse
from neutrino.feed.client import ClientOptions, FeedClient
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from qa.bench import command, databases, processor
from qa.bench.client import LoadError
from qa.bench.fleet import raise_descriptors
from qa.bench.hosts_cloud import client_of, port_on
from qa.bench.hosts_fleet import Hosts, Spent, feed_mb, feed_pid, progress, until
from qa.bench.layout import QUICK, Sizes, networks
from qa.bench.machine import busy, machine
from qa.bench.resync_report import markdown, missed
from qa.bench.rows import Copies
from qa.bench.server import Running, running
from tests.support import memory

PROBE = "probe"  # a host without ports
MEMORY_SECONDS = 0.5  # between two looks at the feed's memory
# Hosts are away while the cloud is filled, and a port is bound only to a live one.
CONFIGURATION = "agent_down_time = 3600\n"


class Storms:
    """What both benchmarks with many hosts measure of servers on one database."""

    def __init__(self, hosts: Hosts, connection: str, directory: Path) -> None:
        self._hosts = hosts
        self._connection = connection
        self._directory = directory
        self._credential = ""

    def admit_probe(self) -> None:
        db = Database(self._connection, sqlite_durable=False)
        self._credential = Credentials(db).add(PROBE)
        db.close()

    @contextmanager
    def started(self, results: dict[str, Any]) -> Iterator[Running]:
        """A server, with its start measured: until the API and the feed serve."""
        began = time.monotonic()
        served = threading.Thread(target=lambda: results.update(feed_s=self._feed_serves(began)), daemon=True)
        served.start()
        with running(self._connection, self._directory, more=CONFIGURATION) as server:
            results["first_200_s"] = round(server.start_ms / 1000, 2)
            served.join()
            if "feed_s" not in results:
                raise LoadError("the feed does not serve")
            feed = feed_pid(server.pid)
            results["feed_cpu_s"] = round(processor.of_process(feed)[0], 2)
            yield server

    def _feed_serves(self, began: float) -> float:
        """Seconds until the feed has sent a host everything."""
        address = parse(f"unix:{self._directory.absolute() / 'feed.sock'}")
        options = ClientOptions(address, PROBE, self._credential, roles=("l2",), first_delay=0.05, longest_delay=0.05)

        async def synced() -> None:
            client = FeedClient(options)
            connected = asyncio.create_task(client.run())
            async with asyncio.timeout(120):
                await client.wait_synced()
            connected.cancel()

        asyncio.run(synced())
        return round(time.monotonic() - began, 2)

    def snapshots(self, server: Running, memories: dict[str, Any]) -> dict[str, Any]:
        """Start all hosts without any state, until they are synced."""
        spent = Spent(self._hosts, server.pid, feed_pid(server.pid))
        with _peak(server, memories, "snapshots"):
            self._hosts.start()
            until(self._hosts.are_synced, "all hosts to have their first snapshot")
        found = spent.figures()
        self._hosts.settle("all ports to be wired")
        return {**found, "wired_s": spent.figures()["s"]}

    def kill(self, server: Running) -> float:
        """Kill the server; when it was."""
        killed = time.monotonic()
        progress("server killed")
        os.kill(server.pid, signal.SIGKILL)
        until(lambda: self._hosts.ask("synced") == 0, "the hosts to see that the server is gone")
        return killed

    def back(self, server: Running, killed: float, before: float) -> dict[str, Any]:
        """Wait for all hosts. `before`: the processor time of the simulated hosts when the server was killed."""
        until(self._hosts.are_synced, "all hosts to be back")
        feed = processor.of_process(feed_pid(server.pid))[0]
        return {
            "after_kill_s": round(time.monotonic() - killed, 2),
            "feed_cpu_s": round(feed, 2),  # with its start
            "server_cpu_s": round(processor.seconds([server.pid]) - feed, 2),
            "hosts_cpu_s": round(self._hosts.processor_seconds - before, 2),
        }


@contextmanager
def _peak(server: Running, memories: dict[str, Any], name: str) -> Iterator[None]:
    """The largest memory of the feed during the block."""
    ended, seen = threading.Event(), [0.0]

    def look() -> None:
        while True:
            seen.append(feed_mb(server.pid))
            if ended.wait(MEMORY_SECONDS):
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        ended.set()
        looking.join()
        memories[name] = max(seen)


class Bench:
    def __init__(self, sizes: Sizes, connection: str, directory: Path) -> None:
        self._sizes = sizes
        self._connection = connection
        self._directory = directory
        self._hosts = Hosts(sizes, connection, directory)
        self._storms = Storms(self._hosts, connection, directory)

    def run(self) -> dict[str, Any]:
        try:
            self._fill()
            return self._measure()
        finally:
            self._hosts.stop()

    def _fill(self) -> None:
        self._hosts.admit()
        self._storms.admit_probe()
        with self._storms.started({}) as server:
            self._hosts.start(slice(1))
            until(lambda: self._hosts.ask("synced") == 1 and not self._hosts.status("unacknowledged"), "the first host")
            client = client_of(server)
            network = client.post("/networks", {"network": {"name": "template"}}).item()["id"]
            client.post("/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.255.0.0/24"}})
            port = client.post("/ports", {"port": port_on(network, self._hosts.names[0])}).item()
            client.close()
            if port["binding:vif_type"] != "ovs":
                raise LoadError("the port of the template was not bound")
            self._hosts.stop()
        progress("networks and ports")
        db = Database(self._connection, sqlite_durable=False)
        Copies(db, network).add(self._hosts.names, networks(self._sizes, self._hosts.names), status="DOWN")
        db.close()

    def _measure(self) -> dict[str, Any]:
        results: dict[str, Any] = {"start": {}, "memory": {}}
        memories = results["memory"]
        with self._storms.started(results["start"]) as server:
            memories["alone"] = feed_mb(server.pid)
            results["snapshots"] = self._storms.snapshots(server, memories)
            results["compared"] = self._hosts.compare()
            before = self._hosts.processor_seconds
            killed = self._storms.kill(server)
        restart: dict[str, Any] = {}
        with self._storms.started(restart) as server:
            results["resync"] = {**self._storms.back(server, killed, before), "start": restart}
            self._hosts.settle("nothing to be left")
            memories["connected"] = feed_mb(server.pid)
            memories["server"] = memory.of_tree(server.pid)["pss_mb"]
            results["compared"] = self._hosts.compare()
            self._hosts.stop()
        return results


def measure(name: str, sizes: Sizes) -> dict[str, Any]:
    raise_descriptors(sizes.hosts)
    with (
        tempfile.TemporaryDirectory(prefix="neutrino-resync-", ignore_cleanup_errors=True) as place,
        databases.database(name, Path(place)) as connection,
    ):
        return Bench(sizes, connection, Path(place)).run()


def main(arguments: list[str] | None = None) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--database", choices=databases.NAMES, default="sqlite")
    parser.add_argument("--hosts", type=int, default=Sizes().hosts, help="number of hosts, with twenty ports each")
    parser.add_argument("--quick", action="store_true", help="a hundred hosts, for a look, not for figures")
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else replace(Sizes(), hosts=options.hosts)

    def measured() -> dict[str, Any]:
        return {
            "machine": {**machine(), "load_before": busy()},
            "quick": options.quick,
            "database": options.database,
            "hosts": sizes.hosts,
            "ports": sizes.all_ports,
            "results": measure(options.database, sizes),
        }

    return command.run(options, measured, markdown, missed, check=True)


if __name__ == "__main__":
    sys.exit(main())
