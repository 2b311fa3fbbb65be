"""Rules that name a group: the members once, the ports once, and a number that joins them.

A rule "TCP 80 from group G" on P ports, G having N members, would be N × P flows. The switch can match in two
dimensions instead: N flows say "the sender is in G", P flows say "the receiver is this port and it is TCP 80", each with
G's number, and one flow says what to do with a packet that is in both. The member flows are the same for all ports,
rules and protocols: N + P × M flows for M rules, in each direction that is asked for.

An address in two groups is one flow with both numbers. The numbers come from the groups' ids, not from an order of
arrival, so that a restart finds its own flows again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from neutrino.agent.l2.desired import LocalPort
from neutrino.agent.l2.flows.firewall import CONJUNCTION, accept, remote_field, rules_table
from neutrino.dataplane.openflow.api import Flow

Use = tuple[str, int, str]
"""Direction, family and remote of rules that a port here has."""


def number_remotes(remotes: Iterable[str]) -> dict[str, int]:
    """A number for every remote, the same wherever and whenever it is asked."""
    numbers: dict[str, int] = {}
    taken: set[int] = set()
    for remote in sorted(remotes):
        number = int.from_bytes(hashlib.blake2b(remote.encode(), digest_size=4).digest(), "big") or 1
        while number in taken:
            number = number % 0xFFFFFFFF + 1
        taken.add(number)
        numbers[remote] = number
    return numbers


def used_remotes(ports: Iterable[LocalPort]) -> frozenset[Use]:
    return frozenset(
        (rule.direction, rule.family, rule.remote)
        for port in ports
        if port.filtered
        for rule in port.rules
        if rule.remote is not None
    )


def render_members(
    uses: Iterable[Use], remotes: Mapping[str, frozenset[str]], conjunctions: Mapping[str, int]
) -> tuple[Flow, ...]:
    members: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    accepted: set[Flow] = set()
    for direction, family, remote in uses:
        number = conjunctions[remote]
        accepted.add(accept(direction, f"conj_id={number}"))
        for address in remotes.get(remote, ()):
            network = ip_network(address, strict=False)
            if network.version == family:
                keyword = "ip" if family == 4 else "ipv6"
                members[direction, f"{keyword},{remote_field(direction, family)}={network}"].add(number)
    joined = (
        rules_table(direction).flow(CONJUNCTION, match, *(f"conjunction({number},1/2)" for number in sorted(numbers)))
        for (direction, match), numbers in members.items()
    )
    return (*accepted, *joined)
