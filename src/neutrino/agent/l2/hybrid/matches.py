"""A security-group rule as matches of iptables."""

from __future__ import annotations

from ipaddress import ip_network

from neutrino.agent.l2.desired import EffectiveRule
from neutrino.agent.l2.hybrid import names

ICMP, TCP, UDP, ICMPV6, SCTP = 1, 6, 17, 58, 132
_OWN_MATCH = {TCP: "tcp", UDP: "udp", SCTP: "sctp"}
_DCCP, _UDPLITE = 33, 136


def protocol_of(rule: EffectiveRule) -> int | None:
    return ICMPV6 if rule.family == 6 and rule.protocol == ICMP else rule.protocol


def icmp(kind: int, family: int, code: int | None = None) -> str:
    number = f"{kind}" if code is None else f"{kind}/{code}"
    if family == 4:
        return f"-p {ICMP} -m icmp --icmp-type {number}"
    return f"-p {ICMPV6} -m icmp6 --icmpv6-type {number}"


def udp(source: int, destination: int) -> str:
    return f"-p {UDP} -m udp --sport {source} --dport {destination}"


def render_match(rule: EffectiveRule) -> str | None:
    """The match of a rule, without its port; None where iptables cannot look at what the rule asks for.

    Such a rule allows nothing, rather than more than was asked.
    """
    remote = _render_remote(rule)
    kind = _render_kind(rule)
    if remote is None or kind is None:
        return None
    return " ".join(filter(None, [remote, kind]))


def _render_remote(rule: EffectiveRule) -> str | None:
    side = ("-s", "src") if rule.direction == "ingress" else ("-d", "dst")
    if rule.remote is not None:
        return f"-m set --match-set {names.address_set(rule.remote, rule.family)} {side[1]}"
    if rule.prefix is None:
        return ""
    return f"{side[0]} {rule.prefix}" if ip_network(rule.prefix).version == rule.family else None


def _render_kind(rule: EffectiveRule) -> str | None:
    protocol = protocol_of(rule)
    if protocol is None:
        return ""
    if protocol == 0:
        return None  # to iptables this number means every protocol
    if protocol in (ICMP, ICMPV6) and rule.port_min is not None:
        matched = ICMP if rule.family == 4 else ICMPV6
        return icmp(rule.port_min, rule.family, rule.port_max) if protocol == matched else None
    if rule.port_min is None or rule.port_max is None or protocol in (ICMP, ICMPV6):
        return f"-p {protocol}"
    ports = f"{rule.port_min}:{rule.port_max}" if rule.port_min != rule.port_max else f"{rule.port_min}"
    if protocol in _OWN_MATCH:
        return f"-p {protocol} -m {_OWN_MATCH[protocol]} --dport {ports}"
    if protocol in (_DCCP, _UDPLITE):
        return f"-p {protocol} -m multiport --dports {ports}"
    return None
