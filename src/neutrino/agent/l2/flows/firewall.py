"""The native firewall: security groups as flows, with the switch's own connection tracking.

Out of a filtered port: BASE_EGRESS lets no instance play DHCP server or router, lets it ask for an address, and checks
that the source address is the port's. RULES_EGRESS sees the packet twice. The first time it is untracked: neighbour
discovery and DHCP requests pass, and so does what a stateless rule allows; everything else asks conntrack, in the zone
of its network, and comes back tracked. Now replies and errors of living connections pass; packets in the direction
in which a connection was opened, the first one and all later ones, must be allowed by a rule. ACCEPT_OR_INGRESS then looks
whether the receiver is a filtered port here; if not, ACCEPTED_EGRESS commits a new connection.

In fragments a flow sees no ports, so an answer of a DHCP server in two pieces would be a datagram like any other. Therefore
BASE_EGRESS has conntrack put fragments together, looks how the whole would open a connection, and forgets the
connection again: whatever comes after judges the packet as before.

Into a filtered port: BASE_INGRESS lets ARP, neighbour discovery and DHCP answers pass, RULES_INGRESS works like its
counterpart, and ACCEPTED_INGRESS commits a new connection and delivers.

As rules are asked for every packet of the opening direction, a rule's removal ends connections: the next such packet
finds no rule, and marks the connection. Replies of a marked connection are dropped; a rule that allows it again takes the
mark away. A connection on which only the answering side talks is found in conntrack and removed (see `invalidated`).

Rules that name a group or an address group as remote are in `conjunctions`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from ipaddress import ip_network

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import EffectiveRule, LocalPort
from neutrino.agent.l2.flows.port_ranges import cover
from neutrino.agent.l2.pipeline import MARK_INVALID, REG_GUARDED, REG_PORT, REG_TRACKED, ZONE, Table
from neutrino.dataplane.openflow.api import Flow

PLAIN, CONJUNCTION = 77, 70
_KEYWORD = {4: "ip", 6: "ipv6"}
_ICMP, _ICMPV6, _TCP, _UDP, _SCTP = 1, 58, 6, 17, 132
_WITH_PORTS = {_TCP: "tcp", _UDP: "udp", _SCTP: "sctp"}

# Multicast listener reports, router solicitation, neighbour solicitation and advertisement.
_NEIGHBOUR_OUT = (131, 132, 133, 135, 136, 143)
# The same, and what routers send: listener queries and router advertisements.
_NEIGHBOUR_IN = (130, 131, 132, 134, 135, 136, 143)


def _rules_table(direction: str) -> tuple[Table, Table]:
    """The table of a direction's rules, and where it sends what they allow."""
    if direction == "egress":
        return pipeline.RULES_EGRESS, pipeline.ACCEPT_OR_INGRESS
    return pipeline.RULES_INGRESS, pipeline.ACCEPTED_INGRESS


def accept(direction: str, match: str) -> Flow:
    """What a completed conjunction does."""
    table, accepted = _rules_table(direction)
    return table.flow(CONJUNCTION, match, then=accepted)


def rules_table(direction: str) -> Table:
    return _rules_table(direction)[0]


def render_base(permitted_ethertypes: Iterable[int] = ()) -> tuple[Flow, ...]:
    """What holds for all filtered ports; their number changes nothing here."""
    permitted = [f"dl_type={ether_type:#x}" for ether_type in sorted(permitted_ethertypes)]
    return (
        *_render_base_egress(permitted),
        *_render_base_ingress(permitted),
        *_render_connections("egress"),
        *_render_connections("ingress"),
        *_render_commit(pipeline.ACCEPTED_EGRESS, pipeline.ACCEPTED_EGRESS.goto(pipeline.ACCEPTED_EGRESS_NORMAL)),
        *_render_commit(pipeline.ACCEPTED_INGRESS, pipeline.OUTPUT_TO_PORT),
    )


def _render_base_egress(permitted: list[str]) -> list[Flow]:
    base, rules, accepted = pipeline.BASE_EGRESS, pipeline.RULES_EGRESS, pipeline.ACCEPT_OR_INGRESS
    forbidden = ("udp,tp_src=67,tp_dst=68", "udp6,tp_src=547,tp_dst=546", "icmp6,icmp_type=134")
    # Before it has an address, a machine asks for one and whether it is free. ARP was checked in ARP_SPOOFING. One that
    # arrives by live migration is announced by RARP, from which switches outside learn where its MAC is now.
    unaddressed = (
        "arp",
        "dl_type=0x8035",
        "udp,nw_src=0.0.0.0,tp_src=68,tp_dst=67",
        *(f"icmp6,ipv6_src=::,icmp_type={kind}" for kind in (133, 135, 143)),
        *permitted,
    )
    known = [f"icmp6,icmp_type={kind}" for kind in _NEIGHBOUR_OUT]
    known += ["udp,tp_src=68,tp_dst=67", "udp6,tp_src=546,tp_dst=547"]
    return [
        *_render_fragments(),
        *(base.flow(95, match, then=pipeline.DROPPED) for match in forbidden),
        *(base.flow(90, match, then=accepted) for match in unaddressed),
        *(rules.flow(110, f"{match},ct_state=-trk", then=accepted) for match in known),
    ]


def _render_fragments() -> list[Flow]:
    """Tracked packets are in BASE_EGRESS for this alone. Neighbour discovery in fragments is invalid to conntrack."""
    base = pipeline.BASE_EGRESS
    flows = [base.flow(97, "ct_state=+inv+trk", then=pipeline.DROPPED)]
    for family, server, client in (("ip", 67, 68), ("ipv6", 547, 546)):
        udp = f"{family},ct_nw_proto={_UDP}"
        answers = (
            f"{udp},ct_state=-rpl-inv+trk,ct_tp_src={server},ct_tp_dst={client}",
            f"{udp},ct_state=+rpl-inv+trk,ct_tp_src={client},ct_tp_dst={server}",
        )
        flows += [base.flow(97, match, then=pipeline.DROPPED) for match in answers]
        flows.append(base.flow(96, f"{family},ct_state=+trk", "ct_clear", then=base))
        guarded = f"set_field:1->{REG_GUARDED}"
        flows.append(base.flow(96, f"{family},nw_frag=yes,ct_state=-trk,{REG_GUARDED}=0", guarded, base.track(base)))
    return flows


def _render_base_ingress(permitted: list[str]) -> list[Flow]:
    base = pipeline.BASE_INGRESS
    known = ["arp", *(f"icmp6,icmp_type={kind}" for kind in _NEIGHBOUR_IN), *permitted]
    known += ["udp,tp_src=67,tp_dst=68", "udp6,tp_src=547,tp_dst=546"]
    return [
        *(base.flow(100, match, then=pipeline.ACCEPTED_INGRESS) for match in known),
        *(base.flow(50, family, then=pipeline.RULES_INGRESS) for family in _KEYWORD.values()),
    ]


def _render_connections(direction: str) -> list[Flow]:
    """What becomes of packets by the state of their connection, before and after the rules are asked."""
    rules, accepted = _rules_table(direction)
    mark = f"ct(commit,{ZONE},exec(set_field:{MARK_INVALID}->ct_mark))"
    flows = [rules.flow(100, "ct_state=+inv+trk", then=pipeline.DROPPED)]
    for answer in ("+rpl", "+rel"):
        state = f"ct_state={answer}+trk"
        flows.append(rules.flow(99, f"{state},ct_mark={MARK_INVALID}", then=pipeline.DROPPED))
        flows.append(rules.flow(98, f"{state},ct_mark=0", then=accepted))
    for family in _KEYWORD.values():
        # No rule wanted it: a connection that one allowed before has lost that rule.
        flows.append(rules.flow(40, f"{family},ct_state=+est+trk,ct_mark=0", mark, then=pipeline.DROPPED))
        tracked = (f"set_field:1->{REG_TRACKED}",) if direction == "egress" else ()
        flows.append(rules.flow(5, f"{family},ct_state=-trk", *tracked, rules.track(rules)))
    return flows


def _render_commit(table: Table, onward: str) -> list[Flow]:
    commit, unmark = f"ct(commit,{ZONE})", f"ct(commit,{ZONE},exec(set_field:0->ct_mark))"
    flows = []
    for family in _KEYWORD.values():
        flows.append(table.flow(90, f"{family},ct_state=+new-rel-rpl+trk", commit, onward))
        marked = f"{family},ct_state=+est-rel-rpl+trk,ct_mark={MARK_INVALID}"
        flows.append(table.flow(90, marked, unmark, onward))
        # The receiver takes it without asking conntrack, but the sender waits for the reply.
        flows.append(table.flow(80, f"{family},ct_state=-trk,{REG_TRACKED}=1", commit, onward))
    return flows


def render_port(port: LocalPort, conjunctions: Mapping[str, int]) -> tuple[Flow, ...]:
    """A filtered port: its addresses and its rules. `conjunctions` numbers the remotes."""
    if not port.filtered:
        return ()
    return (*_render_sources(port), *_render_rules(port, conjunctions))


def _render_sources(port: LocalPort) -> list[Flow]:
    flows = []
    for mac, prefix in sorted(port.sources):
        family = ip_network(prefix).version
        field = "nw_src" if family == 4 else "ipv6_src"
        match = f"{_KEYWORD[family]},{REG_PORT}={port.ofport},dl_src={mac},{field}={prefix}"
        flows.append(pipeline.BASE_EGRESS.flow(65, match, then=pipeline.RULES_EGRESS))
    return flows


def _render_rules(port: LocalPort, conjunctions: Mapping[str, int]) -> list[Flow]:
    plain: set[Flow] = set()
    conjunctive: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for rule in port.rules:
        table, accepted = _rules_table(rule.direction)
        for match in render_matches(rule):
            full = f"{match},{REG_PORT}={port.ofport},ct_state={'+' if rule.stateful else '-'}trk"
            if rule.remote is None:
                plain.add(table.flow(PLAIN, full, then=accepted))
            else:
                conjunctive[rule.direction, full].add(conjunctions[rule.remote])
    if not port.stateful:
        # Another port's connections, which share the zone, are no reason to let its packets pass.
        untracked = f"{REG_PORT}={port.ofport},ct_state=-trk"
        tables = (pipeline.RULES_EGRESS, pipeline.RULES_INGRESS)
        plain |= {table.flow(6, untracked, then=pipeline.DROPPED) for table in tables}
    # Two remotes with the same ports are one match with two memberships: a second flow would replace the first.
    joined = [
        rules_table(direction).flow(CONJUNCTION, match, *(f"conjunction({number},2/2)" for number in sorted(numbers)))
        for (direction, match), numbers in conjunctive.items()
    ]
    return [*plain, *joined]


def render_matches(rule: EffectiveRule) -> list[str]:
    """The matches of a rule, without its port; none if the switch cannot look at what the rule asks for."""
    protocol = _ICMPV6 if rule.family == 6 and rule.protocol == _ICMP else rule.protocol
    match = _KEYWORD[rule.family]
    if rule.prefix is not None:
        if ip_network(rule.prefix).version != rule.family:
            return []
        match += f",{remote_field(rule.direction, rule.family)}={rule.prefix}"
    if protocol is None:
        return [match]
    match += f",nw_proto={protocol}"
    if protocol in (_ICMP, _ICMPV6):
        match += f",icmp_type={rule.port_min}" if rule.port_min is not None else ""
        match += f",icmp_code={rule.port_max}" if rule.port_min is not None and rule.port_max is not None else ""
        return [match]
    if rule.port_min is None or rule.port_max is None:
        return [match]
    if protocol not in _WITH_PORTS:
        return []  # ports of DCCP or UDP-Lite cannot be matched; to ignore them would allow more than was asked
    return [f"{match},tp_dst={value:#x}/{mask:#x}" for value, mask in cover(rule.port_min, rule.port_max)]


def remote_field(direction: str, family: int) -> str:
    """Where the other side's address stands."""
    if family == 4:
        return "nw_src" if direction == "ingress" else "nw_dst"
    return "ipv6_src" if direction == "ingress" else "ipv6_dst"
