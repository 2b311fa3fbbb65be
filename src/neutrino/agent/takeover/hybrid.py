"""The hybrid firewall as Neutron's agent has left it: its chains, jumps and sets, saved and restored. Pure.

The conversion replaces them by ours, under the same names. Neutron's agent makes them anew when it is started, and until
then the restored ones filter. Of other programs' rules nothing is saved or changed.
"""

import dataclasses
import re
from collections.abc import Mapping

from neutrino.agent.l2.hybrid import render
from neutrino.agent.l2.hybrid.firewall import SHARED, plan_sets
from neutrino.dataplane.iptables.api import AddressSet, Chains, Iptables, Tables

_DEVICE = re.compile(r"--physdev-(?:in|out) (?P<device>tap\S+)")


@dataclasses.dataclass(frozen=True)
class SavedTable:
    chains: dict[str, tuple[str, ...]]  # Neutron's, with their rules
    jumps: dict[str, tuple[tuple[int, str], ...]]  # rules that lead to them from chains of others, with their places


@dataclasses.dataclass(frozen=True)
class SavedFirewall:
    tables: dict[int, dict[str, SavedTable]] = dataclasses.field(default_factory=dict)  # by IP version and table
    sets: tuple[AddressSet, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables)

    def devices(self) -> frozenset[str]:
        """The taps that these rules name."""
        chains = (table.chains for tables in self.tables.values() for table in tables.values())
        texts = (text for named in chains for rules in named.values() for text in rules)
        return frozenset(match["device"] for text in texts for match in _DEVICE.finditer(text))


def read(iptables: Iptables) -> SavedFirewall:
    """Of the host's own namespace. Empty without rules of Neutron's agent. Blocking."""
    tables = {family: save_tables(iptables.read_rules(family)) for family in render.FAMILIES}
    tables = {family: found for family, found in tables.items() if found}
    if not tables:
        return SavedFirewall()
    sets = (entry for name, entry in sorted(iptables.read_sets().items()) if render.is_our_set(name))
    return SavedFirewall(tables, tuple(sets))


def restore(iptables: Iptables, saved: SavedFirewall) -> None:
    """Sets first, as rules name them; each table in one transaction, so packets are filtered all the time. Blocking."""
    if not saved:  # no hybrid port was there: rules of ports that were plugged since go on
        return
    wanted = {entry.name: entry for entry in saved.sets}
    filled, unused = plan_sets(wanted, iptables.read_sets())
    iptables.restore_sets(filled)
    known = saved.devices()
    for family in render.FAMILIES:
        iptables.restore_rules(family, plan(saved.tables.get(family, {}), iptables.read_rules(family), known))
    iptables.restore_sets(unused)


def save_tables(actual: Tables) -> dict[str, SavedTable]:
    found = {}
    for table, chains in actual.items():
        named = {name: tuple(rule.text for rule in rules) for name, rules in chains.items() if _is_neutrons(name)}
        jumps = {
            name: tuple((place, rule.text) for place, rule in enumerate(rules) if _is_neutrons(rule.target))
            for name, rules in chains.items()
            if not _is_neutrons(name)
        }
        if any(render.is_our_chain(name) for name in named):
            found[table] = SavedTable(named, {name: rules for name, rules in jumps.items() if rules})
    return found


def plan(saved: Mapping[str, SavedTable], actual: Tables, known: frozenset[str]) -> str:
    """The text for `iptables-restore --noflush` that puts the saved chains in the place of ours.

    `known`: taps of the saved rules. Others were plugged since, and would be open without ours: they are closed until
    Neutron's agent, which makes its chains anew, filters them.
    """
    lines: list[str] = []
    for table in sorted({*saved, *actual}):
        changed = _plan_table(saved.get(table, _NOTHING), actual.get(table, {}), known)
        lines += [f"*{table}", *changed, "COMMIT"] if changed else []
    return "".join(f"{line}\n" for line in lines)


_NOTHING = SavedTable({}, {})


def _plan_table(saved: SavedTable, actual: Chains, known: frozenset[str]) -> list[str]:
    there = [name for name in actual if render.is_our_chain(name) or name in saved.chains]
    closing = _closing(actual, known)
    lines = [f":{name} - [0:0]" for name in sorted({*saved.chains, *there})]  # created, or emptied
    for name, rules in saved.chains.items():
        lines += [f"-A {name} {text}".rstrip() for text in (*closing.get(name, ()), *rules)]
    for name in sorted({*actual, *saved.jumps} - {*there}):
        rules_there = actual.get(name, ())
        ours = [rule for rule in rules_there if rule.target in there or render.is_our_chain(rule.target)]
        lines += [f"-D {name} {rule.text}" for rule in ours]
        others = len(rules_there) - len(ours)
        for made, (place, text) in enumerate(saved.jumps.get(name, ())):
            lines.append(f"-I {name} {min(place, others + made) + 1} {text}")
    return [*lines, *(f"-X {name}" for name in sorted({*there} - saved.chains.keys()))]


def _closing(actual: Chains, known: frozenset[str]) -> dict[str, list[str]]:
    """Rules for taps that the saved ones do not know, by chain."""
    named = (match["device"] for rule in actual.get(render.FORWARD, ()) for match in _DEVICE.finditer(rule.text))
    unknown = sorted({*named} - known)
    from_them = [f"-m physdev --physdev-in {device} -j DROP" for device in unknown]
    to_them = [f"-m physdev --physdev-out {device} --physdev-is-bridged -j DROP" for device in unknown]
    return {render.FORWARD: to_them + from_them, render.INPUT: from_them}


def _is_neutrons(name: str) -> bool:
    return render.is_our_chain(name) or name in SHARED
