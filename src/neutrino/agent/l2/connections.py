"""Conntrack entries to flush after a change of rules, in the switch's connection tracker.

The flows end a connection at the next packet of the side that opened it: they mark it, and then drop both directions.
Where only the other side sends, such as a stream after one request, there is no such packet; so the connections of a
removed rule, member or port are flushed too.

Not where the port's rules let it send to the other side anyway: there its next packet would open the connection in the
other direction, and packets that the removed rule had allowed would pass as replies. Unflushed, the connection is marked.

Flushing a connection that another rule still allows does no harm: its next packet opens it again.
"""

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort
from neutrino.dataplane.conntrack.api import ConntrackFlush


def plan_flushes(before: Desired, after: Desired) -> tuple[ConntrackFlush, ...]:
    now = {port.id: port for port in after.ports}
    same_remotes = before.remotes == after.remotes
    flushes: set[ConntrackFlush] = set()
    for port in before.ports:
        present = now.get(port.id)
        if not port.filtered or (present is port and same_remotes):
            continue
        if present is None or present.vlan != port.vlan:
            flushes.update(_of_port(port))
            continue
        kept = present.rules if present.filtered else port.rules
        for rule in port.rules:
            if _allows_replies(kept, rule):
                continue
            if rule not in kept:
                flushes.update(_of_rule(port, rule, before))
            elif rule.remote is not None:
                lost = before.remotes.get(rule.remote, frozenset()) - after.remotes.get(rule.remote, frozenset())
                flushes.update(_between(port, rule, frozenset(lost)))
    return tuple(sorted(flushes))


def _allows_replies(kept: Iterable[EffectiveRule], rule: EffectiveRule) -> bool:
    """Whether the remaining rules allow, as new connections, the replies to what a rule allows."""
    return any(
        other.direction != rule.direction
        and other.family == rule.family
        and other.protocol in (None, rule.protocol)
        and other.port_min is None
        and (other.remote == rule.remote if other.remote is not None else _covers(other.prefix, rule.prefix))
        for other in kept
    )


def _covers(wide: str | None, narrow: str | None) -> bool:
    if wide is None or narrow is None:
        return wide is None
    outer, inner = ip_network(wide), ip_network(narrow)
    return outer.prefixlen <= inner.prefixlen and inner.network_address in outer


def _addresses(port: LocalPort, family: int) -> list[str]:
    """The addresses of a port and the prefixes of its address pairs."""
    own = {prefix for _, prefix in port.sources if (":" in prefix) == (family == 6)}
    return sorted(prefix.removesuffix("/32" if family == 4 else "/128") for prefix in own)


def _of_port(port: LocalPort) -> Iterator[ConntrackFlush]:
    for family in (4, 6):
        for local in _addresses(port, family):
            for direction in ("ingress", "egress"):
                yield ConntrackFlush(port.vlan, family, direction, local)


def _of_rule(port: LocalPort, rule: EffectiveRule, before: Desired) -> Iterator[ConntrackFlush]:
    if rule.remote is not None:
        yield from _between(port, rule, before.remotes.get(rule.remote, frozenset()))
    else:
        yield from _between(port, rule, frozenset({rule.prefix or ""}))


def _between(port: LocalPort, rule: EffectiveRule, remotes: frozenset[str]) -> Iterator[ConntrackFlush]:
    if not rule.stateful:
        return  # it opened no connections
    given = (rule.ip_protocol, rule.port_min, rule.port_max)
    protocol, low, high = (-1 if number is None else number for number in given)
    for remote in remotes:
        if remote and (":" in remote) != (rule.family == 6):
            continue
        for local in _addresses(port, rule.family):
            yield ConntrackFlush(port.vlan, rule.family, rule.direction, local, remote, protocol, low, high)
