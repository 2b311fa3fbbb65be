"""Growth curves: the cost of operations against the number of objects of a kind, of hosts and of group members.

  python -m qa.bench.curves [--quick] [--database sqlite] [--images docs/images] [--out docs/benchmarks-growth.json]

The API is measured on one server, medians of sequential requests: after each step a dimension is ten times as large.
Networks and routers are scheduled to agents, which are registered and never connect. The feed is measured by processor
time of its fan-out (`curves_feed.py`). Writes a chart per dimension, and prints a table.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qa.bench import agents, curves_feed, databases
from qa.bench.chart import chart
from qa.bench.client import Client, LoadError, Target
from qa.bench.machine import machine
from qa.bench.server import running
from qa.bench.workbench import progress

SECONDS = 1200.0
BULK = 100
REPEATS = 15
NEGLIGIBLE_MS = 0.02
HOSTS, MEMBERS = "hosts", "group members"  # dimensions of the feed
Curves = dict[str, dict[str, list[tuple[float, float]]]]  # dimension → operation → (number, milliseconds)


@dataclass(frozen=True)
class Steps:
    ports: tuple[int, ...] = (100, 1_000, 10_000, 50_000)
    rules: tuple[int, ...] = (10, 100, 1_000)
    networks: tuple[int, ...] = (100, 1_000, 5_000)
    routers: tuple[int, ...] = (10, 100, 1_000)
    floating_ips: tuple[int, ...] = (10, 100, 1_000)
    hosts: tuple[int, ...] = (50, 500, 1_000, 5_000)
    members: tuple[int, ...] = (100, 1_000, 10_000)


QUICK = Steps((100, 500), (10, 50), (10, 50), (10, 30), (10, 30), (50, 200), (100, 500))


@dataclass
class Growth:
    client: Client
    curves: Curves = field(default_factory=dict)

    def note(self, dimension: str, number: int, operation: str, ask: Callable[..., float], *args: Any) -> None:
        millis = sorted(ask(*args) for _ in range(REPEATS))[REPEATS // 2]
        self.curves.setdefault(dimension, {}).setdefault(operation, []).append((number, round(millis, 3)))

    def make(self, kind: str, **values: Any) -> dict[str, Any]:
        return self.client.post(f"/{kind}s", {kind: values}).item()

    def network(self, cidr: str, **values: Any) -> tuple[str, str]:
        network = str(self.make("network", **values)["id"])
        return network, str(self.make("subnet", network_id=network, ip_version=4, cidr=cidr)["id"])

    def _get(self, path: str) -> float:
        return self.client.get(path).millis

    def _made_and_deleted(self, kind: str, values: Mapping[str, Any]) -> float:
        reply = self.client.post(f"/{kind}s", {kind: values})
        self.client.delete(f"/{kind}s/{reply.item()['id']}")
        return reply.millis

    # --- dimensions -----------------------------------------------------------------------------------------------

    def ports(self, steps: Iterable[int]) -> None:
        """Ports of one project, all of them members of its default group."""
        network, _ = self.network("10.0.0.0/14")
        keys: list[str] = []
        for number in steps:
            progress(f"{number} ports")
            while len(keys) < number:
                names = [f"p{index}" for index in range(len(keys), min(len(keys) + BULK, number))]
                several = [{"network_id": network, "name": name} for name in names]
                keys += [str(made["id"]) for made in self.client.post("/ports", {"ports": several}).items()]
            last = keys[-1]
            self.note("ports", number, "create", self._made_and_deleted, "port", {"network_id": network})
            self.note("ports", number, "show", self._get, f"/ports/{last}")
            self.note("ports", number, "update", self._named, "port", last)
            self.note("ports", number, "list 100", self._get, "/ports?limit=100")
            self.note("ports", number, "by name", self._get, f"/ports?name=p{number - 1}")

    def _named(self, kind: str, key: str) -> float:
        name = f"n{time.monotonic_ns()}"
        return self.client.put(f"/{kind}s/{key}", {kind: {"description": name}}).millis

    def rules(self, steps: Iterable[int]) -> None:
        """Rules of one group, which a new port uses."""
        group = str(self.client.post("/security-groups", {"security_group": {"name": "rules"}}).item()["id"])
        network, _ = self.network("10.4.0.0/16")
        made = 0
        for number in steps:
            progress(f"{number} rules")
            while made < number:
                count = min(BULK, number - made)
                several = [_rule(group, made + i) for i in range(count)]
                self.client.post("/security-group-rules", {"security_group_rules": several})
                made += count
            self.note("rules", number, "create rule", self._rule, group)
            self.note("rules", number, "show group", self._get, f"/security-groups/{group}")
            page = f"/security-group-rules?security_group_id={group}&limit=100"
            self.note("rules", number, "list 100", self._get, page)
            body = {"network_id": network, "security_groups": [group]}
            self.note("rules", number, "create port", self._made_and_deleted, "port", body)

    def _rule(self, group: str) -> float:
        reply = self.client.post("/security-group-rules", {"security_group_rule": _rule(group, 30_000)})
        self.client.delete(f"/security-group-rules/{reply.item()['id']}")
        return reply.millis

    def networks(self, steps: Iterable[int]) -> None:
        """Networks with a DHCP subnet, each on DHCP agents."""
        made: list[str] = []
        for number in steps:
            progress(f"{number} networks")
            while len(made) < number:
                several = [{"name": f"n{index}"} for index in range(len(made), min(len(made) + BULK, number))]
                found = [str(one["id"]) for one in self.client.post("/networks", {"networks": several}).items()]
                subnets = [{"network_id": key, "ip_version": 4, "cidr": "10.1.0.0/24"} for key in found]
                self.client.post("/subnets", {"subnets": subnets})
                made += found
            last = made[-1]
            self.note("networks", number, "create", self._made_and_deleted, "network", {})
            self.note("networks", number, "create subnet, which schedules the network", self._subnet)
            self.note("networks", number, "show", self._get, f"/networks/{last}")
            self.note("networks", number, "list 100", self._get, "/networks?limit=100")
            self.note("networks", number, "create port", self._made_and_deleted, "port", {"network_id": last})

    def _subnet(self) -> float:
        network = str(self.make("network")["id"])
        subnet = {"network_id": network, "ip_version": 4, "cidr": "10.2.0.0/24"}
        reply = self.client.post("/subnets", {"subnet": subnet})
        self.client.delete(f"/networks/{network}")
        return reply.millis

    def routers(self, steps: Iterable[int]) -> None:
        """Routers with a gateway, each."""
        external, _ = self.network("10.8.0.0/14", **{"router:external": True})
        made: list[str] = []
        for number in steps:
            progress(f"{number} routers")
            while len(made) < number:
                gateway = {"network_id": external}
                made.append(str(self.make("router", name=f"r{len(made)}", external_gateway_info=gateway)["id"]))
            last = made[-1]
            self.note("routers", number, "create", self._made_and_deleted, "router", {})
            self.note("routers", number, "show", self._get, f"/routers/{last}")
            self.note("routers", number, "list 100", self._get, "/routers?limit=100")
            self.note("routers", number, "add interface", self._interface, last)

    def _interface(self, router: str) -> float:
        network, subnet = self.network("10.12.0.0/24")
        reply = self.client.put(f"/routers/{router}/add_router_interface", {"subnet_id": subnet})
        self.client.put(f"/routers/{router}/remove_router_interface", {"subnet_id": subnet})
        self.client.delete(f"/networks/{network}")
        return reply.millis

    def floating_ips(self, steps: Iterable[int]) -> None:
        external, _ = self.network("10.16.0.0/14", **{"router:external": True})
        network, subnet = self.network("10.20.0.0/16")
        router = self.make("router", external_gateway_info={"network_id": external})["id"]
        self.client.put(f"/routers/{router}/add_router_interface", {"subnet_id": subnet})
        port = self.make("port", network_id=network)["id"]
        made: list[str] = []
        for number in steps:
            progress(f"{number} floating IPs")
            while len(made) < number:
                made.append(str(self.make("floatingip", floating_network_id=external)["id"]))
            last = made[-1]
            body = {"floating_network_id": external}
            self.note("floating IPs", number, "create", self._made_and_deleted, "floatingip", body)
            self.note("floating IPs", number, "show", self._get, f"/floatingips/{last}")
            self.note("floating IPs", number, "list 100", self._get, "/floatingips?limit=100")
            self.note("floating IPs", number, "associate", self._associate, last, port)

    def _associate(self, key: str, port: str) -> float:
        reply = self.client.put(f"/floatingips/{key}", {"floatingip": {"port_id": port}})
        self.client.put(f"/floatingips/{key}", {"floatingip": {"port_id": None}})
        return reply.millis


def _rule(group: str, number: int) -> dict[str, Any]:
    ports = {"port_range_min": number + 1, "port_range_max": number + 1}
    return {"security_group_id": group, "direction": "ingress", "protocol": "tcp", "ethertype": "IPv4", **ports}


def feed(what: str, steps: Iterable[int], measure: Callable[[int], dict[str, float]]) -> Curves:
    found: dict[str, list[tuple[float, float]]] = {}
    for number in steps:
        progress(f"feed with {number} {what}")
        for name, millis in measure(number).items():
            found.setdefault(name, []).append((number, round(max(millis, NEGLIGIBLE_MS), 3)))
    return {what: found}


def measure(database: str, steps: Steps) -> Curves:
    with (
        tempfile.TemporaryDirectory(prefix="neutrino-curves-", ignore_cleanup_errors=True) as place,
        databases.database(database, Path(place)) as connection,
        running(connection, Path(place)) as server,
    ):
        headers = {"X-Project-Id": "curves", "X-User-Id": "bench", "X-Roles": "admin,member,reader"}
        growth = Growth(Client(Target(server.url, headers, time.monotonic() + SECONDS)))
        growth.ports(steps.ports)
        growth.rules(steps.rules)
        agents.register(connection)  # not before: ports on a network with DHCP agents are created differently
        growth.networks(steps.networks)
        growth.routers(steps.routers)
        growth.floating_ips(steps.floating_ips)
        growth.client.close()
    return growth.curves


def markdown(curves: Curves) -> str:
    lines = []
    for dimension, operations in curves.items():
        numbers = [int(number) for number, _ in next(iter(operations.values()))]
        lines += ["", f"| {dimension} | " + " | ".join(f"{number:,}" for number in numbers) + " |"]
        lines.append("|---|" + "---:|" * len(numbers))
        lines += [
            f"| {name} | " + " | ".join(f"{millis:,.2f} ms" for _, millis in points) + " |"
            for name, points in operations.items()
        ]
    return "\n".join(lines[1:]) + "\n"


def write_images(curves: Curves, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for dimension, operations in curves.items():
        unit = "ms of CPU" if dimension in (HOSTS, MEMBERS) else "ms"
        text = chart(f"Cost against the number of {dimension}", dimension, unit, operations, log_x=True, log_y=True)
        (directory / f"growth-{dimension.lower().replace(' ', '-')}.svg").write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=databases.NAMES, default="sqlite")
    parser.add_argument("--quick", action="store_true", help="small numbers; for a look, not for figures")
    parser.add_argument("--images", type=Path, help="write the charts to this directory")
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--show", type=Path, help="only print the tables, and write the charts, of an earlier run")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as by Ctrl-C: what was started is ended
    if options.show is not None:
        curves: Curves = json.loads(options.show.read_text(encoding="utf-8"))["curves"]
    else:
        steps = QUICK if options.quick else Steps()
        try:
            curves = {
                **measure(options.database, steps),
                **feed(HOSTS, steps.hosts, curves_feed.measure),
                **feed(MEMBERS, steps.members, curves_feed.measure_members),
            }
        except (LoadError, RuntimeError) as error:
            print(f"curves: {error}", file=sys.stderr)
            return 1
    print(markdown(curves), end="")
    if options.images is not None:
        write_images(curves, options.images)
    if options.out is not None:
        raw = {"machine": machine(), "database": options.database, "quick": options.quick, "curves": curves}
        options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
