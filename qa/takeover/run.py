"""Take over a running Neutron, host by host, while traffic is measured: `make takeover`, `python -m qa.takeover.run`.

Builds a cloud of real Neutron in a lab (`qa/takeover/lab`), imports its database, and converts its hosts one after another,
network nodes first, the standby of HA routers before the active one. Then opens it for writes, changes it, exports the
changes, and gives the hosts back to Neutron, whose API and traffic have to show them. Prints figures by path and step; the
exit status is 1 if one is missed, or if both APIs differ.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from neutrino.lab.errors import LabError
from qa.takeover.lab import changes, paths, table
from qa.takeover.lab.__main__ import SETTLE_SECONDS, STATE, say, started
from qa.takeover.lab.cloud import Cloud
from qa.takeover.lab.meters import process
from qa.takeover.lab.neutron_lab import NeutronLab
from qa.takeover.playbook import Playbook
from qa.takeover.steps import CONVERTED, MIXED_SECONDS, Takeover

RESTARTED = "h3"  # the way back ends with a start of Neutron's agents: what that costs by itself
NEUTRON_SECONDS = 30.0  # until Neutron's agents have looked at everything on their host


class End(StrEnum):
    BACK = "back"  # hosts are given back before the cloud is opened
    OPEN = "open"  # requests write here
    EXPORT = "export"  # the whole way and back: changes, their export, and the hosts given back


@dataclass(frozen=True)
class Options:
    hosts: tuple[str, ...]  # to convert; none: all of them
    end: End
    playbook: bool = False  # of deploy/ converts them, instead of the command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state", type=Path, default=STATE, help="directory of the lab (default: %(default)s)")
    parser.add_argument("--hosts", default="", help="convert these only, as h2,h1 (default: all)")
    parser.add_argument("--veth", action="store_true", help="devices of routers are veth pairs (ovs_use_veth)")
    parser.add_argument("--routers", type=int, default=0, help="further routers, each with an instance on h1")
    parser.add_argument("--attach", action="store_true", help="take over the lab that another process keeps running")
    parser.add_argument(
        "--playbook", action="store_true", help="convert hosts by the playbook of deploy/ (scripts/setup deploy)"
    )
    ends = [end.value for end in End]
    parser.add_argument("--end", choices=ends, default=End.EXPORT, help="how far to go (default: %(default)s)")
    parser.add_argument("--keep", action="store_true", help="keep the lab running until Ctrl-C")
    arguments = parser.parse_args()
    if arguments.attach and arguments.end == End.EXPORT:
        parser.error("--attach goes with --end back or open: the way back stops Neutron's server meanwhile")
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell lets its background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        lab = {"attach": arguments.attach, "use_veth": arguments.veth, "routers": arguments.routers}
        with started(arguments.state.absolute(), **lab) as (neutron, built):
            hosts = tuple(arguments.hosts.split(",")) if arguments.hosts else ()
            is_met = _take_over(neutron, built, Options(hosts, End(arguments.end), arguments.playbook))
            if arguments.keep:
                say("until Ctrl-C")
                signal.pause()
    except KeyboardInterrupt:
        return 130
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0 if is_met else 1


def _take_over(neutron: NeutronLab, built: Cloud, options: Options) -> bool:
    """Whether all figures are met and both APIs agree, before the conversion and after the way back."""
    takeover = Takeover(neutron)
    plan = paths.plan(neutron, built)
    verdicts: list[bool] = []
    with process.running(plan) as meters:
        time.sleep(SETTLE_SECONDS)
        with takeover.phase("Neutron alone"):
            time.sleep(MIXED_SECONDS)
        with takeover.phase("import and start of our server"):
            takeover.import_database("--final")
            takeover.start_server()
        if options.playbook:
            takeover.playbook = Playbook(neutron.lab)
        verdicts.append(_compare(takeover))
        with takeover.phase("start of our agents, which are held"):
            takeover.start_agents()
        active = {router.host for router in plan.ha_routers if router.is_active}
        hosts = options.hosts or order(neutron.lab.hosts, active)
        try:
            for host in hosts:
                _convert(takeover, host)
            if options.end is End.BACK:
                _give_back(takeover, hosts)
            elif not options.hosts:
                with takeover.phase("open"):
                    say(takeover.command("open"))
                if options.end is End.EXPORT:
                    verdicts += _return(takeover, built, hosts)
        except LabError as error:
            say(f"error: {error}")
            verdicts.append(False)
        if options.end is not End.OPEN:
            with takeover.phase(f"Neutron alone, its agents restarted on {RESTARTED}", of_neutron=True):
                takeover.stop_agents(RESTARTED, CONVERTED)
                takeover.start_neutron_agents(RESTARTED)
                time.sleep(NEUTRON_SECONDS)
        time.sleep(SETTLE_SECONDS)
        figures = table.figures(meters.read(), takeover.phases)
    say(table.render(figures, only_missed=True))
    return all(verdicts) and all(figure.is_acceptable for figure in figures)


def _return(takeover: Takeover, built: Cloud, hosts: Sequence[str]) -> Iterator[bool]:
    """Change the cloud, export the changes, and give the hosts back to Neutron, which serves what has changed."""
    neutron = takeover.neutron
    neutron.server.stop()
    with takeover.phase("changes through our API"):
        changed = changes.make(neutron, built)
        paths.wait_until_passing(neutron, changed)
    with takeover.phase("export, and start of Neutron's server"):
        say(takeover.command("export"))
        neutron.server.start()
    yield _compare(takeover)
    _give_back(takeover, hosts)
    paths.wait_until_passing(neutron, changed)
    with process.running(paths.meters_of(neutron, changed, changes.FIRST_PORT)) as meters:
        time.sleep(SETTLE_SECONDS)
        with takeover.phase("Neutron again", of_neutron=True):
            time.sleep(MIXED_SECONDS)
        time.sleep(SETTLE_SECONDS)
        figures = table.figures(meters.read(), takeover.phases[-1:])
    say("what was changed, served by Neutron:")
    say(table.render(figures))
    yield all(figure.is_met for figure in figures)  # these began after its agents had started


def _compare(takeover: Takeover) -> bool:
    compared = takeover.verify()
    say(compared.to_text())
    return not compared.differences


def _convert(takeover: Takeover, host: str) -> None:
    with takeover.phase(f"{host}: stop of Neutron's agents"):
        takeover.stop_agents(host, CONVERTED)
    with takeover.phase(f"{host}: conversion"):
        takeover.convert(host)
    with takeover.phase(f"{host}: converted"):
        time.sleep(MIXED_SECONDS)


def _give_back(takeover: Takeover, hosts: Sequence[str]) -> None:
    for host in reversed(hosts):
        with takeover.phase(f"{host}: back"):
            takeover.convert(host, "--back")
        with takeover.phase(f"{host}: Neutron's flows, no agents"):
            time.sleep(MIXED_SECONDS)
    # All at the end, so that what they lose is not taken for a loss of a host that is given back meanwhile.
    with takeover.phase("start of Neutron's agents", of_neutron=True):
        for host in hosts:
            takeover.start_neutron_agents(host)
        time.sleep(NEUTRON_SECONDS)


def order(hosts: Sequence[str], active: set[str]) -> list[str]:
    """Network nodes first, which are the first two hosts of the lab; the standby of HA routers before the active one."""
    return [*sorted(hosts[:2], key=lambda host: host in active), *hosts[2:]]


if __name__ == "__main__":
    sys.exit(main())
