"""Compares traces with real packets, at random: pairs of instances, packets, and changes that other situations make.

    python -m qa.trace.random [--minutes 10] [--seed 1]

It builds the cloud of `tests/support/trace_situations` in a lab and goes on until the time is over. Nobody says what should
happen: the trace must say of each packet what the packet does. Delivered with a reply that is delivered must be answered,
dropped must not; unknown is counted. Exit status 1: a verdict was wrong; each is printed with its trace.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from neutrino.cli.trace.command import exit_status
from neutrino.cli.trace.render import render
from neutrino.model.objects import Object
from tests.support.lab_trace import OUTSIDE, PING, PING6, Packet, Situation, tcp, trace, udp
from tests.support.routing_lab import MACHINE
from tests.support.shared_labs import lab_of_kind
from tests.support.trace_situations.site import BEYOND, LAB, Site, made_site
from tests.support.trace_situations.table import SITUATIONS, S

ATTEMPTS = 3  # the state may be changing when a packet is sent: what differs is looked at again
ANSWERED, OPEN = 0, 3  # exit statuses of traces
PACKETS = (PING, PING, PING6, tcp(), tcp(8022), udp(5000), Packet(size=1400), Packet(size=1000))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="the same situations again")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    counted: Counter[str] = Counter()
    with lab_of_kind(LAB) as lab, made_site(lab) as site:
        run(site, random.Random(seed), args.minutes * 60, counted)
    print(", ".join(f"{count} {word}" for word, count in sorted(counted.items())))
    return 1 if counted["wrong"] else 0


def run(site: Site, choice: random.Random, seconds: float, counted: Counter[str]) -> None:
    until = time.monotonic() + seconds
    changes = [situation for situation in SITUATIONS if situation.changes]
    while time.monotonic() < until:
        changed = choice.choice(changes) if choice.random() < 1 / 2 else None
        name = changed.name if changed is not None else "no change"
        made = [draw(site, choice) for _ in range(4)]
        if changed is not None:
            with changed.change(site):
                time.sleep(1)  # agents apply it; what is late is looked at again
                judge_all(site, made, name, counted)
        else:
            judge_all(site, made, name, counted)


def draw(site: Site, choice: random.Random) -> S:
    """A packet from one of the instances, or from outside, to an instance or a known address."""
    guests = sorted(site.guests)
    source = choice.choice([*guests, OUTSIDE])
    addresses = sorted(name for name in site.addresses if name.startswith("floating IP"))
    near = [name for name in guests if name.partition("-")[0] == source.partition("-")[0]]
    to = choice.choice([*guests, *near, *near, *addresses, MACHINE, BEYOND] if source != OUTSIDE else addresses)
    packet = choice.choice(PACKETS)
    both = [site.guests[name].addresses for name in (source, to) if name in site.guests]
    if packet.version == 6 and (len(both) < 2 or not all(6 in each for each in both)):
        packet = PING
    if packet.protocol != "icmp" and to not in site.guests:
        packet = PING
    return Situation("", source, to, packet)


def judge_all(site: Site, made: list[S], change: str, counted: Counter[str]) -> None:
    for situation in made:
        if is_ambiguous(site, situation):
            continue
        word, found = judge(site, situation)
        counted[word] += 1
        causes = {found["cause"], found["return_cause"]} if word == "unknown" else set()
        counted.update(f"unknown {cause}" for cause in causes if cause)
        if word == "wrong":
            print(f"WRONG: {situation.source} to {situation.to}, {situation.packet.words}; {change}")
            print(render(found, flows=True), flush=True)


def is_ambiguous(site: Site, situation: S) -> bool:
    """Whether several instances have the target's address: another one answers then, on the sender's own network."""
    target = site.guests.get(situation.to)
    if target is None:
        return False
    version = situation.packet.version
    return sum(each.addresses.get(version) == target.addresses.get(version) for each in site.guests.values()) > 1


def judge(site: Site, situation: S) -> tuple[str, Object]:
    """Whether packets and the trace agree, and the trace."""
    found: Object = {}
    for _ in range(ATTEMPTS):
        before = situation.send(site)
        found = trace(site.lab, **situation.request(site))
        status = exit_status(found)
        if status == OPEN:
            return "unknown", found
        if situation.send(site) == before == (status == ANSWERED):
            return "right", found
        time.sleep(1)
    return "wrong", found


if __name__ == "__main__":
    sys.exit(main())
