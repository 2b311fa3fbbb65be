"""Benchmark of a large security group: ten thousand members on two hundred hosts, and one member more or less.

  python -m qa.bench.groups [--hosts 200] [--members 10000] [--quick] [--out docs/benchmarks-groups.json] [--check]
  python -m qa.bench.groups --show docs/benchmarks-groups.json

As root. One host is real: a lab host with agent and Open vSwitch, fifty ports plugged. The others are simulated, each with
a connection of its own (`lean_host.py`). All ports have one group, whose rules let in its members: a change of one port
concerns every host. The clock starts with the API request, and ends when the last host knows the member and the flow of
the real one is there (`ovs-ofctl monitor`); meanwhile the processes of the cloud run before others of the machine. At the
end what all hosts have is compared with the database.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neutrino.lab.hosts.ovs import DATABASE, SWITCH
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.credentials import Credentials
from qa.bench import command, processor
from qa.bench.client import LoadError
from qa.bench.fleet import Process, Simulated, raise_descriptors
from qa.bench.groups_report import markdown, missed
from qa.bench.hosts_check import Expected, records_of
from qa.bench.layout import tunneling_ip
from qa.bench.machine import busy, machine
from qa.bench.timing import figures
from qa.bench.wiring_host import HOST, INTEGRATION, BenchHost
from qa.bench.workbench import identity, progress
from tests.support import memory
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab

SECONDS = 300.0  # timeout of a step
REST = 0.2  # seconds before each change: an agent pauses after a round, for up to 0.1 s
_OPEN = ((6, 22), (6, 443), (6, 5432), (17, 53))  # protocols and ports that members may use


@dataclass(frozen=True)
class Sizes:
    hosts: int = 200  # the real one among them
    members: int = 10_000
    hosts_of_network: int = 20
    changes: int = 60
    interval: float = 30.0  # seconds between a host's reports

    @property
    def of_host(self) -> int:
        return self.members // self.hosts


QUICK = Sizes(hosts=20, members=400, hosts_of_network=10, changes=10)


class FlowMonitor:
    """When flows of the integration bridge have come and gone, as the switch tells it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._times: dict[tuple[str, str], float] = {}  # by event and sender's address
        self.changes = 0
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            event, now = line.partition("event=")[2].partition(" ")[0], time.monotonic()
            if event in ("ADDED", "DELETED"):
                self.changes += 1
                self._times[event, line.partition("nw_src=")[2].split(" ")[0].split(",")[0]] = now

    def join(self) -> None:
        """Wait until all that the ended process has said is read."""
        self._reading.join()

    def at(self, event: str, address: str) -> float:
        """0.0: not yet."""
        return self._times.get((event, address), 0.0)


@contextmanager
def flow_monitor(lab: Lab) -> Iterator[FlowMonitor]:
    argv = ["ovs-ofctl", "monitor", INTEGRATION, "watch:!initial"]
    with lab.popen(HOST, argv, stdout=subprocess.DEVNULL) as process:
        monitor = FlowMonitor(process)
        try:
            yield monitor
        finally:
            process.send_signal(signal.SIGTERM)
            monitor.join()


class Bench:
    def __init__(self, lab: Lab, sizes: Sizes, fleet: Process, monitor: FlowMonitor, names: Sequence[str]) -> None:
        self._lab = lab
        self._sizes = sizes
        self._fleet = fleet
        self._monitor = monitor
        self._names = names
        self._host = BenchHost(lab)
        self._networks: list[str] = []
        self._group = ""

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        self._until(lambda: self._fleet.ask("synced") == len(self._names), "the simulated hosts to connect")
        self._fill()
        self._settle()
        filled = time.monotonic() - started
        progress(f"{self._sizes.members} members after {filled:.0f} s; flows {self._flow_count()}")
        flows = self._flow_count()
        self._fleet.ask("record")
        processor.prefer([os.getpid(), self._fleet.pid, *self._pids().values(), *memory.tree(self._pids()["server"])])
        result = {"fill_s": round(filled, 1), "flows": flows, **self._changes()}
        progress(json.dumps(result))
        self._settle()
        self._compare()
        self._host.verify()
        self._host.close()
        return result

    # --- the cloud --------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        host, sizes = self._host, self._sizes
        self._group = host.group("large")
        rules = [{"protocol": number, "port_range_min": port, "port_range_max": port} for number, port in _OPEN]
        host.add_rules(self._group, [{**rule, "remote_group_id": self._group} for rule in [*rules, {"protocol": 1}]])
        for number in range(sizes.hosts // sizes.hosts_of_network):
            body = {"network": {"name": f"n{number}"}}
            network = identity(host.client.post("/networks", body))
            subnet = {"network_id": network, "ip_version": 4, "cidr": f"10.{number}.0.0/16", "enable_dhcp": False}
            host.client.post("/subnets", {"subnet": subnet})
            self._networks.append(network)
        progress(f"{sizes.members} ports on {sizes.hosts} hosts")
        for name in (HOST, *self._names):
            ports = host.ports(self._network_of(name), sizes.of_host, **self._port_on(name))
            if name == HOST:
                host.plug(host.devices(len(ports)), ports)
                host.until_all_active(self._networks[0], ports)

    def _network_of(self, host: str) -> str:
        return self._networks[(HOST, *self._names).index(host) // self._sizes.hosts_of_network]

    def _port_on(self, host: str) -> dict[str, Any]:
        return {"binding:host_id": host, "security_groups": [self._group]}

    def _flow_count(self) -> int:
        return self._host.flow_count([INTEGRATION])

    # --- changes ----------------------------------------------------------------------------------------------------

    def _changes(self) -> dict[str, Any]:
        """Members that are added and removed, one after the other."""
        rng = random.Random(1)
        times: dict[str, dict[str, list[float]]] = {
            kind: {"known": [], "applied": [], "everywhere": []} for kind in ("added", "removed")
        }
        costs: dict[str, dict[str, float]] = {}
        added: list[tuple[str, str]] = []
        for kind in times:
            progress(f"members {kind}, one by one")
            before = self._spent()
            for number in range(self._sizes.changes):
                time.sleep(REST)
                if kind == "added":
                    began, port = time.monotonic(), self._add(rng.choice(self._names))
                    added.append(port)
                else:
                    port = added[number]
                    began = time.monotonic()
                    self._host.client.delete(f"/ports/{port[0]}")
                known, applied = self._wait(kind, port[1])
                found = times[kind]
                found["known"].append((known - began) * 1000)
                found["applied"].append((applied - began) * 1000)
                found["everywhere"].append((max(known, applied) - began) * 1000)
            self._settle()
            costs[kind] = {
                name: round((value - before[name]) / self._sizes.changes, 4) for name, value in self._spent().items()
            }
        return {
            kind: {**{name: figures(values) for name, values in found.items()}, "each": costs[kind]}
            for kind, found in times.items()
        }

    def _add(self, host: str) -> tuple[str, str]:
        body = {"network_id": self._network_of(host), "device_owner": "compute:bench", **self._port_on(host)}
        port = self._host.client.post("/ports", {"port": body}).item()
        return str(port["id"]), str(port["fixed_ips"][0]["ip_address"])

    def _wait(self, kind: str, address: str) -> tuple[float, float]:
        """When the last simulated host knew it, and when the real one had applied it."""
        sign, event = ("+", "ADDED") if kind == "added" else ("-", "DELETED")
        key, last = f"{sign}{address}", 0.0

        def known() -> bool:
            nonlocal last
            count, last = self._fleet.ask("seen", [key])[key]
            return bool(count == len(self._names))

        self._until(lambda: self._monitor.at(event, address) > 0 and known(), f"{key} on all hosts", every=0.02)
        return last, self._monitor.at(event, address)

    def _spent(self) -> dict[str, float]:
        """Processor seconds by part, and what was sent and changed, since the start."""
        pids = self._pids()
        family = memory.tree(pids["server"])
        feed = next(pid for pid in family if b"feed" in Path(f"/proc/{pid}/cmdline").read_bytes())
        messages, received = self._fleet.ask("received")
        return {
            "feed_s": sum(processor.of_process(feed)),
            "agent_s": sum(processor.of_process(pids["agent"])),  # with the programs that it has run
            "switch_s": sum(processor.of_process(pids["switch"])),
            "messages": messages,
            "bytes": received,
            "flows": self._monitor.changes,
        }

    def _pids(self) -> dict[str, int]:
        ovs = self._lab.ovs(HOST)
        found = {"server": self._lab.processes.pid("server"), "agent": self._lab.agent_pid(HOST)}
        found |= {"switch": ovs.pid(SWITCH), "database": ovs.pid(DATABASE)}
        running = {name: pid for name, pid in found.items() if pid is not None}
        if running.keys() != found.keys():
            raise LoadError(f"processes of the lab have ended: {', '.join(found.keys() - running.keys())}")
        return running

    # --- waiting, and whether it is right ---------------------------------------------------------------------------

    def _until(self, ready: Callable[[], bool], what: str, every: float = 0.1) -> None:
        give_up = time.monotonic() + SECONDS
        while not ready():
            if time.monotonic() > give_up:
                raise LoadError(f"{what}: not within {SECONDS:.0f} s")
            time.sleep(every)

    def _settle(self) -> None:
        """Wait until no host has anything to say or to apply."""
        before: dict[str, int] = {}

        def settled() -> bool:
            nonlocal before
            found = self._fleet.ask("status")
            known, before = before, found
            said = self._host.agent()["configurations"]
            quiet = not found["unacknowledged"] and not found["waiting"] and said.get("feed_behind") == 0
            return bool(quiet and found == known and found["synced"] == len(self._names))

        self._until(settled, "all hosts to be quiet", every=1.0)

    def _compare(self) -> None:
        expected = Expected(records_of(_connection(self._lab)))
        for name, has in self._fleet.ask("summaries", seconds=300).items():
            if has != expected.of(name):
                raise LoadError(f"what host {name} has differs from the database")


def _connection(lab: Lab) -> str:
    return f"sqlite:///{lab.paths.server}/neutrino.sqlite"


def _admit(lab: Lab, names: Sequence[str]) -> list[Simulated]:
    db = Database(_connection(lab))
    try:
        credentials = Credentials(db)
        return [
            Simulated(name, credentials.add(name, ("l2",)), tunneling_ip(number), is_full=False)
            for number, name in enumerate(names)
        ]
    finally:
        db.close()


def measure(sizes: Sizes) -> dict[str, Any]:
    raise_descriptors(sizes.hosts)
    with temporary_lab(hosts=1, roles=("l2",)) as lab, flow_monitor(lab) as monitor:
        names = [f"s{number:03}" for number in range(1, sizes.hosts)]
        fleet = Process(_admit(lab, names), f"unix:{lab.paths.feed_socket}", sizes.interval)
        try:
            return Bench(lab, sizes, fleet, monitor, names).run()
        finally:
            fleet.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--hosts", type=int, default=Sizes().hosts, help="the real one among them; multiples of 20")
    parser.add_argument("--members", type=int, default=Sizes().members, help="(default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="less of everything; for a look, not for figures")
    command.add_check(parser)
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes(hosts=options.hosts, members=options.members)

    def measured() -> dict[str, Any]:
        shape = {"hosts": sizes.hosts, "members": sizes.members, "of_host": sizes.of_host, "rules": len(_OPEN) + 1}
        before = {"machine": {**machine(), "load_before": busy()}, "quick": options.quick}
        return {**before, **shape, "results": measure(sizes)}

    return command.run(options, measured, markdown, missed, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
