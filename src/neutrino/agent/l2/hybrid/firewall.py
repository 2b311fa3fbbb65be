"""The hybrid firewall as the L2 role uses it: what differs, and doing something about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from neutrino.agent.l2.desired import Desired, LocalPort
from neutrino.agent.l2.hybrid import names, plan, zones
from neutrino.agent.l2.hybrid.ended import ended
from neutrino.agent.l2.hybrid.plan import Audit, HybridPlan
from neutrino.agent.l2.hybrid.render import ENDED, FAMILIES, Wanted, is_tracked, render
from neutrino.dataplane.conntrack.api import ConntrackFlush, MarkingConntrack
from neutrino.dataplane.iptables.api import AddressSet, Iptables, Tables


@dataclasses.dataclass(frozen=True)
class _Inputs:
    """All that the firewall is made from."""

    ports: tuple[LocalPort, ...]
    others: frozenset[str]  # ports that are plugged and must not talk
    remotes: Mapping[str, frozenset[str]]


class HybridFirewall:
    """Blocking, and for one thread at a time.

    What is in the kernel is read until it is found to be right, and again when something else is wanted or after
    `forget`: a host where nothing happens starts no processes, and one without hybrid ports looks once for what was left
    behind.
    """

    def __init__(self, iptables: Iptables, conntrack: MarkingConntrack) -> None:
        self._iptables = iptables
        self._conntrack = conntrack
        self._settled: _Inputs | None = None  # what was found to be in force

    def forget(self) -> None:
        """What is in the kernel has to be read again: somebody else may have changed it."""
        self._settled = None

    def is_there(self) -> bool:
        """Whether a firewall of ours is in the kernel: it outlives the agent, and not the host's restart."""
        return any(_is_ours(self._iptables.read_rules(family)) for family in FAMILIES)

    def missing(self, desired: Desired) -> frozenset[str]:
        """The ports that are to be filtered and are not."""
        secured = [port.id for port in desired.ports if port.hybrid and port.secured]
        if not secured:
            return frozenset()
        chains = [{*chains} for family in FAMILIES for chains in self._iptables.read_rules(family).values()]
        there = frozenset[str]().union(*chains)
        return frozenset(each for each in secured if not {names.into(each), names.out_of(each)} <= there)

    def plan(self, desired: Desired) -> HybridPlan:
        inputs = _inputs(desired)
        if inputs == self._settled:
            return HybridPlan()
        rules = {family: self._iptables.read_rules(family) for family in FAMILIES}
        sets = self._iptables.read_sets()
        # Where nothing of ours is needed, ports that must not talk are kept from it by the integration bridge alone.
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
        self._conntrack.mark(ended(plan.audits, plan.remotes, there), ENDED)


def _inputs(desired: Desired) -> _Inputs:
    ports = tuple(port for port in desired.ports if port.hybrid)
    named = {rule.remote for port in ports for rule in port.rules if rule.remote is not None}
    remotes = {name: desired.remotes.get(name, frozenset()) for name in named}
    return _Inputs(ports, frozenset(desired.problems), remotes)


def _is_ours(tables: Tables) -> bool:
    return any(names.is_our_chain(chain) for chains in tables.values() for chain in chains)


def plan_changes(
    ports: tuple[LocalPort, ...],
    blocked: frozenset[str],
    remotes: Mapping[str, frozenset[str]],
    rules: Mapping[int, Tables],
    sets: Mapping[str, AddressSet],
    settings: Mapping[str, bool],
) -> HybridPlan:
    """The difference between the firewall that ports need and what was read. Pure."""
    held = {**zones.read_zones(rules[6]), **zones.read_zones(rules[4])}
    given = zones.allocate((port.id for port in ports if is_tracked(port)), held)
    wanted = render(ports, blocked, remotes, given)
    fresh = {port_id for port_id, zone in given.items() if held.get(names.tap(port_id)) != zone}
    set_text, unused = plan.plan_sets(wanted.sets, sets)
    return HybridPlan(
        settings=tuple(name for name, on in settings.items() if not on),
        sets=set_text,
        rules={family: plan.plan_rules(wanted.tables[family], wanted.jumps[family], rules[family]) for family in rules},
        fresh_zones=tuple(sorted(given[port_id] for port_id in fresh)),
        audits=_audits([port for port in ports if port.id in given.keys() - fresh], given, wanted, rules, sets),
        remotes=remotes,
        unused_sets=unused,
    )


def _audits(
    ports: Iterable[LocalPort],
    given: Mapping[str, int],
    wanted: Wanted,
    rules: Mapping[int, Tables],
    sets: Mapping[str, AddressSet],
) -> tuple[Audit, ...]:
    """The ports with other rules or addresses than before, or with a rule that names a group which lost members."""
    changed = {name for family in rules for name in plan.differing_chains(wanted.tables[family], rules[family])}
    losing = plan.shrinking(wanted.sets, sets)
    audits = []
    for port in ports:
        chains = {names.into(port.id), names.out_of(port.id), names.sources(port.id)}
        named = {names.address_set(rule.remote, rule.family) for rule in port.rules if rule.remote is not None}
        if chains & changed or named & losing:
            audits.append(Audit(port, given[port.id]))
    return tuple(audits)
