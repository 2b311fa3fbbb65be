"""The table of the figures with many hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def markdown(raw: Mapping[str, Any]) -> str:
    result, hosts = raw["results"], raw["hosts"]
    ordinary, everywhere = result["new_port"]["ordinary"], result["new_port"]["everywhere"]
    memory, idle, again = result["memory"], result["idle"], result["reconnect"]
    per_host = (memory["connected"] - memory["alone"]) / hosts * 1024
    rows = [
        ("a new port known to all hosts of its network", _spread(ordinary)),
        (f"a new port known to all {hosts:,} hosts", _spread(everywhere)),
        (f"all {hosts:,} hosts back after the server was killed", f"{again['after_kill_s']:.1f} s"),
        ("of that, from the new server's start on", f"{again['after_start_s']:.1f} s"),
        (f"{hosts:,} hosts connect for the first time and report", f"{result['connect_s']:.1f} s"),
        (f"{raw['ports']:,} ports made, by one client", f"{result['create_s']:.1f} s"),
        ("the same until all are wired and ACTIVE", f"{result['wired_s']:.1f} s"),
        ("the feed's memory without ports or hosts, PSS", f"{memory['empty']:.0f} MB"),
        ("with the ports, no host connected", f"{memory['alone']:.0f} MB"),
        ("with the ports, all hosts connected", f"{memory['connected']:.0f} MB, {per_host:.0f} kB a host"),
        ("the server with its workers and the feed then", f"{memory['server']:.0f} MB"),
        ("one simulated host, its state included", f"{memory['host'] * 1024:.0f} kB"),
        (
            f"processor time at rest, {idle['reports_per_s']:.0f} reports/s",
            f"feed {idle['feed_cpu_percent']:.1f} %, server in all {idle['server_cpu_percent']:.1f} % of one core",
        ),
    ]
    lines = [
        f"| {raw['database']}, {hosts:,} hosts, {raw['ports']:,} ports, {raw['networks']} networks | |",
        "|---|---|",
    ]
    return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows)]) + "\n"


def _spread(times: Mapping[str, Any]) -> str:
    return f"{times['p50_ms']:.0f} ms, 95 % in {times['p95_ms']:.0f} ms"
