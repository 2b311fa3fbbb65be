"""The filter of hybrid ports of a lab host as Neutron's agent leaves it, its conversion, and datagrams that it must never
let in.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from neutrino.lab.errors import wait_until
from tests.support import neutron_iptables
from tests.support.lab import PING_INTERVAL
from tests.support.lab_guests import SOON, Guest, connecting, connections, wait_to_fall_silent
from tests.support.neutron_host import (
    HOST,
    MEMBERS,
    SSH,
    WEB,
    Place,
    assert_none_lost,
    convert,
    give_back,
    leave_neutron,
    traffic,
)
from tests.support.neutron_iptables import HybridPort

CLOSED = 9
KNOCK_SECONDS = 0.01
ZONES = {4099, 40000}  # Neutron's go up to 65535
_PROGRAMS = {4: "iptables", 6: "ip6tables"}
_OPERATOR = "FORWARD -p tcp -m tcp --dport 9999 -m comment --comment operator -j ACCEPT"
OPERATORS = {f"{version} -A {_OPERATOR}" for version in _PROGRAMS}  # rules of another program
_ZONE = re.compile(r"--physdev-in tap.* --zone (\d+)")


@dataclass(frozen=True)
class Filter:
    """Rules in their order, and sets with their members."""

    rules: tuple[str, ...]
    sets: frozenset[str]


def remove_filter(place: Place) -> None:
    for program in _PROGRAMS.values():
        for table in ("raw", "nat", "filter"):
            for option in ("-F", "-X"):
                place.lab.run(HOST, [program, "-t", table, option])
    place.lab.run(HOST, ["ipset", "destroy"])


def filter_like_neutron(place: Place) -> None:
    """With a rule of another program in front of Neutron's."""
    run = place.lab.run
    members = {version: [far.addresses[version] for far in place.far] for version in _PROGRAMS}
    run(HOST, ["ipset", "restore"], text=neutron_iptables.sets({place.members: members}))
    ports = [
        HybridPort(near.port_id, near.mac, near.addresses, zone, (WEB, SSH), (MEMBERS, place.members))
        for near, zone in zip(place.near, sorted(ZONES), strict=True)
    ]
    for version, program in _PROGRAMS.items():
        run(HOST, [f"{program}-restore", "--noflush"], text=neutron_iptables.rules(ports, version))
        run(HOST, [program, "-I", *_OPERATOR.split()])


def read_filter(place: Place) -> Filter:
    rules = tuple(
        f"{version} {line}"
        for version, program in _PROGRAMS.items()
        for line in place.lab.run(HOST, [f"{program}-save"]).stdout.splitlines()
        if line.startswith("-A ")
    )
    sets = place.lab.run(HOST, ["ipset", "save"]).stdout.splitlines()
    return Filter(rules, frozenset(re.sub(r" (bucketsize|initval) \w+", "", line) for line in sets))


def held_zones(found: Filter) -> set[int]:
    return {int(match[1]) for rule in found.rules if (match := _ZONE.search(rule))}


class Knocks:
    """Datagrams to a port that no rule opens, from the other host to every instance, one after the other."""

    def __init__(self, pairs: list[tuple[Guest, Guest]]) -> None:
        self.sent = self.heard = 0
        self._ways = [(_bound(far, 0), _bound(near, CLOSED), near.addresses[4]) for near, far in pairs]
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._knock, daemon=True)
        self._thread.start()

    def _knock(self) -> None:
        while not self._over.wait(KNOCK_SECONDS):
            for sender, _, address in self._ways:
                sender.sendto(b"knock", (address, CLOSED))
            self.sent += 1

    def wait_for(self, number: int) -> None:
        wait_until(lambda: self.sent >= number, SOON, "too few datagrams are sent")

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        for sender, receiver, _ in self._ways:
            with contextlib.suppress(BlockingIOError):
                while receiver.recv(64, socket.MSG_DONTWAIT):
                    self.heard += 1
            sender.close()
            receiver.close()


def _bound(guest: Guest, port: int) -> socket.socket:
    made = guest.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("", port))
    return made


@contextlib.contextmanager
def knocking(place: Place) -> Iterator[Knocks]:
    with contextlib.closing(Knocks(list(zip(place.near, place.far, strict=True)))) as knocks:
        yield knocks


def convert_and_back(place: Place, interval: float = PING_INTERVAL) -> None:
    """As `neutron_host.convert_and_back`, of hybrid ports; and nothing that no rule admits gets in at any moment."""
    ssh, members = place.inwards(SSH), place.inwards(MEMBERS)
    place.lab.stop_agent(HOST)
    leave_neutron(place)
    remove_filter(place)
    with knocking(place) as knocks:
        knocks.wait_for(20)
    assert knocks.heard, "without a filter it is open"
    filter_like_neutron(place)
    left = read_filter(place)
    assert connecting([*ssh, *members]) == {*ssh, *members}
    place.lab.start_agent(HOST, wait=False)
    with traffic(place, interval) as (talks, pings), contextlib.ExitStack() as stack:
        talks += connections(stack, members)
        ending = connections(stack, ssh)
        knocks = stack.enter_context(knocking(place))
        assert "iptables rules of 2 hybrid ports" in convert(place)
        assert all(talk.talks() for talk in talks)
        wait_to_fall_silent(*ending)
        assert connecting([*ssh, *members]) == {*members}
        ours = read_filter(place)
        assert not [rule for rule in ours.rules if "neutrino:" not in rule and rule not in OPERATORS], "of Neutron"
        assert ours.sets.isdisjoint(left.sets)
        assert held_zones(ours) == ZONES

        give_back(place)
        assert read_filter(place) == left
        assert all(talk.talks() for talk in talks)
        assert connecting([*ssh, *members]) == {*ssh, *members}

        convert(place)
        assert all(talk.talks() for talk in talks)
    assert_none_lost(place, pings)
    assert (knocks.heard, knocks.sent > 20) == (0, True), "open for a moment"
