"""Benchmark of HA routers: how long no packet passes when the active host is lost, by fault and interval of advertisements.

  python -m qa.bench.failover [--intervals 1,0.2] [--rounds 3]
  python -m qa.bench.failover --quiet 600 --intervals 0.2    # failovers without a fault while all processors are busy
  python -m qa.bench.failover --routers 200 --intervals 0.2  # what advertisements of many routers cost an active host
  python -m qa.bench.failover --streams --intervals 1        # TCP streams over a failover, with and without conntrackd

A lab of three hosts with Open vSwitch in userspace, its server on SQLite, all on the processors of one machine, as root.
An outage is the longest run of pings without an answer, one each 20 ms: to a floating IP from outside, from an instance
to another network, and from an instance to the outside. Instances are on hosts that stay. "back" is the return of the
lost host, which must cost nothing: it does not take over.

Of streams, one side sends 64 bytes each 20 ms, and the other has nothing to send: the gap is the longest time in which
nothing arrives, of a minute at most.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from neutrino.lab import faults
from neutrino.lab.errors import LabError, wait_until
from neutrino.model.objects import Object
from qa.bench.processor import seconds
from qa.bench.signals import unwind_if_terminated
from qa.bench.streams import Stream
from qa.bench.workbench import progress
from tests.support.lab import PING_INTERVAL, Pinging, temporary_lab
from tests.support.lab_control import Lab
from tests.support.lab_guests import EVERYTHING, Guest, Spec, make_group, make_guests
from tests.support.routing_lab import (
    EXTERNAL,
    MACHINE,
    active_host,
    connect,
    delete_router,
    external_network,
    failed_host,
    floating_ip,
    hosts_of,
    in_router,
    kill_keepalived,
    make_router,
    tenant_network,
    wait_until_no_drift,
    wait_until_reachable,
)

ROLES = ("l2", "l3")
PATIENCE = 60.0
TARGET = 1.0  # seconds, where advertisements are sent more often than once a second
COST_SECONDS = 30.0
STREAM_SECONDS = 60.0  # after which a stream counts as lost
SETTLED_SECONDS = 3.0
STREAM_PORT = 9000
Paths = dict[str, float]  # outage in seconds, by path


@dataclass
class Bench:
    lab: Lab
    out: Object
    router: Object
    left: dict[str, Guest]  # by host, on one network
    right: dict[str, Guest]  # on another
    floating: dict[str, str]  # floating IP of the guest on the left, by host

    @property
    def active(self) -> str:
        return active_host(self.lab, self.router, among=self.lab.hosts)

    def active_of(self, hosts: Collection[str]) -> str:
        """The one of these hosts that reports itself active; empty if none does."""
        states = hosts_of(self.lab, self.router)
        return next((host for host in hosts if states.get(host) == "active"), "")

    def measure(self, lost: str, change: Callable[[], None]) -> Paths:
        """The outage of each path between guests on other hosts than the lost one, while something happens to it."""
        here, there = (host for host in self.lab.hosts if host != lost)
        paths = {
            "floating IP": (EXTERNAL, self.floating[here]),
            "east-west": (self.left[here].name, self.right[there].addresses[4]),
            "SNAT": (self.right[there].name, MACHINE),
        }
        for source, target in paths.values():
            wait_until_reachable(self.lab, source, target, PATIENCE)
        with contextlib.ExitStack() as stack:
            pings = {name: stack.enter_context(Pinging(self.lab, *ends)) for name, ends in paths.items()}
            change()
            for source, target in paths.values():
                wait_until_reachable(self.lab, source, target, PATIENCE)
        return {name: longest_run(ping.unanswered) * ping.spacing for name, ping in pings.items()}

    def settle(self) -> None:
        """Until one host is active, the others are standby, and all is as it should be."""
        _ = self.active
        for host in self.lab.hosts:
            wait_until_no_drift(self.lab, host)


def longest_run(numbers: Sequence[int]) -> int:
    """The length of the longest run of consecutive numbers."""
    longest = length = 0
    before: int | None = None
    for number in numbers:
        length = length + 1 if before is not None and number == before + 1 else 1
        longest, before = max(longest, length), number
    return longest


@contextlib.contextmanager
def cloud(interval: float, *, conntrackd: bool = False) -> Iterator[Bench]:
    with temporary_lab(hosts=3, roles=ROLES, central=3) as lab:
        for host in lab.hosts:
            lab.stop_agent(host)
            # Gateways are asked as often as hosts advertise.
            options = dict.fromkeys(("ha_vrrp_advert_int", "ha_vrrp_health_check_interval"), f"{interval:g}")
            options["ha_conntrackd_enabled"] = str(conntrackd)
            lab.start_agent(host, {"DEFAULT": options})
        out = external_network(lab)
        blue, red = tenant_network(lab, "blue", 1), tenant_network(lab, "red", 2)
        router = make_router(lab, out, blue, red, ha=True)
        group, _ = make_group(lab, "open", *EVERYTHING)
        guests = make_guests(
            lab,
            *(Spec(f"blue-{host}", blue, host, [group]) for host in lab.hosts),
            *(Spec(f"red-{host}", red, host, [group]) for host in lab.hosts),
        )
        left, right = (dict(zip(lab.hosts, some, strict=True)) for some in (guests[:3], guests[3:]))
        floating = {host: floating_ip(lab, out, guest.port_id)["floating_ip_address"] for host, guest in left.items()}
        bench = Bench(lab, out, router, left, right, floating)
        bench.settle()
        yield bench


# --- faults -----------------------------------------------------------------------------------------------------------


def lose_host(bench: Bench) -> Iterator[tuple[str, Paths]]:
    """Its power fails: links are cut and all processes are killed."""
    lost = bench.active
    yield "host lost", bench.measure(lost, lambda: void(faults.kill_host(bench.lab, lost)))
    yield "host lost, back", bench.measure(lost, lambda: _start_host(bench, lost))


def lose_link(bench: Bench) -> Iterator[tuple[str, Paths]]:
    """The network of tunnels, and with it the HA network, does not reach the active host."""
    lost = bench.active
    yield "link lost", bench.measure(lost, lambda: faults.set_link(bench.lab, lost, "underlay", "down"))
    yield "link lost, back", bench.measure(lost, lambda: _restore_link(bench, lost))


def lose_keepalived(bench: Bench) -> Iterator[tuple[str, Paths]]:
    """The agent of its host is told at once."""
    lost = bench.active
    yield "keepalived killed", bench.measure(lost, lambda: kill_keepalived(bench.lab, bench.router, lost))


def lose_agent_and_daemons(bench: Bench) -> Iterator[tuple[str, Paths]]:
    """The agent, its keepalived and the switch; the router's namespaces stay as they are."""
    lost = bench.active
    back = contextlib.ExitStack()
    with back:
        yield (
            "agent and keepalived killed",
            bench.measure(lost, lambda: back.enter_context(failed_host(bench.lab, bench.router, lost))),
        )
        yield "agent and keepalived killed, back", bench.measure(lost, back.close)


def lose_gateway(bench: Bench) -> Iterator[tuple[str, Paths]]:
    """The active host's link to the external network; keepalived asks for the gateway once a second, and waits a second."""
    lost = bench.active
    yield "gateway lost", bench.measure(lost, lambda: _cut_external(bench, lost))
    yield "gateway lost, back", bench.measure(lost, lambda: faults.set_link(bench.lab, lost, "external", "up"))


def _cut_external(bench: Bench, host: str) -> None:
    faults.set_link(bench.lab, host, "external", "down")
    wait_until(lambda: bench.active != host, PATIENCE, "the host is still active")


FAULTS = (lose_gateway, lose_host, lose_link, lose_keepalived, lose_agent_and_daemons)


def void(_: object) -> None:
    """For calls whose result is of no use."""


def _start_host(bench: Bench, host: str) -> None:
    faults.start_host(bench.lab, host)
    wait_until_no_drift(bench.lab, host)


def _restore_link(bench: Bench, host: str) -> None:
    faults.set_link(bench.lab, host, "underlay", "up")
    bench.settle()


# --- runs -------------------------------------------------------------------------------------------------------------


def measure_outages(interval: float, rounds: int) -> dict[str, Paths]:
    """The longest of all rounds."""
    found: dict[str, Paths] = {}
    with cloud(interval) as bench:
        for number in range(rounds):
            for fault in FAULTS:
                bench.settle()
                for name, paths in fault(bench):
                    shown = ", ".join(f"{path} {outage:.2f} s" for path, outage in paths.items())
                    progress(f"interval {interval:g}, round {number + 1}, {name}: {shown}")
                    before = found.get(name, {})
                    found[name] = {path: max(outage, before.get(path, 0.0)) for path, outage in paths.items()}
    return found


def measure_streams(interval: float, rounds: int, *, conntrackd: bool) -> Paths:
    """The longest gap of each stream in all rounds when the active host is lost, and when it is back."""
    found: Paths = {}
    with cloud(interval, conntrackd=conntrackd) as bench:
        for number in range(rounds):
            bench.settle()
            lost = bench.active
            with contextlib.ExitStack() as stack:
                streams = {name: stack.enter_context(each) for name, each in _streams(bench, lost, stack).items()}
                time.sleep(SETTLED_SECONDS)
                for each in streams.values():
                    each.gap = 0.0
                _lose_under(bench, lost, streams.values())
            for name, each in streams.items():
                progress(
                    f"interval {interval:g}, conntrackd {conntrackd}, round {number + 1}, {name}: {each.gap:.2f} s"
                )
                found[name] = max(found.get(name, 0.0), each.gap)
    return found


def _lose_under(bench: Bench, lost: str, streams: Collection[Stream]) -> None:
    """The active host is lost until all streams go on, or count as lost; then it comes back."""
    faults.kill_host(bench.lab, lost)
    end = time.monotonic() + STREAM_SECONDS
    others = [host for host in bench.lab.hosts if host != lost]
    wait_until(lambda: bench.active_of(others) != "", PATIENCE, "no other host takes over")
    while time.monotonic() < end and any(each.silent > 1.0 for each in streams):
        time.sleep(0.1)
    time.sleep(SETTLED_SECONDS)
    faults.start_host(bench.lab, lost)
    wait_until_no_drift(bench.lab, lost)


def _streams(bench: Bench, lost: str, stack: contextlib.ExitStack) -> dict[str, Stream]:
    """By the address that the outside sees, and who sends. Each is a connection of its own."""
    here, there = (host for host in bench.lab.hosts if host != lost)
    address = bench.floating[here]
    ends = (
        ("SNAT, outside sends", (bench.right[there].name, EXTERNAL, MACHINE), False),
        ("SNAT, inside sends", (bench.right[there].name, EXTERNAL, MACHINE), True),
        ("floating IP, outside sends", (EXTERNAL, bench.left[here].name, address), True),
        ("floating IP, inside sends", (EXTERNAL, bench.left[here].name, address), False),
    )
    found = {}
    for number, (name, (client, server, target), client_sends) in enumerate(ends):
        made = stack.enter_context(connect(bench.lab, client, server, target, STREAM_PORT + number))
        made.passes_data(PATIENCE)
        found[name] = Stream(*((made.client, made.server) if client_sends else (made.server, made.client)))
    return found


def count_transitions(interval: float, duration: float) -> int:
    """How often another host became active while a process for each processor does nothing but compute."""
    with cloud(interval) as bench, busy_processors():
        active, transitions, until = bench.active, 0, time.monotonic() + duration
        while time.monotonic() < until:
            time.sleep(1.0)  # the state that agents report; a failover and back within it is two of keepalived's lines
            now = [host for host, state in hosts_of(bench.lab, bench.router).items() if state == "active"]
            if now and now != [active]:
                transitions, active = transitions + 1, now[0]
        return max(transitions, sum(_logged(bench, host) for host in bench.lab.hosts) - 1)


def _logged(bench: Bench, host: str) -> int:
    """How often keepalived has become active there since it was started."""
    directory: Path = bench.lab.paths.host(host) / "ha_confs" / str(bench.router["id"])
    return (directory / "keepalived.log").read_text().count("Entering MASTER STATE")


@contextlib.contextmanager
def busy_processors() -> Iterator[None]:
    workers = [multiprocessing.Process(target=_compute, daemon=True) for _ in range(multiprocessing.cpu_count())]
    for worker in workers:
        worker.start()
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _compute() -> None:
    while True:
        sum(range(10_000))


def measure_cost(interval: float, routers: int, per_project: int) -> tuple[float, float, float]:
    """Of so many routers, all active somewhere: advertisements a second, and the share of one processor that all
    keepaliveds of active and of standby hosts take, each.

    The routers of a project share an HA network: each of its keepaliveds gets the advertisements of all.
    """
    with cloud(interval) as bench:
        lab = bench.lab

        def new_router(number: int) -> Object:
            project = f"project-{number // per_project}"
            network = tenant_network(lab, f"n{number}", 3, six=False, project_id=project)
            return make_router(lab, None, network, ha=True, project_id=project)

        made = [new_router(number) for number in range(routers)]
        wait_until(lambda: all("active" in hosts_of(lab, router).values() for router in made), 600.0, "not all active")
        pids = {host: _keepaliveds(lab, host) for host in lab.hosts}
        sent = _advertisements(bench)
        before = {host: seconds(found) for host, found in pids.items()}
        started = time.monotonic()
        time.sleep(COST_SECONDS)
        elapsed = time.monotonic() - started
        rate = (_advertisements(bench) - sent) / elapsed
        spent = {host: (seconds(found) - before[host]) / elapsed for host, found in pids.items()}
        for router in made:
            delete_router(lab, router["id"])
        return rate * (routers + 1), sum(spent.values()), max(spent.values())


def _keepaliveds(lab: Lab, host: str) -> list[int]:
    found = lab.run(host, ["pgrep", "-f", f"keepalived.*{lab.paths.host(host)}"], check=False).stdout
    return [int(word) for word in found.split()]


def _advertisements(bench: Bench) -> int:
    """Packets that the HA device of one router has sent on its active host."""
    shown = in_router(
        bench.lab, bench.router, bench.active, "sh", "-c", "cat /sys/class/net/ha-*/statistics/tx_packets"
    )
    return int(shown.split()[0])


def compare_streams(intervals: Sequence[float], rounds: int) -> int:
    """1 if a stream is lost with conntrackd."""
    failed = False
    print("| interval | stream | without conntrackd | with |\n| --- | --- | --- | --- |")
    for interval in intervals:
        without, with_it = (measure_streams(interval, rounds, conntrackd=each) for each in (False, True))
        for name, gap in with_it.items():
            print(f"| {interval:g} s | {name} | {_gap(without[name])} | {_gap(gap)} |", flush=True)
            failed |= gap >= STREAM_SECONDS
    return int(failed)


def _gap(seconds: float) -> str:
    return "lost" if seconds >= STREAM_SECONDS else f"{seconds:.2f} s"


def table(found: dict[float, dict[str, Paths]]) -> str:
    names = list(dict.fromkeys(name for outages in found.values() for name in outages))
    head = ["fault", *(f"{interval:g} s" for interval in found)]
    rows = [head, ["---"] * len(head)]
    for name in names:
        rows.append([name, *(_cell(outages.get(name, {})) for outages in found.values())])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(paths: Paths) -> str:
    return ", ".join(f"{path} {outage:.2f}" for path, outage in paths.items())


def missed(found: dict[float, dict[str, Paths]]) -> list[str]:
    return [
        f"interval {interval:g}, {name}, {path}: {outage:.2f} s"
        for interval, outages in found.items()
        for name, paths in outages.items()
        for path, outage in paths.items()
        if interval < 1 and outage > TARGET
    ]


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intervals", default="1,0.2", help="seconds between advertisements (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quiet", type=float, default=0, metavar="SECONDS", help="count failovers without a fault")
    parser.add_argument("--routers", type=int, default=0, help="measure what so many routers cost")
    parser.add_argument("--per-project", type=int, default=5, help="routers of one project (default: %(default)s)")
    parser.add_argument("--streams", action="store_true", help="measure TCP streams, with and without conntrackd")
    args = parser.parse_args(argv)
    intervals = [float(word) for word in args.intervals.split(",")]
    try:
        if args.quiet:
            counts = {interval: count_transitions(interval, args.quiet) for interval in intervals}
            for interval, count in counts.items():
                print(f"interval {interval:g} s: {count} failovers in {args.quiet:.0f} s on busy processors")
            return int(any(counts.values()))
        if args.routers:
            for interval in intervals:
                rate, all_hosts, most = measure_cost(interval, args.routers, args.per_project)
                print(
                    f"interval {interval:g} s, {args.routers + 1} routers on 3 hosts, {args.per_project} in each project: "
                    f"{rate:.0f} packets/s, keepaliveds "
                    f"{all_hosts:.1%} of a processor, at most {most:.1%} on one host"
                )
            return 0
        if args.streams:
            return compare_streams(intervals, args.rounds)
        found = {interval: measure_outages(interval, args.rounds) for interval in intervals}
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"longest outage in {args.rounds} rounds, in seconds; a ping each {PING_INTERVAL * 1000:.0f} ms\n")
    print(table(found))
    for text in missed(found):
        print(f"missed: {text}")
    return int(bool(missed(found)))


if __name__ == "__main__":
    unwind_if_terminated()
    sys.exit(main(sys.argv[1:]))
