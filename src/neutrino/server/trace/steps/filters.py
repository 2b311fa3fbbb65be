"""Security groups: which rule lets a packet pass at a port. Pure.

The rules of a security group all allow: a packet passes if any rule matches. Stateless rules come first, and what they
allow is not tracked: its replies need a rule of their own. What a stateful rule allows is tracked, and replies pass.
"""

from collections.abc import Iterator, Sequence

from neutrino.model.state import Rule, SecurityGroup
from neutrino.model.trace import Cause, Packet
from neutrino.server.trace.steps.walk import Walk, contains, named, of_port
from neutrino.server.trace.values import TracedPort

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
WITH_PORTS = (TCP, UDP, SCTP)
_ND = range(133, 138)  # types of router and neighbour discovery
_DHCP_REQUESTS = {(68, 67), (546, 547)}
_DHCP_REPLIES = {(67, 68), (547, 546)}
EGRESS, INGRESS = "egress", "ingress"
_CAUSES = {EGRESS: Cause.SECURITY_GROUP_EGRESS, INGRESS: Cause.SECURITY_GROUP_INGRESS}


def needs_no_rule(packet: Packet, direction: str) -> str:
    """What passes without a rule, in words: without it an instance has no address. Empty: all else."""
    if packet.protocol == ICMPV6 and packet.destination_port in _ND:
        return "neighbour discovery"
    ports = packet.source_port, packet.destination_port
    if packet.protocol == UDP and ports in (_DHCP_REQUESTS if direction == EGRESS else _DHCP_REPLIES):
        return "DHCP"
    return ""


# --- security groups --------------------------------------------------------------------------------------------------


def security_groups(walk: Walk, port: TracedPort, direction: str) -> None:
    kind = f"security-group-{direction}"
    if port.unfiltered:
        return walk.informs(kind, of_port(port), f"No security group applies to {of_port(port)}: {port.unfiltered}.")
    if word := needs_no_rule(walk.packet, direction):
        return walk.passes(kind, of_port(port), f"{word} passes without a rule.")
    groups = [g for g in map(walk.snapshot.security_groups.get, port.port.security_groups) if g is not None]
    for group, rule in _matching(walk, groups, direction, stateful=False):
        return walk.passes(kind, named(walk, "security_group", group.id), _allowed(walk, group, rule, "a stateless"))
    if port.id in walk.before.tracked:
        return walk.passes(kind, of_port(port), "It is a reply on a connection that the security groups have allowed.")
    for group, rule in _matching(walk, groups, direction, stateful=True):
        walk.tracked.add(port.id)
        return walk.passes(kind, named(walk, "security_group", group.id), _allowed(walk, group, rule))
    if not groups:
        text = f"Port {port.name or port.id} has port security and no security group: nothing passes."
        walk.drops(kind, of_port(port), _CAUSES[direction], text)
    names = ", ".join(str(named(walk, "security_group", group.id)) for group in groups)
    reply = " As the groups are stateless, a reply needs a rule too." if walk.packet.reply else ""
    text = f"No {direction} rule of {names} allows {words(walk.packet, direction)}.{reply}"
    walk.drops(kind, named(walk, "security_group", groups[0].id), _CAUSES[direction], text)


def _matching(
    walk: Walk, groups: Sequence[SecurityGroup], direction: str, *, stateful: bool
) -> Iterator[tuple[SecurityGroup, Rule]]:
    for group in groups:
        if group.stateful is stateful:
            for rule in group.rules:
                if rule.direction == direction and _matches(walk, rule, direction):
                    yield group, rule


def _allowed(walk: Walk, group: SecurityGroup, rule: Rule, kind: str = "") -> str:
    return f"{named(walk, 'security_group', group.id).title} allows it by {kind or 'its'} rule {rule.id}."


def _matches(walk: Walk, rule: Rule, direction: str) -> bool:
    packet = walk.packet
    if rule.ethertype != f"IPv{walk.version}":
        return False
    if rule.protocol is not None and not _same_protocol(rule.protocol, packet.protocol, walk.version):
        return False
    if rule.protocol is not None and not _ports_match(rule, packet):
        return False
    peer = packet.destination if direction == EGRESS else packet.source
    if rule.remote_ip_prefix is not None and not contains(rule.remote_ip_prefix, peer):
        return False
    if rule.remote_group_id is not None:
        members = walk.snapshot.members.get(rule.remote_group_id, frozenset())
        return any(contains(member.ip_address, peer) for member in members)
    if rule.remote_address_group_id is not None:
        return any(part.is_remote(rule, peer) for part in walk.snapshot.parts)
    return True


def _same_protocol(wanted: int, protocol: int, version: int) -> bool:
    return protocol == (ICMPV6 if version == 6 and wanted == ICMP else wanted)


def _ports_match(rule: Rule, packet: Packet) -> bool:
    if rule.port_min is None and rule.port_max is None:
        return True
    if packet.protocol in (ICMP, ICMPV6):  # type and code
        return (rule.port_min is None or rule.port_min == packet.destination_port) and (
            rule.port_max is None or rule.port_max == packet.icmp_code
        )
    if packet.protocol not in WITH_PORTS:
        return False  # the switch cannot match ports of other protocols: such a rule allows nothing
    first = rule.port_min if rule.port_min is not None else 0
    last = rule.port_max if rule.port_max is not None else 65535
    return first <= packet.destination_port <= last


# --- words ------------------------------------------------------------------------------------------------------------

_NAMES = {ICMP: "ICMP", TCP: "TCP", UDP: "UDP", ICMPV6: "ICMPv6", SCTP: "SCTP"}


def words(packet: Packet, direction: str = "") -> str:
    """A packet in words, with the side that a rule of this direction matches."""
    name = _NAMES.get(packet.protocol, f"IP protocol {packet.protocol}")
    if packet.protocol in WITH_PORTS:
        name += f" port {packet.destination_port}"
    elif packet.protocol in (ICMP, ICMPV6):
        name += f" type {packet.destination_port}"
    if direction == EGRESS:
        return f"{name} to {packet.destination}"
    if direction == INGRESS:
        return f"{name} from {packet.source}"
    return f"{name} from {packet.source} to {packet.destination}"
