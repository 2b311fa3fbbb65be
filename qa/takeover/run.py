"""Take over a running Neutron, host by host, while traffic is measured: `make takeover`, `python -m qa.takeover.run`.

Builds a cloud of real Neutron in a lab (`qa/takeover/lab`), imports its database, and converts its hosts one after another,
network nodes first, the standby of HA routers before the active one. Prints figures by path and step; the exit status is
1 if one is missed. With --back, hosts are given back to Neutron's agents in place of opening the cloud for writes. Not part
of it yet: changes after opening, and the way back from there by an export.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from neutrino.lab.errors import LabError
from qa.takeover.lab import paths, table
from qa.takeover.lab.__main__ import SETTLE_SECONDS, STATE, say, started
from qa.takeover.lab.cloud import Cloud
from qa.takeover.lab.meters import process
from qa.takeover.lab.neutron_lab import NeutronLab
from qa.takeover.steps import CONVERTED, METADATA, MIXED_SECONDS, Takeover

NEUTRON_SECONDS = 30.0  # until Neutron's agents have looked at everything on their host


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=STATE, help="directory of the lab (default: %(default)s)")
    parser.add_argument("--hosts", default="", help="convert these only, as h2,h1 (default: all)")
    parser.add_argument("--attach", action="store_true", help="take over the lab that another process keeps running")
    parser.add_argument("--back", action="store_true", help="give the hosts back to Neutron in place of opening")
    parser.add_argument("--keep", action="store_true", help="keep the lab running until Ctrl-C")
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell lets its background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        with started(arguments.state.absolute(), attach=arguments.attach) as (neutron, built):
            hosts = arguments.hosts.split(",") if arguments.hosts else ()
            is_met = _take_over(neutron, built, hosts, back=arguments.back)
            if arguments.keep:
                say("until Ctrl-C")
                signal.pause()
    except KeyboardInterrupt:
        return 130
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if is_met else 1


def _take_over(neutron: NeutronLab, built: Cloud, hosts: Sequence[str], *, back: bool) -> bool:
    takeover = Takeover(neutron)
    plan = paths.plan(neutron, built)
    with process.running(plan) as meters:
        time.sleep(SETTLE_SECONDS)
        with takeover.phase("Neutron alone"):
            time.sleep(MIXED_SECONDS)
        with takeover.phase("import and start of our server"):
            takeover.import_database("--final")
            takeover.start_server()
        compared = takeover.verify()
        say(compared.to_text())
        with takeover.phase("start of our agents, which are held"):
            takeover.start_agents()
        active = {router.host for router in plan.ha_routers if router.is_active}
        chosen = hosts or order(neutron.lab.hosts, active)
        try:
            for host in chosen:
                _convert(takeover, host)
            for host in reversed(chosen) if back else ():
                _give_back(takeover, host)
            if not hosts and not back:
                with takeover.phase("open"):
                    say(takeover.command("open"))
        except LabError as error:
            say(f"error: {error}")
            is_done = False
        else:
            is_done = True
        time.sleep(SETTLE_SECONDS)
        figures = table.figures(meters.read(), takeover.phases)
    say(table.render(figures, only_missed=True))
    return is_done and all(figure.is_met for figure in figures) and not compared.differences


def _convert(takeover: Takeover, host: str) -> None:
    with takeover.phase(f"{host}: stop of Neutron's agents"):
        takeover.stop_agents(host, CONVERTED)
    with takeover.phase(f"{host}: conversion"):
        takeover.convert(host)
        takeover.stop_agents(host)
    with takeover.phase(f"{host}: converted"):
        time.sleep(MIXED_SECONDS)


def _give_back(takeover: Takeover, host: str) -> None:
    with takeover.phase(f"{host}: back"):
        takeover.start_neutron_agents(host, [METADATA])  # for haproxy
        takeover.convert(host, "--back")
    with takeover.phase(f"{host}: start of Neutron's agents"):
        takeover.start_neutron_agents(host)
        time.sleep(NEUTRON_SECONDS)


def order(hosts: Sequence[str], active: set[str]) -> list[str]:
    """Network nodes first, which are the first two hosts of the lab; the standby of HA routers before the active one."""
    return [*sorted(hosts[:2], key=lambda host: host in active), *hosts[2:]]


if __name__ == "__main__":
    sys.exit(main())
