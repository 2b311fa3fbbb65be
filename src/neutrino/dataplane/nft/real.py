"""The nftables driver: runs the nft program inside the namespace.

A process belongs to the namespace of the thread that starts it, so no `ip netns exec` is needed: a run takes 3 ms, most
of it nft's own. Text goes in on standard input, and everything in one run is one transaction.
"""

import dataclasses
import json
import shutil
from collections.abc import Mapping
from typing import Any

from neutrino.dataplane.iptables.variants import dropping_tables
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.nft.api import (
    NAMES,
    RENDERED,
    ChainState,
    Count,
    ElementChange,
    Hook,
    NftError,
    TablePlan,
    TableState,
)
from neutrino.dataplane.nft.elements import element_from_json, key_of, type_from_json
from neutrino.dataplane.program import ProgramError, run_program
from neutrino.model.objects import Object

_DROPS = frozenset({"drop", "reject"})  # statements
_LOGGING = "table inet neutrino_check {\nchain copies {\nlog group 1\n}\n}\n"
_XT_DROPS = ("REJECT", "TARPIT")  # targets of iptables that nft does not have


@dataclasses.dataclass(frozen=True)
class RealNft:
    namespaces: Namespaces = dataclasses.field(default_factory=Namespaces)

    def read(self, namespace: str) -> dict[str, TableState]:
        by_path: dict[str, list[Object]] = {}
        # All tables at once: listing one that does not exist is an error, and each run costs 3 ms.
        for item in json.loads(self._run(namespace, ["-j", "-n", "list", "ruleset"]))["nftables"]:
            ((what, value),) = item.items()
            table = value.get("name" if what == "table" else "table")
            if table in NAMES:  # tables of others in the namespace are not ours to compare
                by_path.setdefault(f"{value['family']} {table}", []).append(item)
        return {path: _table_state(items) for path, items in by_path.items()}

    def foreign_drops(self, namespace: str) -> tuple[str, ...]:
        found = set[str]()
        has_program = shutil.which("nft") is not None  # a host with the DHCP role alone does not need it
        listed = self._run(namespace, ["-j", "-n", "list", "ruleset"]) if has_program else '{"nftables": []}'
        for item in json.loads(listed)["nftables"]:
            match item:
                case {"chain": {"family": family, "table": table, "policy": "drop"}} if table not in NAMES:
                    found.add(f"{family} {table}")
                case {"rule": {"family": family, "table": table, "expr": expressions}} if table not in NAMES:
                    if any(_drops(each) for each in expressions if isinstance(each, dict)):
                        found.add(f"{family} {table}")
        try:
            found.update(dropping_tables(self.namespaces, namespace))
        except (ProgramError, NetlinkError) as error:
            raise NftError(f"{namespace or 'host'}: {error}") from error
        return tuple(sorted(found))

    def can_log(self) -> bool:
        """Whether the kernel takes rules that copy packets to netfilter's log. It is asked, and nothing is applied."""
        try:
            self._run(HOST, ["-c", "-f", "-"], _LOGGING)
        except NftError:
            return False
        return True

    def apply(self, namespace: str, plan: TablePlan) -> None:
        if not plan:
            return
        # Deleting an element that is missing fails the whole transaction, unlike adding one that exists.
        try:
            self._run(namespace, ["-f", "-"], _render(plan))
        except NftError:
            # The elements may have changed since they were planned: apply only what is still missing.
            state = self.read(namespace).get(plan.path) if plan.elements else None
            if state is None:
                raise
            left = TablePlan(plan.path, elements=tuple(_still_missing(change, state) for change in plan.elements))
            if any(left.elements):
                self._run(namespace, ["-f", "-"], _render(left))

    def _run(self, namespace: str, arguments: list[str], text: str = "") -> str:
        try:
            return self.namespaces.run(namespace, lambda: run_program(["nft", *arguments], text))
        except (ProgramError, NetlinkError) as error:
            raise NftError(f"{namespace or 'host'}: {error}") from error


def _drops(expression: Mapping[str, Any]) -> bool:
    return bool(_DROPS & expression.keys()) or expression.get("xt", {}).get("name") in _XT_DROPS


def _render(plan: TablePlan) -> str:
    """The transaction in nft's language."""
    if plan.table is not None:
        return plan.table.text(plan.counted)
    lines = [f"table {plan.path}", f"delete table {plan.path}"] if plan.delete else []
    for change in plan.elements:
        if change.remove:  # first: a key that gets a new value is removed and added
            keys = sorted(key_of(each) for each in change.remove)
            lines.append(f"delete element {plan.path} {change.set} {{ {', '.join(keys)} }}")
        if change.add:
            lines.append(f"add element {plan.path} {change.set} {{ {', '.join(sorted(change.add))} }}")
    return "\n".join(lines) + "\n"


def _still_missing(change: ElementChange, state: TableState) -> ElementChange:
    """Without what is in force already; an element with the same key and another value is removed first."""
    there = state.elements.get(change.set)
    if there is None:
        return change
    by_key = {key_of(each): each for each in there}
    add = change.add - there
    displaced = {by_key[key_of(each)] for each in add if key_of(each) in by_key}
    return ElementChange(change.set, add, (change.remove & there) | displaced)


# --- reading JSON ---


def _table_state(objects: list[Object]) -> TableState:
    digest = ""
    hooks: dict[str, Hook | None] = {}
    marks: dict[str, list[str]] = {}
    elements: dict[str, frozenset[str]] = {}
    counters: dict[str, Count] = {}
    for item in objects:
        match item:
            case {"chain": chain}:
                hooks[chain["name"]] = _hook(chain)
                marks.setdefault(chain["name"], [])
            case {"rule": rule}:
                marks.setdefault(rule["chain"], []).append(rule.get("comment", ""))
            case {"counter": found}:
                counters[found["name"]] = Count(found["packets"], found["bytes"])
            case {"set": found} | {"map": found}:
                type_ = type_from_json(found)
                elements[found["name"]] = frozenset(element_from_json(each, type_) for each in found.get("elem", ()))
                if found["name"] == RENDERED:
                    digest = found.get("comment", "")
    chains = {name: ChainState(hook, tuple(marks[name])) for name, hook in hooks.items()}
    return TableState(digest, chains, elements, counters)


def _hook(chain: Object) -> Hook | None:
    if "hook" not in chain:
        return None
    return Hook(chain["type"], chain["hook"], int(chain["prio"]), chain.get("policy", "accept"))
