"""Benchmark of a boot storm: many instances at once, as Nova's compute services create and delete them.

  python -m qa.bench.boot_storm [--ports 200] [--hosts 4] [--clients 8] [--neutron] [--out FILE]
  python -m qa.bench.boot_storm --show FILE

A lab of several hosts with Open vSwitch in userspace, all roles, and a server on SQLite, on one machine. Each client
takes one instance after the other: it creates a bound port, plugs a device by one transaction, as os-vif does, and waits
for Nova's event that the port is plugged, which follows its status ACTIVE. Then the same clients unplug and delete all of
them. The end is when the switches have no more flows than before, or a minute later: flows that are left are counted.

With `--neutron` the same clients do the same with OpenStack Neutron before: its server on MariaDB and RabbitMQ, and on
each of as many lab hosts its Open vSwitch agent and its DHCP agent. Without, Neutron's figure is that of one host, of
`qa.bench.wiring`: 50 ports that were plugged at once took it 16.4 s. It stands for 50 ports on each of four hosts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from qa.bench import command
from qa.bench.client import Client, Target
from qa.bench.machine import busy, machine
from qa.bench.one_machine import lab_time, quiet, yield_to_clients
from qa.bench.operations import HEADERS
from qa.bench.report import Peer, Row, at, rows_table
from qa.bench.storm import neutron, nova
from qa.bench.storm.clients import SECONDS, Storm, System, flow_counts, make_instances, pluggers
from qa.bench.storm.nova import Events
from qa.bench.timing import figures
from qa.bench.workbench import identity, progress
from tests.support.lab import temporary_lab

WANTED = 30.0  # times as fast as Neutron
_GONE_SECONDS = 60.0  # then flows that are still there stay
_ONE_HOST = 16400.0  # milliseconds, of Neutron's 50 ports on one host
_PEERS = (
    ("all ports ACTIVE", "boot.total_ms"),
    ("POST to ACTIVE, median", "from_post.p50_ms"),
    ("POST to ACTIVE, 95th percentile", "from_post.p95_ms"),
    ("all ports deleted", "delete.total_ms"),
)
Started = Callable[[int, Events, Path], AbstractContextManager[System]]


def measure(system: System, events: Events, ports: int, clients: int) -> dict[str, Any]:
    """The figures of one networking service."""
    lab, url, spent = system.lab, system.url, system.spent
    hosts = len(lab.hosts)
    target = Target(url, HEADERS, time.monotonic() + SECONDS)
    client, plugs = Client(target), pluggers(lab)
    network = identity(client.post("/networks", {"network": {"name": "boot"}}))
    client.post("/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/16"}})
    client.close()
    storm, instances = Storm(target, network, clients, events, plugs), make_instances(lab, ports)
    storm.run(storm.boot, instances[:hosts])  # the network is new on each host: not of the storm
    storm.run(storm.delete, instances[:hosts])
    before_time, before = quiet(spent, hosts), flow_counts(lab)
    storm.times.clear()
    storm.ports.clear()
    progress(f"{ports} ports on {hosts} hosts by {clients} clients")
    booted = storm.run(storm.boot, instances)
    storm.check_active()
    middle, flows = quiet(spent, hosts), flow_counts(lab)
    progress(f"ACTIVE after {booted / 1000:.1f} s; all of them are deleted")
    began = time.perf_counter()
    deleted = storm.run(storm.delete, instances)
    while (left := sum(max(now - before[host], 0) for host, now in flow_counts(lab).items())) > 0:
        if time.perf_counter() - began > deleted / 1000 + _GONE_SECONDS:
            break
        time.sleep(0.05)
    gone, after = (time.perf_counter() - began) * 1000, quiet(spent, hosts)
    for plugger in plugs.values():
        plugger.close()
    return {
        "flows": sum(flows.values()) - sum(before.values()),
        "boot": {"total_ms": round(booted, 1), "processor_ms": _spent(before_time, middle, ports)},
        "delete": {
            "total_ms": round(deleted, 1),
            "flows_gone_ms": round(gone, 1),
            "flows_left": left,
            "processor_ms": _spent(middle, after, ports),
        },
        **{name: figures(millis) for name, millis in storm.times.items()},
    }


def _spent(before: Mapping[str, float], after: Mapping[str, float], ports: int) -> dict[str, float]:
    """Milliseconds of processor time of a port, by part."""
    parts = {part: 1000 * (after[part] - before.get(part, 0.0)) / ports for part in after}
    return {part: round(millis, 2) for part, millis in sorted(parts.items(), key=lambda each: -each[1]) if millis > 0.1}


@contextmanager
def _ours(hosts: int, events: Events, directory: Path) -> Iterator[System]:
    file = directory / "nova.conf"
    file.write_text(nova.configuration(events), encoding="utf-8")
    with temporary_lab(hosts=hosts, server_config_files=(str(file),)) as lab:
        yield_to_clients(lab)
        yield System(lab, lab.settings.url, lambda: lab_time(lab))


def _measured(started: Started, ports: int, hosts: int, clients: int) -> dict[str, Any]:
    with (
        tempfile.TemporaryDirectory(prefix="neutrino-storm-") as name,
        nova.serving() as events,
        started(hosts, events, Path(name)) as system,
    ):
        return measure(system, events, ports, clients)


def document(raw: Mapping[str, Any]) -> str:
    ours, other = raw["ours"], raw.get("neutron")
    if other is None:
        peers = [Peer(*_PEERS[0], _ONE_HOST, "ms", WANTED)]
    else:
        peers = [Peer(name, path, at(other, path) or 0.0, "ms", WANTED) for name, path in _PEERS]
    rows = [Row(peer, at(ours, peer.path), peer.factor) for peer in peers]
    more = {
        "plugged to ACTIVE, median and 95th percentile": lambda one: _two(one["from_plug"]),
        "the POST alone": lambda one: _two(one["created"]),
        "DELETE of one port": lambda one: _two(one["deleted"]),
        "flows of these ports": lambda one: f"{one['flows']:,}",
        "flows gone, from the first DELETE on": lambda one: _gone(one["delete"]),
        "processor time of a port, created": lambda one: _parts(one["boot"]["processor_ms"]),
        "processor time of a port, deleted": lambda one: _parts(one["delete"]["processor_ms"]),
    }
    sides = [ours] if other is None else [other, ours]
    head = f"{raw['ports']} ports on {raw['hosts']} hosts by {raw['clients']} clients"
    names = ["ours"] if other is None else ["OpenStack Neutron", "ours"]
    lines = [f"| {' | '.join([head, *names])} |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {' | '.join([name, *map(show, sides)])} |" for name, show in more.items()]
    load = f"load of the machine, before and after: {raw['busy_before']:.1f}, {raw['busy_after']:.1f}"
    return "\n".join([rows_table(rows), "", *lines, "", load, ""])


def _two(times: Mapping[str, float]) -> str:
    return f"{times['p50_ms']:.0f}, {times['p95_ms']:.0f} ms"


def _gone(deleted: Mapping[str, float]) -> str:
    seconds, left = deleted["flows_gone_ms"] / 1000, deleted.get("flows_left", 0)
    return f"{left:.0f} stay for {seconds:.0f} s and longer" if left else f"{seconds:.1f} s"


def _parts(parts: Mapping[str, float]) -> str:
    largest = ", ".join(f"{part} {millis:.1f}" for part, millis in [*parts.items()][:6])
    return f"{sum(parts.values()):.0f} ms: {largest}"


def main(arguments: list[str] | None = None) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--ports", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--neutron", action="store_true", help="OpenStack Neutron too (scripts/setup neutron)")
    options = parser.parse_args(arguments)
    shape = {"ports": options.ports, "hosts": options.hosts, "clients": options.clients}

    def measured() -> dict[str, Any]:
        before = {"machine": machine(), "busy_before": busy(), **shape}
        theirs = {"neutron": _measured(neutron.running, **shape)} if options.neutron else {}
        return {**before, **theirs, "ours": _measured(_ours, **shape), "busy_after": busy()}

    return command.run(options, measured, document)


if __name__ == "__main__":
    sys.exit(main())
