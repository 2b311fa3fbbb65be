"""What has to change in the filter, against what is there. Pure; the texts are those that the drivers take."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from neutrino.agent.l2.desired import LocalPort
from neutrino.agent.l2.hybrid import names
from neutrino.dataplane.iptables.api import AddressSet, Chains, Rule, Tables

_TOOLS = {4: "iptables", 6: "ip6tables"}


@dataclasses.dataclass(frozen=True)
class Audit:
    """A port whose connections have to be looked at, as some of them may not be allowed any more."""

    port: LocalPort
    zone: int


@dataclasses.dataclass(frozen=True)
class HybridPlan:
    """What to do, in this order."""

    settings: tuple[str, ...] = ()  # to be turned on
    sets: str = ""  # new sets, and members that come or go
    rules: Mapping[int, str] = dataclasses.field(default_factory=dict)  # by family
    fresh_zones: tuple[int, ...] = ()  # a new port's, where connections of another may be left
    audits: tuple[Audit, ...] = ()
    remotes: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)  # the groups that audits ask about
    unused_sets: str = ""

    def __bool__(self) -> bool:
        return bool(self.settings or self.sets or any(self.rules.values()) or self.audits or self.unused_sets)

    def text(self) -> str:
        lines = [f"sysctl {name}=1" for name in self.settings]
        lines += [f"ipset {line}" for line in self.sets.splitlines()]
        for family, text in sorted(self.rules.items()):
            lines += [f"{_TOOLS[family]} {line}" for line in text.splitlines()]
        lines += [f"conntrack empty zone {zone}" for zone in self.fresh_zones]
        lines += [f"conntrack end what no rule of port {audit.port.id} allows" for audit in self.audits]
        lines += [f"ipset {line}" for line in self.unused_sets.splitlines()]
        return "\n".join(lines)


# --- rules ---


def plan_rules(wanted: Tables, jumps: Tables, actual: Tables) -> str:
    """The text that makes our chains in all tables of one family into the wanted ones; empty if they are."""
    changed = []
    for table in sorted({*wanted, *actual}):
        lines = _plan_table(wanted.get(table, {}), jumps.get(table, {}), actual.get(table, {}))
        if lines:
            changed += [f"*{table}", *lines, "COMMIT"]
    return "".join(f"{line}\n" for line in changed)


def _plan_table(wanted: Chains, jumps: Chains, actual: Chains) -> list[str]:
    ours = {name: rules for name, rules in actual.items() if names.is_our_chain(name)}
    stale = sorted(ours.keys() - wanted.keys())
    differing = [name for name in sorted(wanted) if name not in ours or _marks(ours[name]) != _marks(wanted[name])]
    # A chain that is declared is made or emptied: first all of them, as they lead to each other.
    lines = [f":{name} - [0:0]" for name in (*differing, *stale)]
    lines += [f"-A {name} {rule.text}" for name in differing for rule in wanted[name]]
    for chain, rules in actual.items():
        if not names.is_our_chain(chain):
            lines += [f"-D {chain} {rule.text}" for rule in _superfluous(rules, jumps.get(chain, ()), stale)]
    for chain, wanted_here in jumps.items():
        there = _marks(actual.get(chain, ()))
        # In front of what others have there: one of their rules might accept or drop what we have to look at.
        lines += [f"-I {chain} 1 {rule.text}" for rule in wanted_here if names.mark_of(rule) not in there]
    return [*lines, *(f"-X {name}" for name in stale)]


def differing_chains(wanted: Tables, actual: Tables) -> frozenset[str]:
    """The chains that are not yet as they should be, of all tables of one family."""
    return frozenset(
        name
        for table, chains in wanted.items()
        for name, rules in chains.items()
        if _marks(actual.get(table, {}).get(name, ())) != _marks(rules)
    )


def _marks(rules: Iterable[Rule]) -> tuple[str, ...]:
    return tuple(names.mark_of(rule) for rule in rules)


def _superfluous(there: Iterable[Rule], wanted: Iterable[Rule], stale: list[str]) -> list[Rule]:
    """Rules in a chain of others that bear our mark and are not wanted, or would keep a chain of ours from going."""
    expected = {names.mark_of(rule) for rule in wanted}
    found = []
    for rule in there:
        mark = names.mark_of(rule)
        if mark in expected:
            expected.discard(mark)  # a second one of the same is too many
        elif mark or rule.target in stale:
            found.append(rule)
    return found


# --- sets ---


def plan_sets(wanted: Mapping[str, AddressSet], actual: Mapping[str, AddressSet]) -> tuple[str, str]:
    """Two texts: what rules need before they are there, and what can go when they are gone."""
    lines: list[str] = []
    passing: set[str] = set()  # sets that are gone again at the end of the first text
    for name, entry in sorted(wanted.items()):
        there = actual.get(name)
        if there is None:
            lines += _filled(entry, name)
        elif dataclasses.replace(there, members=entry.members) != entry:
            new = names.replacement(name)
            passing.add(new)
            left_behind = [f"destroy {new}"] if new in actual else []
            lines += [*left_behind, *_filled(entry, new), f"swap {new} {name}", f"destroy {new}"]
        else:
            lines += [f"add {name} {member}" for member in sorted(entry.members - there.members)]
            lines += [f"del {name} {member}" for member in sorted(there.members - entry.members)]
    ours = {name for name in actual if names.is_our_set(name)}
    return _text(lines), _text(f"destroy {name}" for name in sorted(ours - wanted.keys() - passing))


def _filled(entry: AddressSet, name: str) -> list[str]:
    family = "inet" if entry.family == 4 else "inet6"
    create = f"create {name} {entry.kind} family {family} maxelem {entry.capacity}"
    return [create, *(f"add {name} {member}" for member in sorted(entry.members))]


def shrinking(wanted: Mapping[str, AddressSet], actual: Mapping[str, AddressSet]) -> frozenset[str]:
    """The sets that lose members."""
    return frozenset(name for name, entry in wanted.items() if name in actual and actual[name].members - entry.members)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
