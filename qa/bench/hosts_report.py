"""The tables of the figures with many hosts: targets, and all figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qa.bench.report import at

WORST_LIST_MS = 10.0


@dataclass(frozen=True)
class Target:
    """A bound on one figure. `value`: from the raw results."""

    text: str
    path: str
    most: float
    unit: str


TARGETS = (
    Target("a new port known to all hosts of its network, 95th percentile", "new_port.ordinary.p95_ms", 100, "ms"),
    Target("a new port known to all {hosts:,} hosts, 95th percentile", "new_port.everywhere.p95_ms", 1000, "ms"),
    Target("the same while {stuck} hosts do not read", "stuck.p95_ms", 1000, "ms"),
    Target("all hosts resynced after the server was killed", "reconnect.after_kill_s", 20, "s"),
    Target("memory of the feed with all hosts connected, PSS", "memory.connected", 700, "MB"),
    Target("the same right after {hosts:,} first snapshots", "memory.snapshots", 700, "MB"),
)


@dataclass(frozen=True)
class Row:
    text: str
    wanted: str
    seen: str
    met: bool


def rows(raw: Mapping[str, Any]) -> list[Row]:
    result = raw["results"]
    found = []
    for target in TARGETS:
        text = target.text.format(hosts=raw["hosts"], stuck=result["stuck_hosts"])
        value = at(result, target.path)
        seen = "not measured" if value is None else f"{value:,.{1 if target.unit == 's' else 0}f} {target.unit}"
        wanted = f"{target.most:,.0f} {target.unit}"
        found.append(Row(text, wanted, seen, value is not None and value <= target.most))
    for name in ("create", "show"):
        empty, full = (result[size][name]["p50_ms"] for size in ("empty", "full"))
        ratio = full / empty
        text = f"{name} a port: times as long as on the empty system ({empty:.2f} ms)"
        found.append(Row(text, "2.0 ×", f"{ratio:.2f} × ({full:.2f} ms)", ratio <= 2))
    name, slowest = max(result["lists"].items(), key=lambda item: item[1]["p50_ms"])
    text = f"any of {len(result['lists'])} lists of up to 100 out of {raw['ports']:,} ports; slowest: {name}"
    found.append(
        Row(text, f"{WORST_LIST_MS:.0f} ms", f"{slowest['p50_ms']:.1f} ms", slowest["p50_ms"] <= WORST_LIST_MS)
    )
    return found


def missed(raw: Mapping[str, Any]) -> list[str]:
    return [row.text for row in rows(raw) if not row.met]


def markdown(raw: Mapping[str, Any]) -> str:
    result, hosts = raw["results"], raw["hosts"]
    lines = [
        f"| {raw['database']}, {hosts:,} hosts, {raw['ports']:,} ports, {raw['networks']} networks | wanted | seen | met |",
        "|---|---:|---:|:---:|",
        *(f"| {row.text} | {row.wanted} | {row.seen} | {'yes' if row.met else 'no'} |" for row in rows(raw)),
        "",
        "| more | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in _more(raw)),
        "",
        "| list of up to 100 ports | median | 95th percentile | ports |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {times['p50_ms']:.1f} ms | {times['p95_ms']:.1f} ms | {times['items']} |"
            for name, times in result["lists"].items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _more(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    result, hosts = raw["results"], raw["hosts"]
    memory, idle, again = result["memory"], result["idle"], result["reconnect"]
    per_host = (memory["connected"] - memory["alone"]) / hosts * 1024
    return [
        ("a new port known to all hosts of its network, median", f"{result['new_port']['ordinary']['p50_ms']:.0f} ms"),
        (f"a new port known to all {hosts:,} hosts, median", f"{result['new_port']['everywhere']['p50_ms']:.0f} ms"),
        ("all hosts resynced, from the new server's start on", f"{again['after_start_s']:.1f} s"),
        (f"{hosts:,} hosts connect for the first time, without ports, and report", f"{result['connect_s']:.1f} s"),
        (f"{raw['ports']:,} ports made, by one client", f"{result['create_s']:.1f} s"),
        (f"{hosts:,} hosts without any state get all of it", f"{result['snapshot_s']:.1f} s"),
        ("the feed's memory without ports or hosts, PSS", f"{memory['empty']:.0f} MB"),
        ("with the ports, no host connected", f"{memory['alone']:.0f} MB"),
        ("with the ports, all hosts connected", f"{memory['connected']:.0f} MB, {per_host:.0f} kB per host"),
        ("the server with its workers and the feed then", f"{memory['server']:.0f} MB"),
        ("one simulated host", f"{memory['host'] * 1024:.0f} kB"),
        ("hosts whose state was compared with the database", f"{result['compared']:,}"),
        (
            f"processor time at rest, {idle['reports_per_s']:.0f} reports/s",
            f"feed {idle['feed_cpu_percent']:.1f} %, server in all {idle['server_cpu_percent']:.1f} % of one core",
        ),
    ]
