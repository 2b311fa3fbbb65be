"""iptables and ipset in memory: they accept the same texts as the real driver and refuse what the kernel refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from neutrino.dataplane.iptables.api import (
    SETTINGS,
    AddressSet,
    IptablesError,
    Rule,
    canonical_member,
)

_BUILT_IN = {
    "raw": ("PREROUTING", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
}
_VERDICTS = ("ACCEPT", "DROP", "RETURN", "CT", "CONNMARK", "REJECT", "LOG", "NFLOG", "")
_Table = dict[str, list[Rule]]


class FakeIptables:
    """Implements `Iptables`. Set `bridges_pass` or `can_log` to False for a kernel without br_netfilter or NFLOG."""

    def __init__(self) -> None:
        self._tables: dict[int, dict[str, _Table]] = {
            family: {table: {chain: [] for chain in chains} for table, chains in _BUILT_IN.items()} for family in (4, 6)
        }
        self._sets: dict[str, AddressSet] = {}
        self._settings = dict.fromkeys(SETTINGS, False)
        self.bridges_pass = True
        self.can_log = True

    def read_rules(self, family: int) -> dict[str, dict[str, tuple[Rule, ...]]]:
        return {
            table: {name: tuple(rules) for name, rules in chains.items()}
            for table, chains in self._tables[family].items()
        }

    def restore_rules(self, family: int, text: str) -> None:
        name, table = "", dict[str, list[Rule]]()
        for line in filter(None, text.splitlines()):
            if line.startswith("*"):
                name = line[1:]
                table = {chain: list(rules) for chain, rules in self._tables[family][name].items()}
            elif line == "COMMIT":
                self._check(table)
                self._tables[family][name] = table
            else:
                _change(table, line)

    def _check(self, table: _Table) -> None:
        for rules in table.values():
            for rule in rules:
                if rule.target == "NFLOG" and not self.can_log:
                    raise IptablesError("there is no target NFLOG")
                if rule.target not in table and rule.target not in _VERDICTS:
                    raise IptablesError(f"there is no chain {rule.target}")
                for name in _named_sets(rule):
                    if name not in self._sets:
                        raise IptablesError(f"there is no set {name}")

    def read_sets(self) -> dict[str, AddressSet]:
        return dict(self._sets)

    def restore_sets(self, text: str) -> None:
        for line in filter(None, text.splitlines()):
            command, name, *rest = line.split()
            self._change_set(command, name, rest)

    def _change_set(self, command: str, name: str, rest: list[str]) -> None:
        if command == "create":
            options = dict(zip(rest[1::2], rest[2::2], strict=True))
            family = 6 if options.get("family") == "inet6" else 4
            made = AddressSet(name, family, frozenset(), rest[0], int(options.get("maxelem", "65536")))
            there = self._sets.setdefault(name, made)
            if dataclasses.replace(there, members=frozenset()) != made:
                raise IptablesError(f"set {name} is there, and another")
            return
        if name not in self._sets:
            if command != "destroy":
                raise IptablesError(f"there is no set {name}")
            return
        entry = self._sets[name]
        if command == "destroy":
            if any(name in _named_sets(rule) for rule in self._every_rule()):
                raise IptablesError(f"set {name} is in use")
            del self._sets[name]
        elif command == "swap":
            other = self._sets[rest[0]]
            self._sets[name] = dataclasses.replace(other, name=name)
            self._sets[rest[0]] = dataclasses.replace(entry, name=rest[0])
        else:
            member = frozenset({canonical_member(rest[0])})
            if rest[0].endswith("/0"):
                raise IptablesError(f"set {name} takes no prefix of length 0")
            members = entry.members | member if command == "add" else entry.members - member
            self._sets[name] = dataclasses.replace(entry, members=members)

    def read_settings(self) -> dict[str, bool]:
        self._need_bridges()
        return dict(self._settings)

    def enable(self, settings: Iterable[str]) -> None:
        self._need_bridges()
        self._settings |= dict.fromkeys(settings, True)

    def _need_bridges(self) -> None:
        if not self.bridges_pass:
            raise IptablesError("the kernel has no br_netfilter")

    def _every_rule(self) -> Iterable[Rule]:
        for tables in self._tables.values():
            for chains in tables.values():
                for rules in chains.values():
                    yield from rules


def _change(table: _Table, line: str) -> None:
    """One line of a text, as iptables-restore takes it."""
    if line.startswith(":"):
        table[line[1:].split()[0]] = []
        return
    command, chain, *rest = line.split(" ", 2)
    if chain not in table:
        raise IptablesError(f"there is no chain {chain}: {line}")
    text = rest[0] if rest else ""
    if command == "-A":
        table[chain].append(Rule(text))
    elif command == "-I":
        position, _, rule = text.partition(" ")
        table[chain].insert(int(position) - 1, Rule(rule))
    elif command == "-D":
        if Rule(text) not in table[chain]:
            raise IptablesError(f"there is no such rule: {line}")
        table[chain].remove(Rule(text))
    elif command == "-X":
        if table[chain] or any(rule.target == chain for rules in table.values() for rule in rules):
            raise IptablesError(f"chain {chain} is in use")
        del table[chain]
    else:
        raise IptablesError(f"not understood: {line}")


def _named_sets(rule: Rule) -> list[str]:
    words = rule.text.split()
    return [words[place + 1] for place, word in enumerate(words) if word == "--match-set"]
