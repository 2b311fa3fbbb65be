"""Benchmark of a boot storm: many instances at once, as Nova's compute services create and delete them.

  python -m qa.bench.boot_storm [--ports 200] [--hosts 4] [--clients 8] [--out FILE]
  python -m qa.bench.boot_storm --show FILE

A lab of several hosts with Open vSwitch in userspace, all roles, and a server on SQLite, on one machine. Each client
takes one instance after the other: it creates a bound port, plugs a device by one call of ovs-vsctl, as os-vif does, and
waits until the port is ACTIVE. Then the same clients unplug and delete all of them. The end is when the switches have the
flows that they had before.

Neutron's figure is that of one host, of `qa.bench.wiring`: 50 ports that were plugged at once took it 16.4 s. It stands for
50 ports on each of four hosts here, though these share the processors of the machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neutrino.lab.hosts.namespaces import host_command, ip_batch
from qa.bench.client import Client, LoadError, Target
from qa.bench.machine import busy, machine
from qa.bench.one_machine import lab_time, quiet
from qa.bench.operations import HEADERS
from qa.bench.report import Peer, Row, at, rows_table
from qa.bench.timing import dealt, figures
from qa.bench.wiring_host import INTEGRATION
from qa.bench.workbench import identity, progress
from tests.support.lab import temporary_lab
from tests.support.lab_control import Lab

OURS = "cookie=0x6e74726e00000000/0xffffffff00000000"
PEERS = (Peer("all ports ACTIVE", "boot.total_ms", 16400, "ms", 30),)
_SECONDS = 300.0
_POLL = 0.02  # between two looks at a port; Nova gets an event instead


@dataclass(frozen=True)
class Instance:
    host: str
    device: str


@dataclass
class Storm:
    """The clients of one lab, and the times that they have measured, in milliseconds."""

    lab: Lab
    network: str
    clients: int
    times: dict[str, list[float]] = field(default_factory=dict)
    ports: dict[Instance, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, work: Callable[[Client, Instance], None], instances: Sequence[Instance]) -> float:
        """All instances by all clients; gives the milliseconds. The first error of a client is raised."""
        target, errors = Target(self.lab.settings.url, HEADERS, time.monotonic() + _SECONDS), list[Exception]()

        def take(share: Sequence[Instance]) -> None:
            client = Client(target)
            try:
                for instance in share:
                    work(client, instance)
            except Exception as error:
                errors.append(error)
            finally:
                client.close()

        threads = [threading.Thread(target=take, args=(share,)) for share in dealt(instances, self.clients)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        return (time.perf_counter() - began) * 1000

    def boot(self, client: Client, instance: Instance) -> None:
        began = time.perf_counter()
        body = {"network_id": self.network, "device_owner": "compute:nova", "binding:host_id": instance.host}
        created = client.post("/ports", {"port": body})
        port = self.ports[instance] = identity(created)
        ids = [f"external_ids:iface-id={port}", "external_ids:iface-status=active"]
        add = ["--no-wait", "--", "add-port", INTEGRATION, instance.device, "--", "set", "Interface", instance.device]
        self.lab.ovs(instance.host).vsctl(*add, *ids)
        plugged = time.perf_counter()
        while client.get(f"/ports/{port}?fields=status").item()["status"] != "ACTIVE":
            time.sleep(_POLL)
        ended = time.perf_counter()
        self._note("created", created.millis)
        self._note("from_plug", (ended - plugged) * 1000)
        self._note("from_post", (ended - began) * 1000)

    def delete(self, client: Client, instance: Instance) -> None:
        self.lab.ovs(instance.host).vsctl("--no-wait", "--if-exists", "del-port", INTEGRATION, instance.device)
        self._note("deleted", client.delete(f"/ports/{self.ports[instance]}").millis)

    def _note(self, what: str, millis: float) -> None:
        with self._lock:
            self.times.setdefault(what, []).append(millis)


def make_instances(lab: Lab, ports: int) -> list[Instance]:
    """Devices, spread over the hosts: one end of a veth pair each, up and not plugged."""
    instances = [Instance(lab.hosts[n % len(lab.hosts)], f"boot{n}") for n in range(ports)]
    for host in lab.hosts:
        names = [each.device for each in instances if each.host == host]
        lines = [line for n in names for line in (f"link add {n} type veth peer name {n}p", f"link set {n} up")]
        ip_batch(lines, host_command(lab.holder(host), []))
    return instances


def flow_counts(lab: Lab) -> dict[str, int]:
    """How many flows of ours the integration bridge of each host has."""
    bridge = f"unix:/run/openvswitch/{INTEGRATION}.mgmt"
    command = ["ovs-ofctl", "-O", "OpenFlow14", "dump-aggregate", bridge, OURS]
    return {host: int(lab.run(host, command).stdout.rpartition("flow_count=")[2].split()[0]) for host in lab.hosts}


def measure(ports: int, hosts: int, clients: int) -> dict[str, Any]:
    with temporary_lab(hosts=hosts) as lab:
        client = Client(Target(lab.settings.url, HEADERS, time.monotonic() + _SECONDS))
        network = identity(client.post("/networks", {"network": {"name": "boot"}}))
        client.post("/subnets", {"subnet": {"network_id": network, "ip_version": 4, "cidr": "10.1.0.0/16"}})
        storm, instances = Storm(lab, network, clients), make_instances(lab, ports)
        storm.run(storm.boot, instances[:hosts])  # the network is new on each host: not of the storm
        storm.run(storm.delete, instances[:hosts])
        before_time, before = quiet(lambda: lab_time(lab), hosts), flow_counts(lab)
        storm.times.clear()
        progress(f"{ports} ports on {hosts} hosts by {clients} clients")
        booted = storm.run(storm.boot, instances)
        middle, flows = quiet(lambda: lab_time(lab), hosts), flow_counts(lab)
        progress("all of them deleted")
        began = time.perf_counter()
        deleted = storm.run(storm.delete, instances)
        while flow_counts(lab) != before:
            if time.perf_counter() - began > _SECONDS:
                raise LoadError(f"flows of deleted ports stay: {flow_counts(lab)} instead of {before}")
            time.sleep(0.05)
        gone, after = (time.perf_counter() - began) * 1000, quiet(lambda: lab_time(lab), hosts)
        client.close()
    return {
        "ports": ports,
        "hosts": hosts,
        "clients": clients,
        "flows": sum(flows.values()) - sum(before.values()),
        "boot": {"total_ms": round(booted, 1), "processor_ms": _spent(before_time, middle, ports)},
        "delete": {
            "total_ms": round(deleted, 1),
            "flows_gone_ms": round(gone, 1),
            "processor_ms": _spent(middle, after, ports),
        },
        **{name: figures(millis) for name, millis in storm.times.items()},
    }


def _spent(before: Any, after: Any, ports: int) -> dict[str, float]:
    """Milliseconds of processor time of a port, by part of the lab."""
    parts = {part: 1000 * (after[part] - before.get(part, 0.0)) / ports for part in after}
    return {part: round(millis, 2) for part, millis in sorted(parts.items(), key=lambda each: -each[1]) if millis > 0.1}


def document(raw: Any) -> str:
    rows = [Row(peer, at(raw, peer.path), peer.factor) for peer in PEERS]
    more = [
        (
            "POST to ACTIVE, median and 95th percentile",
            f"{raw['from_post']['p50_ms']:.0f}, {raw['from_post']['p95_ms']:.0f} ms",
        ),
        ("plugged to ACTIVE", f"{raw['from_plug']['p50_ms']:.0f}, {raw['from_plug']['p95_ms']:.0f} ms"),
        ("the POST alone", f"{raw['created']['p50_ms']:.1f}, {raw['created']['p95_ms']:.1f} ms"),
        ("DELETE of one port", f"{raw['deleted']['p50_ms']:.1f}, {raw['deleted']['p95_ms']:.1f} ms"),
        (
            "all deleted; their flows gone",
            f"{raw['delete']['total_ms']:.0f} ms; {raw['delete']['flows_gone_ms']:.0f} ms",
        ),
        ("flows of these ports", f"{raw['flows']:,}"),
        ("processor time of a port, created", _parts(raw["boot"]["processor_ms"])),
        ("processor time of a port, deleted", _parts(raw["delete"]["processor_ms"])),
        ("load of the machine, before and after", f"{raw['busy_before']:.1f}, {raw['busy_after']:.1f}"),
    ]
    head = f"{raw['ports']} ports on {raw['hosts']} hosts by {raw['clients']} clients"
    lines = [f"| {head} | |", "|---|---|", *(f"| {name} | {value} |" for name, value in more)]
    return rows_table(rows) + "\n\n" + "\n".join(lines) + "\n"


def _parts(parts: dict[str, float]) -> str:
    return f"{sum(parts.values()):.0f} ms: " + ", ".join(
        f"{part} {millis:.1f}" for part, millis in [*parts.items()][:6]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ports", type=int, default=200)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--show", type=Path, metavar="FILE", help="only print the tables of figures written earlier")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(document(json.loads(options.show.read_text(encoding="utf-8"))), end="")
        return 0
    raw: dict[str, Any] = {"machine": machine(), "busy_before": busy()}
    try:
        raw |= measure(options.ports, options.hosts, options.clients)
    except (LoadError, RuntimeError) as error:
        print(f"the measurement failed: {error}", file=sys.stderr)
        return 1
    raw["busy_after"] = busy()
    print(document(raw), end="")
    if options.out is not None:
        options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
