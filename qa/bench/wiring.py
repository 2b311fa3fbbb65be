"""Benchmark of a host: from a plugged device to an ACTIVE port, and CPU and memory of the agent.

  python -m qa.bench.wiring [--quick] [--out docs/benchmarks-wiring.json] [--check]
  python -m qa.bench.wiring --show docs/benchmarks-wiring.json

A lab of one host with Open vSwitch in userspace, its server on SQLite, all as `neutrino lab up` starts it, as root. Server,
agent and switch share the processors. At the end the agent's own comparison has to find nothing, for an agent that does
less is faster.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

from qa.bench import command
from qa.bench.machine import busy, machine
from qa.bench.timing import figures
from qa.bench.wiring_host import INTEGRATION, BenchHost
from qa.bench.wiring_report import document, missed
from qa.bench.workbench import progress
from tests.support.lab import Pinging, temporary_lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests


@dataclass(frozen=True)
class Sizes:
    single: int = 20
    together: tuple[int, int] = (50, 100)
    restarts: tuple[int, int] = (200, 273)
    members: int = 500
    local: int = 50
    rules: int = 20


QUICK = Sizes(single=5, together=(10, 20), restarts=(40, 60), members=50, local=10, rules=5)


def measure_ports(sizes: Sizes) -> dict[str, Any]:
    """One port, many at once, restarts with more and more of them, memory."""
    with temporary_lab(hosts=1) as lab:
        host = BenchHost(lab)
        network = host.network("bench", "10.1.0.0/16")
        guests = _pinging_guests(host)
        progress(f"{sizes.single} ports, one after the other")
        result: dict[str, Any] = {"single": _single(host, network, sizes.single)}
        for number in sizes.together:
            progress(f"{number} ports at once")
            result[f"together_{number}"] = _together(host, network, number)
        for goal in sizes.restarts:
            progress(f"the agent restarted with {goal} ports")
            _together(host, network, goal - host.active())
            result[f"restart_{goal}"] = _restart(host, guests)
        result["memory"] = {"ports": host.active(), **host.memory()}
        progress("the switch killed")
        result["switch_killed"] = {"ports": host.active(), "ms": round(host.kill_switch() * 1000, 1)}
        host.verify()
        host.close()
        return result


def _pinging_guests(host: BenchHost) -> list[Guest]:
    """Two VMs that check connectivity during the benchmark."""
    group, _ = make_group(host.lab, "pinging", *EVERYTHING)
    network = host.lab.api.show("network", host.network("pinging", "10.2.0.0/24"))
    return make_guests(host.lab, Spec("one", network, "h1", [group]), Spec("two", network, "h1", [group]))


def _single(host: BenchHost, network: str, count: int) -> dict[str, Any]:
    from_post, from_plug = [], []
    for device in host.devices(count):
        posted = time.perf_counter()
        (port,) = host.ports(network, 1)
        plugged = time.perf_counter()
        host.plug([device], [port])
        host.until_active(port)
        active = time.perf_counter()
        from_post.append((active - posted) * 1000)
        from_plug.append((active - plugged) * 1000)
    return {"from_post": figures(from_post), "from_plug": figures(from_plug)}


def _together(host: BenchHost, network: str, count: int) -> dict[str, Any]:
    devices, ports = host.devices(count), host.ports(network, count)
    started = time.perf_counter()
    host.plug(devices, ports)
    host.until_all_active(network, ports)
    return {"ports": count, "ms": round((time.perf_counter() - started) * 1000, 1)}


def _restart(host: BenchHost, guests: list[Guest]) -> dict[str, Any]:
    one, two = guests
    with Pinging(host.lab, one.name, two.addresses[4]) as ping:
        seconds = host.restart_agent()
    return {
        "ports": host.active(),
        "ms": round(seconds * 1000, 1),
        "flows": host.flow_count(),
        "pings": ping.sent,
        "lost": ping.lost,
    }


def measure_group(sizes: Sizes) -> dict[str, Any]:
    """A large remote security group, used by rules of many ports: its cost, and the cost of an additional member."""
    with temporary_lab(hosts=1) as lab:
        host = BenchHost(lab)
        network, elsewhere = host.network("bench", "10.1.0.0/16"), host.network("elsewhere", "10.3.0.0/16")
        remote, local = host.group("remote"), host.group("local")
        progress(f"a group of {sizes.members}, {sizes.local} ports with {sizes.rules} rules")
        host.ports(elsewhere, sizes.members, security_groups=[remote], **{"binding:host_id": ""})
        devices, ports = host.devices(sizes.local), host.ports(network, sizes.local, security_groups=[local])
        host.plug(devices, ports)
        host.until_all_active(network, ports)
        before = host.flow_count([INTEGRATION])
        rules = [_rule(remote, 8000 + number) for number in range(sizes.rules)]
        expected = before + 1 + sizes.members + sizes.local * sizes.rules
        result: dict[str, Any] = {
            "members": sizes.members,
            "ports": sizes.local,
            "rules": sizes.rules,
            "ms": _timed(host, lambda: host.add_rules(local, rules), expected),
            "flows": host.flow_count([INTEGRATION]) - before,
        }
        made: list[str] = []
        add = lambda: made.extend(  # noqa: E731
            host.ports(elsewhere, 1, security_groups=[remote], **{"binding:host_id": ""})
        )
        result["member_added"] = _changed(host, add, expected + 1)
        result["member_removed"] = _changed(host, lambda: host.client.delete(f"/ports/{made[0]}"), expected)
        host.verify()
        host.close()
        return result


def _rule(remote: str, number: int) -> dict[str, Any]:
    return {"protocol": "tcp", "port_range_min": number, "port_range_max": number, "remote_group_id": remote}


def _changed(host: BenchHost, change: Any, expected: int) -> dict[str, Any]:
    before = host.flows()
    millis = _timed(host, change, expected)
    return {"ms": millis, "flow_changes": len(before ^ host.flows())}


def _timed(host: BenchHost, change: Any, flows: int) -> float:
    """Milliseconds from the request until the integration bridge has this number of flows."""
    started = time.perf_counter()
    change()
    host.until(lambda: host.flow_count([INTEGRATION]) == flows, f"{flows} flows")
    return round((time.perf_counter() - started) * 1000, 1)


def main(arguments: list[str] | None = None) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything; for a look, not for figures")
    command.add_check(parser)
    options = parser.parse_args(arguments)
    sizes = QUICK if options.quick else Sizes()

    def measured() -> dict[str, Any]:
        before = {"machine": machine(), "quick": options.quick, "busy_before": busy()}
        return {**before, "ports": measure_ports(sizes), "group": measure_group(sizes), "busy_after": busy()}

    return command.run(options, measured, document, missed, check=options.check)


if __name__ == "__main__":
    sys.exit(main())
