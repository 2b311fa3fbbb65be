"""Benchmark of two instances of one host, without Neutron, in a minute: what the flows of either side cost the switch.

  python -m qa.bench.dataplane.same_host [--rounds 3] [--seconds 1] [--out FILE]

As root, in namespaces of its own. The bridge has in turns Neutron's flows (the compact form of a recorded host), ours, and
nothing but NORMAL: what the userspace datapath costs without any filter, which no flows can undercut.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.dataplane.openflow.api import COOKIE, COOKIE_MASK
from neutrino.lab.errors import LabError
from neutrino.lab.settings import NETDEV
from qa.bench import command, processor
from qa.bench.dataplane.bridges import SAME_HOST, Namespaces, install, install_neutron, install_ours, pings, plug
from qa.bench.dataplane.report import NEUTRON, OURS
from qa.bench.dataplane.switch import parse
from qa.bench.dataplane.traffic import METRICS, Metric
from qa.bench.machine import busy, machine
from qa.kernel.switch import KernelHost, kernel_hosts
from tests.support.l2 import Cloud

NORMAL = "normal"
INSIDE = "--inside"  # this process is in namespaces of its own
_SIDES = {NEUTRON: "Neutron's", OURS: "ours", NORMAL: "NORMAL, no filter"}
_PORTS = "10000 65000"  # local ports of clients

Figures = dict[str, dict[str, list[dict[str, float]]]]  # by metric and side


def measure(rounds: int, seconds: float) -> Figures:
    figures: Figures = {metric.name: {side: [] for side in _SIDES} for metric in METRICS}
    with kernel_hosts("h1", datapath=NETDEV) as hosts:
        cloud, host = Cloud("h1"), hosts["h1"]
        plug(cloud, hosts)
        install_ours(cloud, hosts)
        Namespaces().run(SAME_HOST.source, ["sysctl", "-q", "-w", f"net.ipv4.ip_local_port_range={_PORTS}"], timeout=10)
        processor.prefer([_pid(host)])
        # As text, too: all sides are installed alike, by one bundle.
        ours = "".join(f"{flow.text()}\n" for flow in host.openflow.read_flows("br-int", COOKIE, COOKIE_MASK))
        installs: tuple[tuple[str, Callable[[], object]], ...] = (
            (NEUTRON, lambda: install_neutron(hosts)),
            (OURS, lambda: install(host, "br-int", ours)),
            (NORMAL, lambda: install(host, "br-int", "priority=0 actions=NORMAL\n")),
        )
        for number in range(rounds):
            for side, prepare in installs[number % 3 :] + installs[: number % 3]:
                prepare()
                if not pings(SAME_HOST):
                    raise LabError(f"no ping passes with the flows of {side}")
                for metric in METRICS:
                    figures[metric.name][side].append(_measure(host, metric, seconds))
    return figures


def _measure(host: KernelHost, metric: Metric, seconds: float) -> dict[str, float]:
    for cleared in ("dpctl/flush-conntrack", "dpif-netdev/pmd-stats-clear"):
        host.switch.appctl(cleared)
    before = sum(processor.of_process(_pid(host)))
    found = metric.measure(Namespaces(), SAME_HOST, seconds)
    spent = sum(processor.of_process(_pid(host))) - before
    counts = parse(host.switch.appctl("dpif-netdev/pmd-stats-show"))
    return {
        "value": round(found.value, 3),
        "units": round(found.units, 3),
        "switch_s": round(spent, 3),
        "passes": round(1 + counts["recirculations"] / counts["packets"], 2),
        "lookups": round(counts.get("lookups", 0) / max(counts["megaflow"], 1), 2),
    }


def _pid(host: KernelHost) -> int:
    return int(Path(host.switch.run_directory, "ovs-vswitchd.pid").read_text())


def markdown(raw: Mapping[str, Any]) -> str:
    lines = [
        "| same host | flows | measured | ratio | processor time of the switch | ratio | passes of the datapath "
        "| lookups in subtables |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for metric in METRICS:
        sides = raw["figures"][metric.name]
        values = {side: _median(found, lambda each: each["value"]) for side, found in sides.items()}
        spent = {side: _median(found, lambda each: each["switch_s"] / each["units"]) for side, found in sides.items()}
        for side, name in _SIDES.items():
            more = values[side] / values[NEUTRON]
            lines.append(
                f"| {metric.name} | {name} | {values[side]:,.0f} {metric.unit} "
                f"| {1 / more if metric.less_is_better else more:.2f} × "
                f"| {spent[side] * 1e6:,.1f} µs each {metric.per} | {spent[NEUTRON] / spent[side]:.2f} × "
                f"| {_median(sides[side], lambda each: each['passes']):.1f} "
                f"| {_median(sides[side], lambda each: each['lookups']):.1f} |"
            )
    return "\n".join(lines) + "\n"


def _median(found: Sequence[Mapping[str, float]], figure: Callable[[Mapping[str, float]], float]) -> float:
    return statistics.median(map(figure, found))


def main(arguments: Sequence[str]) -> int:
    parser = command.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement (default: %(default)s)")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.show is None and not options.inside:
        # With named namespaces of its own too, which end with the process.
        script = 'mkdir -p /run/netns && mount -t tmpfs none /run/netns && ip link set lo up && exec "$@"'
        inside = [sys.executable, "-m", "qa.bench.dataplane.same_host", INSIDE, *arguments]
        return subprocess.run(
            ["unshare", "--net", "--mount", "sh", "-c", script, "sh", *inside], check=False
        ).returncode

    def measured() -> dict[str, Any]:
        before = {"machine": {**machine(), "load_before": busy()}, "rounds": options.rounds}
        return {**before, "figures": measure(options.rounds, options.seconds)}

    return command.run(options, measured, markdown)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
