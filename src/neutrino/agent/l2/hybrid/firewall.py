"""The hybrid firewall: security groups of ports with a Linux bridge of their own, as iptables rules on that bridge.

Rules end a connection at the next packet of the side that opened it; where only the other side sends, there is none.
Flushing such connections would not end them where the port may send anything: its next packet would open them again, in the
other direction. So they are marked, after the same rules were evaluated here: a connection that a narrower rule still
allows must not wait for a packet of its opening side.
"""

import logging
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from neutrino.agent.l2.desired import Desired, EffectiveRule, LocalPort
from neutrino.agent.l2.hybrid.plan import HybridPlan, plan_changes
from neutrino.agent.l2.hybrid.render import ENDED, FAMILIES, ConflictingPorts, is_our_chain, port_chain, render_match
from neutrino.dataplane.conntrack.api import Connection, ConntrackError, ConntrackFlush, MarkingConntrack, holds, within
from neutrino.dataplane.iptables.api import Iptables, IptablesError, Tables, canonical_member

LOG = logging.getLogger(__name__)


class _Inputs(NamedTuple):
    """Everything that the desired state is rendered from."""

    ports: tuple[LocalPort, ...]
    others: frozenset[str]  # plugged ports that must not talk
    remotes: Mapping[str, frozenset[str]]


class Unfiltered(NamedTuple):
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
                        each for each in secured if {port_chain("i", each), port_chain("o", each)} <= chains
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
        there = self._conntrack.read(plan.audits)
        self._conntrack.mark(ended_connections(plan.audits, plan.remotes, there), ENDED)
        self._iptables.restore_sets(plan.unused_sets)


def _inputs(desired: Desired) -> _Inputs:
    ports = tuple(port for port in desired.ports if port.hybrid)
    named = {rule.remote for port in ports for rule in port.rules if rule.remote is not None}
    remotes = {name: desired.remotes.get(name, frozenset()) for name in named}
    return _Inputs(ports, frozenset(desired.problems), remotes)


def _is_ours(tables: Tables) -> bool:
    return any(is_our_chain(chain) for chains in tables.values() for chain in chains)


# --- connections that are not allowed any more ---


def ended_connections(
    audits: Mapping[int, LocalPort], remotes: Mapping[str, frozenset[str]], connections: Iterable[Connection]
) -> tuple[Connection, ...]:
    """The connections of the audited ports' zones that no rule allows."""
    return tuple(
        entry
        for entry in connections
        if entry.zone in audits and entry.mark != ENDED and not _is_allowed(entry, audits[entry.zone], remotes)
    )


def _is_allowed(connection: Connection, port: LocalPort, remotes: Mapping[str, frozenset[str]]) -> bool:
    ends = {
        "egress": (connection.source, connection.destination),
        "ingress": (connection.destination, connection.source),
    }
    return any(
        any(holds(prefix, local) for _, prefix in port.sources)
        and any(rule.direction == direction and _allows(rule, remote, connection, remotes) for rule in port.rules)
        for direction, (local, remote) in ends.items()
    )


def _allows(rule: EffectiveRule, remote: str, connection: Connection, remotes: Mapping[str, frozenset[str]]) -> bool:
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


@lru_cache(maxsize=256)  # groups are large, and shared by many ports
def _parsed(members: frozenset[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The members of a remote group that are addresses, and those that are prefixes."""
    canonical = [canonical_member(member) for member in members]
    prefixes = tuple(member for member in canonical if "/" in member)
    return frozenset(canonical).difference(prefixes), prefixes
