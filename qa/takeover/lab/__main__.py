"""Neutron on three lab hosts: `python -m qa.takeover.lab [--keep]`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neutrino.lab.errors import LabError
from qa.bench.neutron.processes import ROOT
from qa.takeover.lab import cloud, dumps, neutron_lab, paths, table
from qa.takeover.lab.cloud import Cloud
from qa.takeover.lab.configuration import Shape
from qa.takeover.lab.meters import process
from qa.takeover.lab.meters.measurements import Plan
from qa.takeover.lab.neutron_lab import NeutronLab

SETTLE_SECONDS = 1.5  # until connections are there, and until a late answer counts as lost
STATE = ROOT / "build" / "takeover"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=STATE, help="directory of the lab (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep it running until Ctrl-C")
    parser.add_argument("--veth", action="store_true", help="devices of routers are veth pairs (ovs_use_veth)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the measurement (default: %(default)s)")
    parser.add_argument("--attach", action="store_true", help="measure the lab that another process keeps running")
    parser.add_argument("--record", type=Path, help="write what agents have configured on the hosts to this directory")
    arguments = parser.parse_args()
    state = arguments.state.absolute()
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell lets its background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        with started(state, attach=arguments.attach, use_veth=arguments.veth) as (neutron, built):
            if arguments.record:
                dumps.write(neutron, arguments.record)
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


@contextmanager
def started(
    state: Path, *, attach: bool, use_veth: bool = False, routers: int = 0
) -> Iterator[tuple[NeutronLab, Cloud]]:
    """A lab with its cloud: a new one for the duration of the block, or the one that another process keeps running.

    `routers`: legacy ones beyond those of the cloud, each with an instance.
    """
    if attach:
        neutron = neutron_lab.attach(state, say)
        yield neutron, cloud.read(neutron.api)
        return
    with neutron_lab.running(state, say, shape=Shape(use_veth=use_veth)) as neutron:
        built = cloud.build(neutron)
        if routers:
            cloud.add_routers(neutron, built, routers)
        paths.wait_until_open(neutron, built)
        yield neutron, built


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
