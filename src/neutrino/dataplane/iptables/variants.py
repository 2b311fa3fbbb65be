"""Rules of both variants of iptables in a namespace: packets pass the rules of both, and each shows its own only."""

import contextlib
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from neutrino.dataplane.iptables.api import SavedRules, parse_policies, parse_rules
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.program import run_program

LEGACY, NFT = "legacy", "nft"
_PREFIX: Final = {4: "iptables", 6: "ip6tables"}
# Tables of the legacy variant that exist in the namespace of the thread; without its modules, the files do not exist.
_NAMES: Final = {4: "/proc/thread-self/net/ip_tables_names", 6: "/proc/thread-self/net/ip6_tables_names"}
_DROPS: Final = frozenset({"DROP", "REJECT"})


def read_saved(namespaces: Namespaces, namespace: str, family: int, variant: str) -> SavedRules | None:
    """The rules of a variant, or None if there are none; raises ProgramError and NetlinkError."""
    program = f"{_PREFIX[family]}-{variant}-save"
    if variant == LEGACY and not namespaces.run(namespace, partial(_legacy_tables, family)):
        return None
    if shutil.which(program) is None:
        return None
    text = namespaces.run(namespace, lambda: run_program([program]))
    return SavedRules(variant, parse_rules(text), parse_policies(text)) if text.strip() else None


def dropping_tables(namespaces: Namespaces, namespace: str) -> Iterator[str]:
    """The tables of the legacy variant that drop packets. Those of the other one are nft tables."""
    for family in _PREFIX:
        saved = read_saved(namespaces, namespace, family, LEGACY)
        for table, chains in saved.tables.items() if saved is not None else ():
            targets = {rule.target for rules in chains.values() for rule in rules}
            policies = saved.policies.get(table, {}).values() if saved is not None else ()
            if _DROPS & targets or _DROPS & {*policies}:
                yield f"{_PREFIX[family]}-legacy {table}"


def _legacy_tables(family: int) -> str:
    with contextlib.suppress(OSError):
        return Path(_NAMES[family]).read_text().strip()
    return ""
