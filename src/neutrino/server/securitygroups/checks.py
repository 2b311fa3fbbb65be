"""Validation of security group rules, and their uniqueness key. Pure.

A rule's `identity` is its meaning as text, which is unique within a group in the database: the name and the number of a
protocol, or no prefix and the prefix of all addresses, give the same identity. A prefix with host bits is kept as written,
so it is another rule than the one without them.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from neutrino.model.objects import Values
from neutrino.server import errors
from neutrino.server.api.resources.common import PROTOCOLS, protocol_number

IPV4, IPV6 = "IPv4", "IPv6"
INGRESS, EGRESS = "ingress", "egress"
ICMP, ICMP_V6 = 1, 58
WITH_PORTS: Final = {
    number: name for name, number in PROTOCOLS.items() if name in {"tcp", "udp", "udplite", "sctp", "dccp"}
}
ONLY_IPV6: Final = frozenset(number for name, number in PROTOCOLS.items() if "v6" in name)
ANYWHERE: Final = frozenset({"0.0.0.0/0", "::/0"})
ALL_PORTS: Final = (1, 65535)


@dataclass(frozen=True, slots=True)
class Rule:
    """A valid rule, in the form in which it is stored and shown."""

    direction: str
    ethertype: str
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    normalized_cidr: str | None = None
    remote_group_id: str | None = None
    remote_address_group_id: str | None = None

    @property
    def identity(self) -> str:
        protocol = "any" if self.protocol is None else protocol_number(self.protocol)
        ports = f"{_text(self.port_range_min)}-{_text(self.port_range_max)}"
        return f"{self.direction} {self.ethertype} {protocol} {ports} {self._remote()}"

    def _remote(self) -> str:
        if self.remote_group_id is not None:
            return f"group:{self.remote_group_id}"
        if self.remote_address_group_id is not None:
            return f"addresses:{self.remote_address_group_id}"
        if self.remote_ip_prefix is None or self.remote_ip_prefix in ANYWHERE:
            return "anywhere"
        return self.remote_ip_prefix


def check_rule(values: Values) -> Rule:
    """The rule of these values, which have the right types already; an error if they contradict each other."""
    ethertype, prefix = values["ethertype"], values["remote_ip_prefix"]
    protocol = shown_protocol(values["protocol"], ethertype)
    ports = values["port_range_min"], values["port_range_max"]
    if ports == ALL_PORTS:  # the same rule as one without ports, so it must have the same identity
        ports = None, None
    check_ports(protocol, *ports)
    network = _network(ethertype, prefix)
    if ethertype == IPV4 and protocol is not None and protocol_number(protocol) in ONLY_IPV6:
        raise errors.SecurityGroupEthertypeConflictWithProtocol(ethertype=ethertype, protocol=protocol)
    remotes = prefix, values["remote_group_id"], values["remote_address_group_id"]
    if sum(remote is not None for remote in remotes) > 1:
        raise errors.SecurityGroupMultipleRemoteEntites()
    return Rule(values["direction"], ethertype, protocol, *ports, prefix, network, *remotes[1:])


def shown_protocol(protocol: str | None, ethertype: str) -> str | None:
    """The protocol as shown: ICMP of an IPv6 rule is ICMPv6, under whichever of its names or numbers it was given."""
    if ethertype != IPV6:
        return protocol
    if protocol in {"icmp", "icmpv6"}:
        return "ipv6-icmp"
    return str(ICMP_V6) if protocol == str(ICMP) else protocol


def check_ports(protocol: str | None, low: int | None, high: int | None) -> None:
    """Refuse ports for protocols that have none; for ICMP the two numbers are its type and code."""
    if low is None and high is None:
        return
    if protocol is None:
        raise errors.SecurityGroupProtocolRequiredWithPorts()
    number = protocol_number(protocol)
    if number in WITH_PORTS:
        if low == 0 or high == 0:
            raise errors.SecurityGroupInvalidPortValue(port=0)
        if low is None or high is None or low > high:
            raise errors.SecurityGroupInvalidPortRange()
    elif number in {ICMP, ICMP_V6}:
        _check_icmp(low, high)
    else:
        raise errors.SecurityGroupInvalidProtocolForPort(
            protocol=protocol, protocols=", ".join(sorted(WITH_PORTS.values()))
        )


def _check_icmp(kind: int | None, code: int | None) -> None:
    for field, attribute, value in (("type", "port_range_min", kind), ("code", "port_range_max", code)):
        if value is not None and value > 255:
            raise errors.SecurityGroupInvalidIcmpValue(field=field, attr=attribute, value=value)
    if kind is None:
        raise errors.SecurityGroupMissingIcmpType(value=code)


def _network(ethertype: str, prefix: str | None) -> str | None:
    """The network of a prefix, without host bits."""
    if prefix is None:
        return None
    address = ipaddress.ip_interface(prefix)
    if ethertype != f"IPv{address.version}":
        raise errors.SecurityGroupRuleParameterConflict(ethertype=ethertype, cidr=prefix)
    return str(address.network)


def check_bulk(items: Sequence[Values]) -> list[Rule]:
    """The rules of one request, which must be for one group and one project."""
    if len({item["security_group_id"] for item in items}) > 1:
        raise errors.SecurityGroupNotSingleGroupRules()
    if len({item["project_id"] for item in items}) > 1:
        raise errors.SecurityGroupRulesNotSingleProject()
    return [check_rule(item) for item in items]


def refuse_repeated(rules: Sequence[Rule]) -> None:
    if len({rule.identity for rule in rules}) < len(rules):
        raise errors.DuplicateSecurityGroupRuleInPost()


def _text(port: int | None) -> str:
    return "" if port is None else str(port)
