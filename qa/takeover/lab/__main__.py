"""Neutron on three lab hosts: `python -m qa.takeover.lab [--keep]`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path

from neutrino.lab.errors import LabError
from qa.bench.neutron.processes import ROOT
from qa.takeover.lab import cloud, neutron_lab, paths, table
from qa.takeover.lab.meters import process
from qa.takeover.lab.meters.measurements import Plan

SETTLE_SECONDS = 1.5  # until connections are there, and until a late answer counts as lost
STATE = ROOT / "build" / "takeover"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=STATE, help="directory of the lab (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep it running until Ctrl-C")
    parser.add_argument("--veth", action="store_true", help="devices of routers are veth pairs (ovs_use_veth)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the measurement (default: %(default)s)")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell lets its background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        with neutron_lab.running(arguments.state.absolute(), say, use_veth=arguments.veth) as neutron:
            built = cloud.build(neutron)
            paths.wait_until_open(neutron, built)
            is_met = _measure(paths.plan(neutron, built), arguments.seconds)
            if arguments.keep:
                say("until Ctrl-C")
                signal.pause()
    except KeyboardInterrupt:
        return 130
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if is_met else 1


def _measure(plan: Plan, seconds: float) -> bool:
    """Measure for some seconds, and print the table; whether all figures are met."""
    with process.running(plan) as meters:
        time.sleep(SETTLE_SECONDS)
        started = time.monotonic()
        time.sleep(seconds)
        phase = table.Phase("baseline", started, time.monotonic())
        time.sleep(SETTLE_SECONDS)
        figures = table.figures(meters.read(), [phase])
    say(table.render(figures))
    return all(figure.is_met for figure in figures)


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
