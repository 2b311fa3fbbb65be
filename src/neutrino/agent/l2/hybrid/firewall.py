"""The hybrid firewall: security groups of ports with a Linux bridge of their own, as iptables rules on that bridge.

Rules end a connection at the next packet of the side that opened it; where only the other side sends, there is none.
Flushing such connections would not end them where the port may send anything: its next packet would open them again, in the
other direction. So they are marked, after the same rules were evaluated here: a connection that a narrower rule still
allows must not wait for a packet of its opening side.
"""

import dataclasses
import logging
from collections.abc import Iterable, Mapping

from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort
from neutrino.agent.l2.hybrid.plan import Audit, HybridPlan, plan_changes
from neutrino.agent.l2.hybrid.render import (
    ENDED,
    FAMILIES,
    ConflictingPorts,
    egress_chain,
    ingress_chain,
    is_our_chain,
    render_match,
)
from neutrino.dataplane.conntrack.api import Connection, ConntrackError, ConntrackFlush, MarkingConntrack, holds, within
from neutrino.dataplane.iptables.api import Iptables, IptablesError, Tables, canonical_member

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """Everything that the desired state is rendered from."""

    ports: tuple[LocalPort, ...]
    others: frozenset[str]  # plugged ports that must not talk
    remotes: Mapping[str, frozenset[str]]


@dataclasses.dataclass(frozen=True)
class Unfiltered:
    """Hybrid ports without a filter, which therefore must not talk."""

    ports: frozenset[str]
    reason: str


class HybridFirewall:
    """Blocking, and for one thread at a time.

    The actual state is read until it equals the desired one, and again when the desired one changes or after `forget`. So
    an unchanged host starts no processes, and one without hybrid ports looks once for stale rules.
    """

    def __init__(self, iptables: Iptables, conntrack: MarkingConntrack) -> None:
        self._iptables = iptables
        self._conntrack = conntrack
        self._filtered: frozenset[str] = frozenset()  # ports of the last reconciliation that succeeded
        self._settled: _Inputs | None = None  # those for which the actual state was right

    def forget(self) -> None:
        """Read the actual state again before the next plan."""
        self._settled = None

    def reconcile(self, desired: Desired, *, complete: bool) -> Unfiltered | None:
        """Plan and apply; the ports that have no filter, if any."""
        if not (complete or any(port.hybrid for port in desired.ports)):
            return None
        secured = frozenset(port.id for port in desired.ports if port.hybrid and port.secured)
        try:
            if not complete:
                rules = [self._iptables.read_rules(family) for family in FAMILIES]
                if any(map(_is_ours, rules)):
                    # The rules on the host are newer than the feed's cache: they stay, and ports without any wait.
                    chains = {name for tables in rules for chains in tables.values() for name in chains}
                    self._filtered = frozenset(
                        each for each in secured if {ingress_chain(each), egress_chain(each)} <= chains
                    )
                    missing = secured - self._filtered
                    return Unfiltered(missing, "the server has not sent its security groups yet") if missing else None
            difference = self.plan(desired)
            if difference:
                LOG.debug("%s", difference.text())
                self.apply(difference)
        except (IptablesError, ConntrackError, ConflictingPorts) as error:
            self.forget()
            return Unfiltered(
                secured - self._filtered, str(error)
            )  # ports that were filtered keep the filter they have
        self._filtered = secured
        return None

    def plan(self, desired: Desired) -> HybridPlan:
        inputs = _inputs(desired)
        if inputs == self._settled:
            return HybridPlan()
        rules = {family: self._iptables.read_rules(family) for family in FAMILIES}
        sets = self._iptables.read_sets()
        # Without hybrid ports and rules, the integration bridge alone blocks the ports that must not talk.
        blocked = inputs.others if inputs.ports or any(map(_is_ours, rules.values())) else frozenset()
        settings = self._iptables.read_settings() if inputs.ports else {}
        difference = plan_changes(inputs.ports, blocked, inputs.remotes, rules, sets, settings)
        self._settled = None if difference else inputs
        return difference

    def apply(self, plan: HybridPlan) -> None:
        self._settled = None
        self._iptables.enable(plan.settings)
        self._iptables.restore_sets(plan.sets)
        for family, text in plan.rules.items():
            self._iptables.restore_rules(family, text)
        self._conntrack.flush(
            ConntrackFlush(zone, family, "ingress", "") for zone in plan.fresh_zones for family in FAMILIES
        )
        self._end_connections(plan)
        self._iptables.restore_sets(plan.unused_sets)

    def _end_connections(self, plan: HybridPlan) -> None:
        there = self._conntrack.read(audit.zone for audit in plan.audits)
        self._conntrack.mark(ended_connections(plan.audits, plan.remotes, there), ENDED)


def _inputs(desired: Desired) -> _Inputs:
    ports = tuple(port for port in desired.ports if port.hybrid)
    named = {rule.remote for port in ports for rule in port.rules if rule.remote is not None}
    remotes = {name: desired.remotes.get(name, frozenset()) for name in named}
    return _Inputs(ports, frozenset(desired.problems), remotes)


def _is_ours(tables: Tables) -> bool:
    return any(is_our_chain(chain) for chains in tables.values() for chain in chains)


# --- connections that are not allowed any more ---


def ended_connections(
    audits: Iterable[Audit], remotes: Mapping[str, frozenset[str]], connections: Iterable[Connection]
) -> tuple[Connection, ...]:
    """The connections of the audited ports' zones that no rule allows."""
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
    """Members of remote groups, each group parsed at its first use: they are large, and shared by many ports."""

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
        # A rule that iptables cannot express is not applied, and allows nothing.
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
        protocol = rule.ip_protocol
        if protocol is not None:
            low, high = (-1 if number is None else number for number in (rule.port_min, rule.port_max))
            if protocol != connection.protocol or not within(connection, low, high):
                return False
        if rule.remote is not None:
            return self._remotes.has(rule.remote, remote)
        return rule.prefix is None or holds(rule.prefix, remote)
