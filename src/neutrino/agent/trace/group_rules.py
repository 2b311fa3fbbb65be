"""Which rule of a port's security groups allows a packet. Pure.

Flows do not tell: rules of several groups that match the same packets are one flow. So the rules themselves are evaluated,
and only those are named that can be behind the flow that matched.
"""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from neutrino.agent.l2.desired import Desired
from neutrino.agent.l2.extension_api import stable_numbers
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6
from neutrino.model.state import Port, Rule
from neutrino.model.trace import Packet


def allowing(
    desired: Desired, port: Port, packet: Packet, direction: str, conjunction: int | None
) -> Iterator[tuple[str, Rule]]:
    """Group ids and rules that allow a packet; those with a remote group for a conjunction, else those without."""
    wanted = None
    if conjunction is not None:
        remotes = {number: name for name, number in stable_numbers(desired.remotes, range(1, 1 << 32)).items()}
        wanted = remotes.get(conjunction, "")
    for group_id in port.security_groups:
        group = desired.host_state.security_groups.get(group_id)
        for rule in group.rules if group is not None else ():
            if rule.direction == direction and _remote(rule) == wanted and _matches(rule, packet):
                yield group_id, rule


def allowing_any(desired: Desired, port: Port, packet: Packet, direction: str) -> Iterator[tuple[str, Rule]]:
    """Group ids and rules that allow a packet, whichever flow or chain they are in."""
    other = ip_address(packet.source if direction == "ingress" else packet.destination)
    for group_id in port.security_groups:
        group = desired.host_state.security_groups.get(group_id)
        for rule in group.rules if group is not None else ():
            if rule.direction == direction and _matches(rule, packet):
                members = desired.remotes.get(_remote(rule) or "", frozenset())
                if _remote(rule) is None or any(other in ip_network(member, strict=False) for member in members):
                    yield group_id, rule


def describe(rule: Rule, group_id: str) -> str:
    remote = _remote(rule)
    kind, _, key = remote.partition(":") if remote else ("", "", "")
    source = {"group": f" with remote group {key}", "addresses": f" with remote address group {key}"}.get(kind, "")
    return f"rule {rule.id} of security group {group_id}{source} allows it"


def _remote(rule: Rule) -> str | None:
    if rule.remote_group_id is not None:
        return f"group:{rule.remote_group_id}"
    return f"addresses:{rule.remote_address_group_id}" if rule.remote_address_group_id is not None else None


def _matches(rule: Rule, packet: Packet) -> bool:
    six = ":" in packet.source
    if (rule.ethertype == "IPv6") != six:
        return False
    other = packet.source if rule.direction == "ingress" else packet.destination
    if rule.remote_ip_prefix and ip_address(other) not in ip_network(rule.remote_ip_prefix, strict=False):
        return False
    protocol = ICMPV6 if six and rule.protocol == ICMP else rule.protocol
    if protocol is not None and protocol != packet.protocol:
        return False
    if packet.protocol in (ICMP, ICMPV6) and protocol is not None:
        return rule.port_min in (None, packet.destination_port) and rule.port_max in (None, packet.icmp_code)
    if rule.port_min is not None and rule.port_max is not None:
        return rule.port_min <= packet.destination_port <= rule.port_max
    return True
