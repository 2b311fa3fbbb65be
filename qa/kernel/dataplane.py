"""The kernel's datapath with Neutron's flows and with ours: throughput, new connections and round trips, as ratios.

  .venv/bin/python -m qa.kernel.run qa/kernel/dataplane.py

Two hosts in the guest, whose bridges have the flows of either side in turns (`qa/bench/dataplane/bridges.py`). An emulated
machine forwards few packets, so that only ratios say something. `python -m qa.bench.dataplane` has the userspace datapath,
and every path.
"""

from __future__ import annotations

import statistics

from qa.bench.dataplane.bridges import SAME_HOST, TUNNEL, Namespaces, install_neutron, install_ours, pings, plug
from qa.bench.dataplane.traffic import METRICS
from qa.kernel.switch import kernel_hosts
from tests.support.l2 import Cloud

ROUNDS = 2
SECONDS = 8.0
NEUTRON, OURS = "neutron", "ours"
PATHS = (SAME_HOST, TUNNEL)
# Packets of UDP at full rate are too many for an emulated receiver, which would measure itself.
MEASURED = [metric for metric in METRICS if metric.name != "packets"]


def test_rates_with_flows_of_either_side() -> None:
    figures: dict[tuple[str, str, str], list[float]] = {}
    machines = Namespaces()
    with kernel_hosts("h1", "h2") as hosts:
        cloud = Cloud(*hosts)
        plug(cloud, hosts)
        for _ in range(ROUNDS):
            for side in (NEUTRON, OURS):
                install_ours(cloud, hosts)
                if side == NEUTRON:
                    install_neutron(hosts)
                for path in PATHS:
                    assert pings(path)
                    for metric in MEASURED:
                        found = metric.measure(machines, path, SECONDS)
                        figures.setdefault((path.name, metric.name, side), []).append(found.value)
                        print(f"{side}: {path.name}, {metric.name}: {found.value:.1f} {metric.unit}", flush=True)
    print(_table(figures), flush=True)


def _table(figures: dict[tuple[str, str, str], list[float]]) -> str:
    lines = ["| path | | Neutron's flows | ours | ratio |", "|---|---|---:|---:|---:|"]
    for path in PATHS:
        for metric in MEASURED:
            theirs, ours = (statistics.median(figures[path.name, metric.name, side]) for side in (NEUTRON, OURS))
            ratio = theirs / ours if metric.less_is_better else ours / theirs
            shown = f"{theirs:,.1f} {metric.unit} | {ours:,.1f} {metric.unit} | {ratio:.2f} ×"
            lines.append(f"| {path.name} | {metric.name} | {shown} |")
    return "\n".join(lines)
