"""Packets by which security groups are compared with Neutron's flows: at and beside the limits of every rule. Pure."""

import dataclasses
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_network
from typing import Final

from neutrino.agent.l2.desired import Desired
from neutrino.dataplane.conntrack.api import ICMP, ICMPV6, TCP, UDP
from neutrino.model.state import Port, Rule
from neutrino.model.trace import Packet

MOST: Final = 60  # packets of a port
OTHER_MAC: Final = "02:00:00:00:00:01"
OUTSIDE: Final[Mapping[int, str]] = {4: "198.51.100.77", 6: "2001:db8:ffff::77"}  # of no prefix that a rule is about
_SOURCE_PORT: Final = 40000
_USUAL: Final = ((TCP, 22), (TCP, 443), (UDP, 53), (ICMP, 8))
_LAST_PORT: Final = 65535


@dataclasses.dataclass(frozen=True)
class Sample:
    direction: str  # ingress: to the port
    packet: Packet


def samples_of(desired: Desired, port: Port) -> list[Sample]:
    """Those of all rules of the port's groups, and some that are usual."""
    found: dict[Sample, None] = {}
    for version, own in _addresses(port).items():
        for direction in ("ingress", "egress"):
            for protocol, number in _USUAL:
                found[_sample(port, own, direction, OUTSIDE[version], protocol, number)] = None
        for group_id in port.security_groups:
            group = desired.host_state.security_groups.get(group_id)
            for rule in group.rules if group is not None else ():
                if (rule.ethertype == "IPv6") == (version == 6):
                    found |= dict.fromkeys(_of_rule(desired, port, own, rule))
    return list(found)[:MOST]


def _addresses(port: Port) -> dict[int, str]:
    """One address of each IP version."""
    return {ip_address(one.ip_address).version: one.ip_address for one in reversed(port.fixed_ips)}


def _of_rule(desired: Desired, port: Port, own: str, rule: Rule) -> Iterator[Sample]:
    """In the rule's limits, one port above them, and from an address that it does not name."""
    version = ip_address(own).version
    others = [*_remotes(desired, rule, version), OUTSIDE[version]]
    protocol = rule.protocol if rule.protocol is not None else TCP
    for other in others:
        if protocol in (ICMP, ICMPV6):
            yield _sample(port, own, rule.direction, other, protocol, rule.port_min if rule.port_min is not None else 8)
            continue
        numbers = {rule.port_min or 12345, rule.port_max or 12345}
        if rule.port_max is not None and rule.port_max < _LAST_PORT:
            numbers.add(rule.port_max + 1)
        for number in sorted(numbers):
            yield _sample(port, own, rule.direction, other, protocol, number)


def _remotes(desired: Desired, rule: Rule, version: int) -> Iterator[str]:
    """An address that the rule names, if it names any."""
    named = rule.remote_ip_prefix
    key = f"group:{rule.remote_group_id}" if rule.remote_group_id else f"addresses:{rule.remote_address_group_id}"
    members = sorted(desired.remotes.get(key, ()))
    for prefix in [named] if named else members:
        network = ip_network(prefix, strict=False)
        if network.version == version:
            yield str(network[0] if network.num_addresses == 1 else network[1])
            return


def _sample(port: Port, own: str, direction: str, other: str, protocol: int, number: int) -> Sample:
    six = ":" in own
    protocol = ICMPV6 if six and protocol == ICMP else protocol
    number = 128 if protocol == ICMPV6 and number == 8 else number
    into = direction == "ingress"
    has_ports = protocol not in (ICMP, ICMPV6)
    return Sample(
        direction,
        Packet(
            eth_src=OTHER_MAC if into else port.mac_address,
            eth_dst=port.mac_address if into else OTHER_MAC,
            source=other if into else own,
            destination=own if into else other,
            protocol=protocol,
            source_port=_SOURCE_PORT if has_ports else 0,
            destination_port=number,
        ),
    )
