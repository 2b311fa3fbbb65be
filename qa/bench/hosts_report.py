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


# Of what `resync.py` measures too.
STORMS = (
    Target("first answer of the API after its start, with {ports:,} ports", "start.first_200_s", 3, "s"),
    Target("the feed serves after its start", "start.feed_s", 10, "s"),
    Target("first snapshots of {hosts:,} hosts", "snapshots.s", 60, "s"),
    Target("all hosts in sync after the server was killed", "resync.after_kill_s", 10, "s"),
    Target("memory of the feed with all hosts connected, PSS", "memory.connected", 550, "MB"),
    Target("the same, largest during first snapshots", "memory.snapshots", 700, "MB"),
)
TARGETS = (
    Target("a new port known to all hosts of its network, 95th percentile", "new_port.ordinary.p95_ms", 100, "ms"),
    Target("a new port known to all {hosts:,} hosts, 95th percentile", "new_port.everywhere.p95_ms", 1000, "ms"),
    Target("the same while {stuck} hosts do not read", "stuck.p95_ms", 1000, "ms"),
    *STORMS,
)


@dataclass(frozen=True)
class Row:
    text: str
    wanted: str
    seen: str
    met: bool


def row_of(target: Target, result: Mapping[str, Any], **numbers: int) -> Row:
    """The row of a target. `numbers`: for its text."""
    value = at(result, target.path)
    seen = "not measured" if value is None else f"{value:,.{1 if target.unit == 's' else 0}f} {target.unit}"
    wanted = f"{target.most:,.0f} {target.unit}"
    return Row(target.text.format(**numbers), wanted, seen, value is not None and value <= target.most)


def rows(raw: Mapping[str, Any]) -> list[Row]:
    result = raw["results"]
    found = []
    for target in TARGETS:
        found.append(row_of(target, result, hosts=raw["hosts"], ports=raw["ports"], stuck=result["stuck_hosts"]))
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
        *spent(raw),
        "",
        "| list of up to 100 ports | median | 95th percentile | ports |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {times['p50_ms']:.1f} ms | {times['p95_ms']:.1f} ms | {times['items']} |"
            for name, times in result["lists"].items()
        ),
    ]
    return "\n".join(lines) + "\n"


def spent(raw: Mapping[str, Any]) -> list[str]:
    """Where the processor time went: the simulated hosts share the server's processors, which those of a cloud do not."""
    if "snapshots" not in raw["results"]:
        return []  # a file that an earlier release has written
    start, snapshots, resync = (raw["results"][name] for name in ("start", "snapshots", "resync"))
    return [
        "| seconds of processor time | feed | for each host | other processes of the server | simulated hosts |",
        "|---|---:|---:|---:|---:|",
        f"| start of the feed | {start['feed_cpu_s']:.1f} | | | |",
        _spent("first snapshots", snapshots, snapshots["feed_cpu_s"], raw["hosts"]),
        _spent("in sync again, after the start", resync, resync["feed_cpu_s"] - start["feed_cpu_s"], raw["hosts"]),
    ]


def _spent(text: str, figures: Mapping[str, Any], feed: float, hosts: int) -> str:
    others = " | ".join(f"{figures[name]:.1f}" for name in ("server_cpu_s", "hosts_cpu_s"))
    return f"| {text} | {feed:.1f} | {feed / hosts * 1000:.2f} ms | {others} |"


def _seconds(result: Mapping[str, Any], path: str) -> str:
    value = at(result, path)
    return "not measured" if value is None else f"{value:.1f} s"


def _more(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    result, hosts = raw["results"], raw["hosts"]
    memory, idle = result["memory"], result["idle"]
    per_host = (memory["connected"] - memory["alone"]) / hosts * 1024
    return [
        ("a new port known to all hosts of its network, median", f"{result['new_port']['ordinary']['p50_ms']:.0f} ms"),
        (f"a new port known to all {hosts:,} hosts, median", f"{result['new_port']['everywhere']['p50_ms']:.0f} ms"),
        (f"{hosts:,} hosts connect for the first time, without ports, and report", f"{result['connect_s']:.1f} s"),
        (f"{raw['ports']:,} ports made, by one client", f"{result['create_s']:.1f} s"),
        ("all ports ACTIVE after the start of the first snapshots", _seconds(result, "snapshots.wired_s")),
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
