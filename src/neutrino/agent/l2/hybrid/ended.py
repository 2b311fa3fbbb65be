"""Which of a port's connections no rule allows any more: the rules asked in Python what the kernel asks them of packets.

The rules on the bridge end a connection at the next packet of the side that opened it. Where only the other side talks,
none comes. To forget such connections would not end them where the port may send what it likes: its next packet would open
them again, the other way round. So they are marked, and the marked are those that no rule allows: a connection that a
narrower rule still allows must not wait for a packet of its opening side.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from neutrino.agent.l2.desired import EffectiveRule, LocalPort
from neutrino.agent.l2.hybrid.matches import protocol_of, render_match
from neutrino.agent.l2.hybrid.plan import Audit
from neutrino.agent.l2.hybrid.render import ENDED
from neutrino.dataplane.conntrack.api import Connection, holds, within
from neutrino.dataplane.iptables.api import canonical_member


def ended(
    audits: Iterable[Audit], remotes: Mapping[str, frozenset[str]], connections: Iterable[Connection]
) -> tuple[Connection, ...]:
    """The connections to be marked; others than those in the ports' zones are passed over."""
    ports = {audit.zone: audit.port for audit in audits}
    known = _Remotes(remotes)
    asked: dict[int, _Rules] = {}
    found = []
    for entry in connections:
        if entry.zone not in ports or entry.mark == ENDED:
            continue
        if entry.zone not in asked:
            asked[entry.zone] = _Rules(ports[entry.zone], known)
        if not asked[entry.zone].allow(entry):
            found.append(entry)
    return tuple(found)


class _Remotes:
    """Groups, each made ready when it is first asked about: they are large, and many ports name the same ones."""

    def __init__(self, remotes: Mapping[str, frozenset[str]]) -> None:
        self._given = remotes
        self._ready: dict[str, tuple[frozenset[str], tuple[str, ...]]] = {}

    def has(self, remote: str, address: str) -> bool:
        if remote not in self._ready:
            members = [canonical_member(member) for member in self._given.get(remote, ())]
            prefixes = tuple(member for member in members if "/" in member)
            self._ready[remote] = frozenset(members).difference(prefixes), prefixes
        addresses, prefixes = self._ready[remote]
        return address in addresses or any(holds(prefix, address) for prefix in prefixes)


class _Rules:
    def __init__(self, port: LocalPort, remotes: _Remotes) -> None:
        # A rule that iptables cannot express is not there, and allows nothing.
        self._rules = [rule for rule in port.rules if render_match(rule) is not None]
        self._own = [prefix for _, prefix in port.sources]
        self._remotes = remotes

    def allow(self, connection: Connection) -> bool:
        ways = (
            ("egress", connection.source, connection.destination),
            ("ingress", connection.destination, connection.source),
        )
        return any(
            self._is_own(local) and any(self._allows(rule, direction, remote, connection) for rule in self._rules)
            for direction, local, remote in ways
        )

    def _is_own(self, address: str) -> bool:
        return any(holds(prefix, address) for prefix in self._own)

    def _allows(self, rule: EffectiveRule, direction: str, remote: str, connection: Connection) -> bool:
        if rule.direction != direction or rule.family != connection.family:
            return False
        protocol = protocol_of(rule)
        if protocol is not None:
            low, high = (-1 if number is None else number for number in (rule.port_min, rule.port_max))
            if protocol != connection.protocol or not within(connection, low, high):
                return False
        if rule.remote is not None:
            return self._remotes.has(rule.remote, remote)
        return rule.prefix is None or holds(rule.prefix, remote)
