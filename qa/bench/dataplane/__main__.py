"""Benchmark of the dataplane: what instances get with Neutron's flows and with ours, on the same switches, in one run.

  python -m qa.bench.dataplane [--rounds 2] [--seconds 2] [--out docs/benchmarks-dataplane.json] [--check]
  python -m qa.bench.dataplane --show docs/benchmarks-dataplane.json

As root, after `scripts/setup neutron`. A cloud of real Neutron on two lab hosts is taken over by `neutrino takeover host`
and given back, as often as there are rounds: instances, devices, switches and connections of tunnels stay, flows alone
change. Each round measures every path with Neutron's flows and then with ours. Agents of Neutron do not run meanwhile, and
ours has nothing to do. Open vSwitch forwards in userspace, with the native firewall of either side.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neutrino.lab.errors import LabError
from qa.bench import processor
from qa.bench.dataplane import cloud
from qa.bench.dataplane.report import NEUTRON, OURS, markdown, missed
from qa.bench.dataplane.switch import Switches
from qa.bench.dataplane.traffic import METRICS
from qa.bench.machine import busy, machine
from qa.bench.neutron.processes import ROOT
from qa.takeover.lab import neutron_lab
from qa.takeover.lab.configuration import Shape
from qa.takeover.lab.neutron_lab import NeutronLab
from qa.takeover.lab.paths import TrafficPath, wait_until_passing
from qa.takeover.steps import CONVERTED, Takeover

STATE = ROOT / "build" / "dataplane"
# No comparison in the background while traffic is measured.
_AGENT = "[agent]\ntakeover_check_interval = 0\n"
_SHAPE = Shape(hosts=cloud.HOSTS, hybrid_host="")
_PORTS = "10000 65000"  # local ports of clients: each connection has one of its own
_QUIET_SECONDS = 20.0

Figures = dict[str, dict[str, dict[str, list[Any]]]]  # by path, metric and side


class Bench:
    def __init__(self, neutron: NeutronLab, paths: Sequence[TrafficPath], seconds: float) -> None:
        self._neutron = neutron
        self._paths = paths
        self._seconds = seconds
        self._switches = Switches(neutron.lab)
        self.figures: Figures = {}

    def prepare(self) -> None:
        for path in self._paths:
            ports = ["sysctl", "-q", "-w", f"net.ipv4.ip_local_port_range={_PORTS}"]
            self._neutron.lab.run(path.source, ports)

    def measure(self, side: str) -> None:
        """All metrics of all paths, with the flows that the switches have now."""
        wait_until_passing(self._neutron, self._paths)
        processor.settle(self._switches.pids, _QUIET_SECONDS)
        for path in self._paths:
            for metric in METRICS:
                self._switches.forget()
                before = self._switches.seconds()
                found = metric.measure(self._neutron.lab, path, self._seconds)
                spent = self._switches.seconds() - before
                kept = self.figures.setdefault(path.name, {}).setdefault(metric.name, {})
                kept.setdefault(side, []).append(
                    {
                        "value": round(found.value, 3),
                        "units": round(found.units, 3),
                        "switch_s": round(spent, 3),
                        **self._switches.counts(),
                    }
                )
            self._neutron.output(f"{side}: {path.name}")


def measure(state: Path, rounds: int, seconds: float, keep: Callable[[dict[str, Any]], object]) -> None:
    """`keep` gets the figures after each round: a later one that fails does not cost these."""
    with neutron_lab.running(state, _say, shape=_SHAPE) as neutron:
        built = cloud.build(neutron)
        takeover = Takeover(neutron)
        takeover.import_database("--final")
        _hold_agents(neutron, takeover)
        bench = Bench(neutron, built.paths, seconds)
        bench.prepare()
        for number in range(rounds):
            if number:
                for host in neutron.lab.hosts:
                    takeover.convert(host, "--back")
            bench.measure(NEUTRON)
            for host in neutron.lab.hosts:
                takeover.convert(host)
            bench.measure(OURS)
            keep({"rounds": number + 1, "router_host": built.router_host, "figures": bench.figures})


def _hold_agents(neutron: NeutronLab, takeover: Takeover) -> None:
    """Our agents beside Neutron's flows, in place of Neutron's agents: so the same processes run with either flows."""
    for host in neutron.lab.hosts:
        with (neutron.lab.paths.host(host) / "agent.conf").open("a") as file:
            file.write(_AGENT)
    takeover.start_server()
    takeover.start_agents()
    for host in neutron.lab.hosts:
        takeover.stop_agents(host, CONVERTED)
    neutron.server.stop()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=STATE, help="directory of the lab (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="conversions (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the raw figures to this file")
    parser.add_argument("--show", type=Path, metavar="FILE", help="only print the tables of figures written earlier")
    parser.add_argument("--check", action="store_true", help="fail where a figure wanted is missed")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(markdown(json.loads(options.show.read_text(encoding="utf-8"))), end="")
        return 0
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell lets its background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    raw: dict[str, Any] = {"machine": {**machine(), "load_before": busy()}, "seconds": options.seconds}
    started = time.monotonic()

    def keep(found: dict[str, Any]) -> None:
        raw.update(found, took_s=round(time.monotonic() - started))
        if options.out is not None:
            options.out.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")

    failed = False
    try:
        measure(options.state.absolute(), options.rounds, options.seconds, keep)
    except KeyboardInterrupt:
        return 130
    except LabError as error:
        print(f"dataplane: {error}", file=sys.stderr)
        failed = True
    if "figures" not in raw:
        return 1
    print(markdown(raw), end="")
    return 1 if failed else _verdict(raw, check=options.check)


def _verdict(raw: Mapping[str, Any], *, check: bool) -> int:
    for line in missed(raw):
        print(f"missed: {line}", file=sys.stderr)
    return 1 if check and missed(raw) else 0


if __name__ == "__main__":
    sys.exit(main())
