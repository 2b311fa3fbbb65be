"""nftables in memory: tables are stored as given and deleted with their namespace; rules are not parsed."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Iterable

from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.nft.api import (
    RENDERED,
    ChainState,
    Count,
    ElementChange,
    NftError,
    Set,
    Table,
    TablePlan,
    TableState,
)
from neutrino.dataplane.nft.elements import key_of
from tests.fakes.netlink import FakeNetlink
from tests.fakes.netlink_stack import FakeStack


class FakeNft:
    """`netlink` has the namespaces. `replaced` is each table that was put in place, for tests to look at."""

    def __init__(self, netlink: FakeNetlink) -> None:
        self._netlink = netlink
        self._tables: weakref.WeakKeyDictionary[FakeStack, dict[str, Table]] = weakref.WeakKeyDictionary()
        self.replaced: list[tuple[str, Table]] = []
        self._counts: weakref.WeakKeyDictionary[FakeStack, dict[tuple[str, str], Count]] = weakref.WeakKeyDictionary()
        self.foreign: dict[str, tuple[str, ...]] = {}  # tables of others that drop packets, by namespace
        self.refuses = ""
        """A word that no rule may hold, for tests of what is refused."""

    def read(self, namespace: str) -> dict[str, TableState]:
        counts = self._counts.get(self._netlink.stack(namespace), {}) if self._of(namespace) else {}
        return {
            path: dataclasses.replace(
                _state(table), counters={name: counts.get((path, name), Count()) for name in table.counters}
            )
            for path, table in self._of(namespace).items()
        }

    def foreign_drops(self, namespace: str) -> tuple[str, ...]:
        return self.foreign.get(namespace, ())

    def count(self, namespace: str, path: str, name: str, packets: int, size: int) -> None:
        """Packets of this size pass a rule with the counter."""
        counts = self._counts.setdefault(self._netlink.stack(namespace), {})
        before = counts.get((path, name), Count())
        counts[path, name] = Count(before.packets + packets, before.bytes + packets * size)

    def table(self, namespace: str, path: str = "inet neutrino") -> Table | None:
        return self._of(namespace).get(path)

    def apply(self, namespace: str, plan: TablePlan) -> None:
        tables = self._of(namespace)
        if plan.delete:
            tables.pop(plan.path, None)
            self._keep_counters(namespace, plan.path, ())
        elif plan.table is not None:
            self._replace(namespace, plan.table)
            self._keep_counters(namespace, plan.path, plan.table.counters if plan.counted is not None else ())
        elif plan:
            self._change_elements(namespace, plan.path, plan.elements)

    def _keep_counters(self, namespace: str, path: str, names: Iterable[str]) -> None:
        stack, kept = self._netlink.stack(namespace), {(path, name) for name in names}
        counts = self._counts.get(stack, {})
        self._counts[stack] = {key: count for key, count in counts.items() if key[0] != path or key in kept}

    def _replace(self, namespace: str, table: Table) -> None:
        rules = [rule for chain in table.chains for rule in chain.rules]
        if self.refuses and any(self.refuses in rule for rule in rules):
            raise NftError(f"{namespace or 'host'}: syntax error, unexpected {self.refuses}")
        for each in table.sets:
            _check_keys(each)
        self._of(namespace)[table.path] = table
        self.replaced.append((namespace, table))

    def _change_elements(self, namespace: str, path: str, changes: Iterable[ElementChange]) -> None:
        table = self.table(namespace, path)
        sets = {each.name: each for each in table.sets} if table else {}
        for change in changes:
            if change.set not in sets:
                raise NftError(f"{namespace or 'host'}: No such file or directory: {path} {change.set}")
            sets[change.set] = _changed(sets[change.set], change)
        if table:
            self._of(namespace)[path] = dataclasses.replace(table, sets=tuple(sets.values()))

    def _of(self, namespace: str) -> dict[str, Table]:
        try:
            return self._tables.setdefault(self._netlink.stack(namespace), {})
        except NetlinkError as error:
            raise NftError(f"{namespace}: nft: {error}") from error


def _state(table: Table) -> TableState:
    return TableState(
        table.digest(),
        {each.name: ChainState(each.hook, each.marks()) for each in table.chains},
        {RENDERED: frozenset(), **{each.name: each.elements for each in table.sets}},
    )


def _changed(there: Set, change: ElementChange) -> Set:
    elements = {key_of(each): each for each in there.elements if each not in change.remove}
    elements.update({key_of(each): each for each in change.add})
    return dataclasses.replace(there, elements=frozenset(elements.values()))


def _check_keys(each: Set) -> None:
    if len({key_of(element) for element in each.elements}) != len(each.elements):
        raise NftError(f"map {each.name}: File exists: one key with two values")
