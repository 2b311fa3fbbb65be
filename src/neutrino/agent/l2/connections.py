"""Connections that a change of rules has ended: flushed in the switch's tracker, marked in the kernel's.

Both firewalls end a connection at the next packet of the side that opened it: it is marked, and then both directions are
dropped. Where only the other side sends, such as a stream after one request, there is no such packet; so the connections
that no rule allows any more are ended here.

The native firewall flushes the connections of a removed rule, member or port. Not where the port's rules let it send to the
other side anyway: there its next packet would open the connection in the other direction, and packets that the removed rule
had allowed would pass as replies. Unflushed, the connection is marked. Flushing a connection that another rule still
allows does no harm: its next packet opens it again.

The addresses of ports. A connection lets replies pass, so the next port with an address must not inherit those of the last
one. They are flushed when a port loses an address, and when a filtered port gets one that no port here had: it may have
been lost while no agent was running. An agent that was just started knows the addresses of filtered ports by the flows of
the agent before it (`applied_addresses`).

The hybrid firewall has no record of former rules: it reads the connections of a changed port, evaluates the port's rules
here, and marks what they do not allow. A connection that a narrower rule still allows stays unmarked: it must not wait for
a packet of its opening side.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Final, NamedTuple

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort, Remotes
from neutrino.agent.l2.extension_api import cookie_of, port_owner
from neutrino.agent.l2.hybrid.render import ENDED, render_match
from neutrino.caches import cached
from neutrino.dataplane.conntrack.api import Connection, ConntrackFlush, holds, within
from neutrino.dataplane.iptables.api import canonical_member
from neutrino.dataplane.openflow.api import Flow

_ANY: Final = {"ip": "0.0.0.0/0", "ipv6": "::/0"}
_ZONE: Final = re.compile(rf"set_field:(\w+)->{pipeline.REG_NET}\b")


def plan_flushes(before: Desired, after: Desired, *, gained: bool = True) -> tuple[ConntrackFlush, ...]:
    """The connections of the native firewall to flush. Not `gained`: `before` may lack ports that were here."""
    now = {port.id: port for port in after.ports}
    same_remotes = before.remotes == after.remotes
    # Once for all ports and rules: a group may have ten thousand members.
    left = {name: members - after.remotes.get(name, frozenset()) for name, members in before.remotes.items()}
    flushes = set[ConntrackFlush]()
    if before.ports != after.ports:
        flushes.update(plan_address_flushes(addresses_of(before.ports), after.ports, gained=gained))
    for port in before.ports:
        present = now.get(port.id)
        if not port.filtered or (present is port and same_remotes):  # cached: an unchanged port is the same object
            continue
        if present is None or present.vlan != port.vlan:
            continue  # all its addresses are lost
        kept = present.rules if present.filtered else port.rules  # an unfiltered port allows everything
        for rule in port.rules:
            if not _allows_replies(kept, rule):
                flushes.update(_between(port, rule, _lost(rule, kept, before.remotes, left)))
    return tuple(sorted(flushes))


class HeldAddress(NamedTuple):
    """An address or prefix of a port of this host."""

    owner: int  # the cookie of the port's flows
    zone: int
    prefix: str


def addresses_of(ports: Iterable[LocalPort]) -> frozenset[HeldAddress]:
    return frozenset(
        HeldAddress(owner, port.vlan, prefix)
        for port, owner in ((port, cookie_of(port_owner(port))) for port in ports)
        for prefix in port.addresses
    )


def plan_address_flushes(
    before: Collection[HeldAddress], ports: Iterable[LocalPort], *, gained: bool = True
) -> Iterator[ConntrackFlush]:
    """`ports`: of this host from now on. Not `gained`: of lost addresses only."""
    now = tuple(ports)
    # Of a port that arrives by live migration, connections with ports of this host go on.
    settled = [port for port in now if port.filtered and not port.standby and not port.migrating]
    known = {(each.zone, each.prefix) for each in before}
    # A prefix of address pairs is not one port's: connections of others in it are left alone.
    new = {each for each in addresses_of(settled if gained else ()) if (each.zone, each.prefix) not in known}
    new = {each for each in new if _is_single(each.prefix)}
    for _, zone, prefix in {*before} - addresses_of(now) | new:
        family, local = ip_network(prefix).version, _text(prefix)
        yield from (ConntrackFlush(zone, family, direction, local) for direction in ("ingress", "egress"))


def applied_addresses(flows: Iterable[Flow]) -> frozenset[HeldAddress]:
    """The addresses of filtered ports by the flows of a bridge, which outlive an agent."""
    zones: dict[int, int] = {}
    sources: list[tuple[int, str]] = []
    for flow in flows:
        if flow.table == pipeline.TRANSIENT.number and "in_port=" in flow.match:
            found = _ZONE.search(flow.actions)
            zones |= {flow.cookie: int(found[1], 0)} if found is not None else {}
        elif flow.table == pipeline.BASE_EGRESS.number and f"{pipeline.REG_PORT}=" in flow.match:
            family, *rest = flow.match.split(",")
            if family in _ANY:
                fields = dict(part.partition("=")[::2] for part in rest)
                sources.append((flow.cookie, fields.get("nw_src") or fields.get("ipv6_src") or _ANY[family]))
    return frozenset(
        HeldAddress(cookie, zones[cookie], str(ip_network(prefix, strict=False)))
        for cookie, prefix in sources
        if cookie in zones
    )


def _is_single(prefix: str) -> bool:
    network = ip_network(prefix)
    return network.prefixlen == network.max_prefixlen


def _text(prefix: str) -> str:
    """Without the length of a single address."""
    return prefix.partition("/")[0] if _is_single(prefix) else prefix


def _lost(rule: EffectiveRule, kept: frozenset[EffectiveRule], before: Remotes, left: Remotes) -> frozenset[str]:
    """The other sides with which a rule does not allow connections any more; an empty text is any. `left`: members that
    have left their group."""
    if rule.remote is None:
        return frozenset() if rule in kept else frozenset({rule.prefix or ""})
    return (left if rule in kept else before).get(rule.remote, frozenset())


def _allows_replies(kept: Iterable[EffectiveRule], rule: EffectiveRule) -> bool:
    """Whether the remaining rules allow, as new connections, the replies to what a rule allows."""
    return any(
        other.direction != rule.direction
        and other.family == rule.family
        and other.protocol in (None, rule.protocol)
        and other.port_min is None  # replies go to any port of the other side
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


def ended_connections(
    audits: Mapping[int, LocalPort], remotes: Remotes, connections: Iterable[Connection]
) -> tuple[Connection, ...]:
    """The connections of the audited ports' zones that no rule allows."""
    return tuple(
        entry
        for entry in connections
        if entry.zone in audits and entry.mark != ENDED and not _is_allowed(entry, audits[entry.zone], remotes)
    )


def _is_allowed(connection: Connection, port: LocalPort, remotes: Remotes) -> bool:
    ends = {
        "egress": (connection.source, connection.destination),
        "ingress": (connection.destination, connection.source),
    }
    return any(
        any(holds(prefix, local) for _, prefix in port.sources)
        and any(rule.direction == direction and _allows(rule, remote, connection, remotes) for rule in port.rules)
        for direction, (local, remote) in ends.items()
    )


def _allows(rule: EffectiveRule, remote: str, connection: Connection, remotes: Remotes) -> bool:
    # A rule that iptables cannot express is not applied, and allows nothing.
    if rule.family != connection.family or render_match(rule) is None:
        return False
    if rule.ip_protocol is not None:
        low, high = (-1 if number is None else number for number in (rule.port_min, rule.port_max))
        if rule.ip_protocol != connection.protocol or not within(connection, low, high):
            return False
    if rule.remote is not None:
        addresses, prefixes = _parsed(remotes.get(rule.remote, frozenset()))
        return remote in addresses or any(holds(prefix, remote) for prefix in prefixes)
    return rule.prefix is None or holds(rule.prefix, remote)


@cached(maxsize=256)  # groups are large, and shared by many ports
def _parsed(members: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The members of a remote group that are addresses, and those that are prefixes."""
    canonical = [canonical_member(member) for member in members]
    prefixes = tuple(member for member in canonical if "/" in member)
    return frozenset(canonical).difference(prefixes), prefixes
