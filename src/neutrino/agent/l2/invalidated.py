"""Connections that a change of rules has ended, to be removed from conntrack.

The flows themselves end a connection at the next packet of the side that opened it. Where only the other side talks, such
as a stream that was asked for once, none comes; so what a removed rule, member or port had allowed is flushed too.
Flushing a connection that another rule still allows costs it nothing: its next packet opens it again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort


@dataclasses.dataclass(frozen=True, order=True)
class ConntrackFlush:
    """The connections of a zone between two addresses or prefixes; an empty remote is any, a protocol of -1 is any."""

    zone: int
    family: int
    direction: str  # of the connection's first packet, as the port sees it
    local: str
    remote: str = ""
    protocol: int = -1

    def text(self) -> str:
        """A line of a plan."""
        protocol = "any protocol" if self.protocol < 0 else f"protocol {self.protocol}"
        return f"flush zone {self.zone} {self.direction} {self.local} {self.remote or 'any'} {protocol}"


def plan_flushes(before: Desired, after: Desired) -> tuple[ConntrackFlush, ...]:
    now = {port.id: port for port in after.ports}
    flushes: set[ConntrackFlush] = set()
    for port in before.ports:
        if not port.filtered:
            continue
        present = now.get(port.id)
        if present is None or present.vlan != port.vlan:
            flushes.update(_of_port(port))
            continue
        kept = present.rules if present.filtered else port.rules
        for rule in port.rules:
            if rule not in kept:
                flushes.update(_of_rule(port, rule, before))
            elif rule.remote is not None:
                lost = before.remotes.get(rule.remote, frozenset()) - after.remotes.get(rule.remote, frozenset())
                flushes.update(_between(port, rule, frozenset(lost)))
    return tuple(sorted(flushes))


def _addresses(port: LocalPort, family: int) -> list[str]:
    """The addresses of a port, and the prefixes of its address pairs."""
    own = {prefix for _, prefix in port.sources if (":" in prefix) == (family == 6)}
    return sorted(prefix.removesuffix("/32" if family == 4 else "/128") for prefix in own)


def _of_port(port: LocalPort) -> Iterator[ConntrackFlush]:
    for family in (4, 6):
        for local in _addresses(port, family):
            for direction in ("ingress", "egress"):
                yield ConntrackFlush(port.vlan, family, direction, local)


def _of_rule(port: LocalPort, rule: EffectiveRule, before: Desired) -> Iterator[ConntrackFlush]:
    if not rule.stateful:
        return  # it made no connections
    if rule.remote is not None:
        yield from _between(port, rule, before.remotes.get(rule.remote, frozenset()))
        return
    for local in _addresses(port, rule.family):
        yield ConntrackFlush(port.vlan, rule.family, rule.direction, local, rule.prefix or "", _protocol(rule))


def _between(port: LocalPort, rule: EffectiveRule, remotes: frozenset[str]) -> Iterator[ConntrackFlush]:
    for remote in remotes:
        if (":" in remote) == (rule.family == 6) and rule.stateful:
            for local in _addresses(port, rule.family):
                yield ConntrackFlush(port.vlan, rule.family, rule.direction, local, remote, _protocol(rule))


def _protocol(rule: EffectiveRule) -> int:
    if rule.protocol is None:
        return -1
    return 58 if rule.family == 6 and rule.protocol == 1 else rule.protocol
