"""The native firewall: security groups as flows, with the switch's connection tracking.

Out of a filtered port: BASE_EGRESS drops what only DHCP servers and routers may send, passes requests for an address, and
checks that the source address is the port's. RULES_EGRESS sees a packet twice. The first time it is untracked: neighbour
discovery and DHCP requests pass, and what a stateless rule allows; everything else goes through conntrack, in the zone of
its network, and returns tracked. Then replies and errors of living connections pass; packets in the opening direction of a
connection, the first one and all later ones, must be allowed by a rule. ACCEPT_OR_INGRESS checks whether the receiver is a
filtered port here; if not, ACCEPTED_EGRESS commits a new connection.

A flow sees no ports in fragments, so a DHCP server's reply in two fragments would pass as any datagram. Therefore
BASE_EGRESS has conntrack reassemble fragments, checks how the whole packet would open a connection, and clears the
connection state again, so that the packet is judged as before.

Into a filtered port: BASE_INGRESS passes ARP, neighbour discovery and DHCP replies, RULES_INGRESS works like its
counterpart, and ACCEPTED_INGRESS commits a new connection and delivers.

As every packet of the opening direction needs a rule, removing a rule ends connections: the next such packet matches no
rule and marks the connection; replies of a marked connection are dropped; a rule that allows it again clears the mark.
Connections on which only the answering side sends are flushed from conntrack (see `connections`).

Rules with a remote group or address group use conjunctive matches. A rule "TCP 80 from group G" on P ports, with N
members in G, would be N × P flows. Instead, N flows match "the sender is in G", P flows "the receiver is this port and it
is TCP 80", each with G's conjunction id, and one flow acts on packets that match both. The member flows are shared by all
ports, rules and protocols: N + P × M flows for M rules in each direction. An address in two groups is one flow with both
ids. Ids are derived from the groups' ids, so that a restart finds its own flows again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort, Remotes
from neutrino.agent.l2.extension_api import REMOTES, Contribution, L2Extension, Unit, port_owner, stable_numbers
from neutrino.agent.l2.packets import DHCP_REPLIES, DHCP_REQUESTS, NEIGHBOUR_IN, NEIGHBOUR_OUT, UNADDRESSED
from neutrino.agent.l2.pipeline import (
    MARK_INVALID,
    PLAIN,
    REG_GUARDED,
    REG_PORT,
    REG_TRACKED,
    ZONE,
    Table,
    enter_ingress,
)
from neutrino.caches import cached
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, SCTP, TCP, UDP
from neutrino.dataplane.openflow.api import Flow

_SHARES = 64  # in which members of remote groups are rendered
_CONJUNCTION = 70  # priority, below PLAIN: at the same one, a plain flow would hide conjunctions
_KEYWORD = {4: "ip", 6: "ipv6"}
# The field of the other side's address.
_REMOTE = {
    ("ingress", 4): "nw_src",
    ("ingress", 6): "ipv6_src",
    ("egress", 4): "nw_dst",
    ("egress", 6): "ipv6_dst",
}
_WITH_PORTS = (TCP, UDP, SCTP)
_PORT_BITS = 16

# A direction, family and remote that rules of ports here have.
_Use = tuple[str, int, str]
Share = tuple[tuple[str, frozenset[str]], ...]
"""Remotes, each with some of its members."""

# The table of a direction's rules, and the next table of a packet that they allow.
_RULES = {
    "egress": (pipeline.RULES_EGRESS, pipeline.ACCEPT_OR_INGRESS),
    "ingress": (pipeline.RULES_INGRESS, pipeline.ACCEPTED_INGRESS),
}


class Firewall(L2Extension):
    name = "firewall"

    def units(self, desired: Desired) -> Iterator[Unit]:
        bridge = desired.options.integration_bridge
        yield Unit("firewall", (bridge, desired.options.permitted_ethertypes), _base)
        uses = frozenset(
            (rule.direction, rule.family, rule.remote)
            for port in desired.ports
            if port.filtered
            for rule in port.rules
            if rule.remote is not None
        )
        numbers = stable_numbers(desired.remotes, range(1, 1 << 32))  # 0 is the conj_id of packets of no conjunction
        yield Unit(REMOTES, (bridge, uses, numbers), _remotes)
        for share, members in _shares(desired.remotes):
            yield Unit(REMOTES, (bridge, uses, numbers, members), _members, f"share {share}")
        for port in desired.ports:
            if port.filtered:
                used = {rule.remote: numbers[rule.remote] for rule in port.rules if rule.remote is not None}
                yield Unit(port_owner(port), (bridge, port, used, desired.options.ingress_entry), _port)


def _base(bridge: str, permitted_ethertypes: Iterable[int]) -> Contribution:
    """The flows that all filtered ports share."""
    base, rules, accepted = pipeline.BASE_EGRESS, pipeline.RULES_EGRESS, pipeline.ACCEPT_OR_INGRESS
    base_in, accepted_in = pipeline.BASE_INGRESS, pipeline.ACCEPTED_INGRESS
    permitted = [f"dl_type={ether_type:#x}" for ether_type in sorted(permitted_ethertypes)]
    # What an instance sends before it has an address: requests for one, and probes. ARP was checked in ARP_SPOOFING. QEMU
    # announces an instance that arrived by live migration with RARP, so that switches outside learn its new place.
    unaddressed = (
        *("arp", "dl_type=0x8035", "udp,nw_src=0.0.0.0,tp_src=68,tp_dst=67"),
        *(f"icmp6,ipv6_src=::,icmp_type={kind}" for kind in UNADDRESSED),
        *permitted,
    )
    sent = (*(f"icmp6,icmp_type={kind}" for kind in NEIGHBOUR_OUT), *DHCP_REQUESTS)
    received = ("arp", *(f"icmp6,icmp_type={kind}" for kind in NEIGHBOUR_IN), *DHCP_REPLIES, *permitted)
    # BASE_EGRESS, from the top: fragments (97, 96), messages of servers and routers (95), senders without an address
    # (90), and the port's own sources (65, in `_port`). What is left is dropped.
    flows = (
        *_render_fragments(),
        *(base.flow(95, match, then=pipeline.DROPPED) for match in (*DHCP_REPLIES, "icmp6,icmp_type=134")),
        *(base.flow(90, match, then=accepted) for match in unaddressed),
        *(rules.flow(110, f"{match},ct_state=-trk", then=accepted) for match in sent),
        *(base_in.flow(100, match, then=accepted_in) for match in received),
        *(base_in.flow(50, family, then=pipeline.RULES_INGRESS) for family in _KEYWORD.values()),
        *_render_connections("egress"),
        *_render_connections("ingress"),
        *_render_commit(pipeline.ACCEPTED_EGRESS, pipeline.ACCEPTED_EGRESS.goto(pipeline.ACCEPTED_EGRESS_NORMAL)),
        *_render_commit(accepted_in, pipeline.OUTPUT_TO_PORT),
    )
    return Contribution({bridge: flows})


def _render_fragments() -> list[Flow]:
    """Fragments: the only packets that are tracked in BASE_EGRESS. Fragmented ND is invalid to conntrack, so dropped."""
    base = pipeline.BASE_EGRESS
    flows = [base.flow(97, "ct_state=+inv+trk", then=pipeline.DROPPED)]
    for family, server, client in (("ip", 67, 68), ("ipv6", 547, 546)):
        udp = f"{family},ct_nw_proto={UDP}"
        # ct_tp_* are those of the first packet: in a DHCP server's reply, the client's port is the source.
        answers = (
            f"{udp},ct_state=-rpl-inv+trk,ct_tp_src={server},ct_tp_dst={client}",
            f"{udp},ct_state=+rpl-inv+trk,ct_tp_src={client},ct_tp_dst={server}",
        )
        flows += [base.flow(97, match, then=pipeline.DROPPED) for match in answers]
        flows.append(base.flow(96, f"{family},ct_state=+trk", "ct_clear", then=base))
        # In userspace it is still a fragment when it is untracked again: the register keeps it from looping.
        guarded = f"set_field:1->{REG_GUARDED}"
        flows.append(base.flow(96, f"{family},nw_frag=yes,ct_state=-trk,{REG_GUARDED}=0", guarded, base.track(base)))
    return flows


def _render_connections(direction: str) -> list[Flow]:
    """Verdicts by connection state, before and after the rules."""
    rules, accepted = _RULES[direction]
    mark = f"ct(commit,{ZONE},exec(set_field:{MARK_INVALID}->ct_mark))"
    flows = [rules.flow(100, "ct_state=+inv+trk", then=pipeline.DROPPED)]
    for answer in ("+rpl", "+rel"):
        state = f"ct_state={answer}+trk"
        flows.append(rules.flow(99, f"{state},ct_mark={MARK_INVALID}", then=pipeline.DROPPED))
        flows.append(rules.flow(98, f"{state},ct_mark=0", then=accepted))
    for family in _KEYWORD.values():
        # Established and matched by no rule: the rule that had allowed the connection is gone.
        flows.append(rules.flow(40, f"{family},ct_state=+est+trk,ct_mark=0", mark, then=pipeline.DROPPED))
        # The receiver's rules may pass it untracked; ACCEPTED_INGRESS then commits it for the sender.
        tracked = (f"set_field:1->{REG_TRACKED}",) if direction == "egress" else ()
        flows.append(rules.flow(5, f"{family},ct_state=-trk", *tracked, rules.track(rules)))
    return flows


def _render_commit(table: Table, onward: str, port: str = "") -> list[Flow]:
    """New connections are committed; for one port, by flows above those of all ports."""
    before, raised = (f"{port},", 10) if port else ("", 0)
    commit, unmark = f"ct(commit,{ZONE})", f"ct(commit,{ZONE},exec(set_field:0->ct_mark))"
    flows = []
    for family in _KEYWORD.values():
        flows.append(table.flow(90 + raised, f"{before}{family},ct_state=+new-rel-rpl+trk", commit, onward))
        marked = f"{before}{family},ct_state=+est-rel-rpl+trk,ct_mark={MARK_INVALID}"
        flows.append(table.flow(90 + raised, marked, unmark, onward))
        # The receiver's stateless rule passes it untracked, but the sender's firewall must recognise the reply.
        flows.append(table.flow(80 + raised, f"{before}{family},ct_state=-trk,{REG_TRACKED}=1", commit, onward))
    return flows


def _port(bridge: str, port: LocalPort, conjunctions: Mapping[str, int], ingress_entry: Table) -> Contribution:
    """A filtered port's addresses and rules. `conjunctions` has the conjunction ids of the remotes."""
    here = f"{REG_PORT}={port.ofport}"
    flows: set[Flow] = set()
    for mac, prefix in port.sources:
        family = ip_network(prefix).version
        match = f"{_KEYWORD[family]},{here},dl_src={mac},{_REMOTE['ingress', family]}={prefix}"
        flows.add(pipeline.BASE_EGRESS.flow(65, match, then=pipeline.RULES_EGRESS))
    conjunctive: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for rule in port.rules:
        table, accepted = _RULES[rule.direction]
        for match in render_matches(rule):
            full = f"{match},{here},ct_state={'+' if rule.stateful else '-'}trk"
            if rule.remote is None:
                flows.add(table.flow(PLAIN, full, then=accepted))
            else:
                conjunctive[rule.direction, full].add(conjunctions[rule.remote])
    if not port.stateful:
        # Never track its packets: connections of other ports are in the same zone, and would let them pass as replies.
        tables = (pipeline.RULES_EGRESS, pipeline.RULES_INGRESS)
        flows |= {table.flow(6, f"{here},ct_state=-trk", then=pipeline.DROPPED) for table in tables}
    if port.ingress_extensions:
        accepted_in = pipeline.ACCEPTED_INGRESS
        onward = enter_ingress(accepted_in, ingress_entry)
        flows |= {accepted_in.flow(85, here, onward), *_render_commit(accepted_in, onward, here)}
    return Contribution({bridge: (*flows, *_render_conjunctions(conjunctive, "2/2"))})


def render_matches(rule: EffectiveRule) -> list[str]:
    """The matches of a rule, without its port; none if the switch cannot match what the rule asks for."""
    protocol, match = rule.ip_protocol, _KEYWORD[rule.family]
    if rule.prefix is not None:
        if ip_network(rule.prefix).version != rule.family:
            return []
        match += f",{_REMOTE[rule.direction, rule.family]}={rule.prefix}"
    if protocol is None:
        return [match]
    match += f",nw_proto={protocol}"
    if protocol in (ICMP, ICMPV6):  # whose rules have type and code in place of ports
        match += f",icmp_type={rule.port_min}" if rule.port_min is not None else ""
        match += f",icmp_code={rule.port_max}" if rule.port_min is not None and rule.port_max is not None else ""
        return [match]
    if rule.port_min is None or rule.port_max is None:
        return [match]
    if protocol not in _WITH_PORTS:
        return []  # ports of DCCP or UDP-Lite cannot be matched; a flow without them would allow too much
    return [f"{match},tp_dst={value:#x}/{mask:#x}" for value, mask in cover_ports(rule.port_min, rule.port_max)]


@cached(maxsize=4096)
def cover_ports(first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The fewest (value, mask) pairs that match exactly the ports from `first` to `last`."""
    blocks = []
    while first <= last:
        # A block is aligned to its size: as large as its start allows, and not beyond the end.
        size = (first & -first) or 1 << _PORT_BITS
        while size > last - first + 1:
            size >>= 1
        blocks.append((first, (1 << _PORT_BITS) - size))
        first += size
    return tuple(blocks)


def _remotes(bridge: str, uses: Iterable[_Use], conjunctions: Mapping[str, int]) -> Contribution:
    """What happens to packets that match both dimensions of a remote group."""
    flows = []
    for direction, _, remote in uses:
        table, accepted = _RULES[direction]
        flows.append(table.flow(_CONJUNCTION, f"conj_id={conjunctions[remote]}", then=accepted))
    return Contribution({bridge: flows})


def _members(bridge: str, uses: Iterable[_Use], conjunctions: Mapping[str, int], members: Share) -> Contribution:
    """The flows of a share of the members."""
    used: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for direction, family, remote in uses:
        used[remote].append((direction, family))
    matches: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for remote, addresses in members:
        for address in addresses:
            network = ip_network(address, strict=False)
            for direction, family in used[remote]:
                if network.version == family:
                    match = f"{_KEYWORD[family]},{_REMOTE[direction, family]}={network}"
                    matches[direction, match].add(conjunctions[remote])
    return Contribution({bridge: _render_conjunctions(matches, "1/2")})


def _shares(remotes: Remotes) -> Iterator[tuple[int, Share]]:
    """The members of all remotes in numbered shares, of which a new member changes one.

    A group may have ten thousand members. By address, as all remotes of an address are in one flow.
    """
    shares: defaultdict[int, list[tuple[str, frozenset[str]]]] = defaultdict(list)
    for remote in sorted(remotes):
        found: list[list[str]] = [[] for _ in range(_SHARES)]
        for address in remotes[remote]:
            # Texts of one prefix belong to one share. Of a single address of IPv4 there is one text without a length.
            text = _canonical(address) if ":" in address or "/" in address else address
            found[hash(text) % _SHARES].append(address)  # the same as long as the process, as rendered shares are
        for number, addresses in enumerate(found):
            if addresses:
                shares[number].append((remote, frozenset(addresses)))
    for number in sorted(shares):
        yield number, tuple(shares[number])


@cached(maxsize=1 << 16)
def _canonical(prefix: str) -> str:
    network = ip_network(prefix, strict=False)
    return str(network.network_address if network.prefixlen == network.max_prefixlen else network)


def _render_conjunctions(matches: Mapping[tuple[str, str], set[int]], dimension: str) -> Iterator[Flow]:
    """One flow for each match, with all its conjunctions: a second flow of the same match would replace the first."""
    for (direction, match), numbers in matches.items():
        actions = (f"conjunction({number},{dimension})" for number in sorted(numbers))
        yield _RULES[direction][0].flow(_CONJUNCTION, match, *actions)
