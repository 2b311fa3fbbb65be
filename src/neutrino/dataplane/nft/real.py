"""The real tables, through the nft program, run inside the namespace.

A process belongs to the namespace of the thread that starts it, so nothing has to enter it after the fork: that costs
3 ms, most of it nft's own. Text goes in on standard input, and everything in one run is one transaction.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Sequence
from typing import Any

from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.nft.api import RENDERED, ChainState, ElementChange, Hook, NftError, Table, TableState
from neutrino.dataplane.nft.elements import element_from_json, key_of, type_from_json

_NOT_THERE = "No such file or directory"


class RealNft:
    def __init__(
        self, namespaces: Namespaces | None = None, *, program: Sequence[str] = ("nft",), timeout: float = 60
    ) -> None:
        self._namespaces = namespaces or Namespaces()
        self._program = tuple(program)
        self._timeout = timeout

    def read(self, namespace: str, path: str) -> TableState | None:
        done = self._run(namespace, ["-j", "-n", "list", "table", *path.split()])
        if done.returncode != 0:
            if _NOT_THERE in done.stderr:
                return None
            raise _error(namespace, done)
        return _table_state(json.loads(done.stdout)["nftables"])

    def replace(self, namespace: str, table: Table) -> None:
        self._change(namespace, table.text())

    def delete(self, namespace: str, path: str) -> None:
        self._change(namespace, f"table {path}\ndelete table {path}\n")

    def change_elements(self, namespace: str, path: str, changes: Iterable[ElementChange]) -> None:
        given = [change for change in changes if change.add or change.remove]
        if not given:
            return
        try:
            self._change(namespace, _element_text(path, given))
        except NftError:
            # What is there is another than was thought: only what is still missing, then.
            state = self.read(namespace, path)
            if state is None:
                raise
            left = [_still_missing(change, state) for change in given]
            if any(change.add or change.remove for change in left):
                self._change(namespace, _element_text(path, left))

    def _change(self, namespace: str, text: str) -> None:
        done = self._run(namespace, ["-f", "-"], text)
        if done.returncode != 0:
            raise _error(namespace, done)

    def _run(self, namespace: str, arguments: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        command = [*self._program, *arguments]

        def run() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=self._timeout, check=False
            )

        try:
            return self._namespaces.run(namespace, run)
        except (OSError, subprocess.TimeoutExpired, NetlinkError) as error:
            raise NftError(f"{namespace or 'host'}: nft: {error}") from error


def _error(namespace: str, done: subprocess.CompletedProcess[str]) -> NftError:
    return NftError(f"{namespace or 'host'}: {done.stderr.strip() or f'nft ended with {done.returncode}'}")


def _element_text(path: str, changes: Iterable[ElementChange]) -> str:
    lines = []
    for change in changes:
        if change.remove:
            keys = sorted(key_of(each) for each in change.remove)
            lines.append(f"delete element {path} {change.set} {{ {', '.join(keys)} }}")
        if change.add:
            lines.append(f"add element {path} {change.set} {{ {', '.join(sorted(change.add))} }}")
    return "\n".join(lines) + "\n"


def _still_missing(change: ElementChange, state: TableState) -> ElementChange:
    """Removing those that are there, adding those that are not, whatever stands under their keys."""
    there = state.elements.get(change.set)
    if there is None:
        return change
    by_key = {key_of(each): each for each in there}
    add = change.add - there
    displaced = {by_key[key_of(each)] for each in add if key_of(each) in by_key}
    return ElementChange(change.set, add, (change.remove & there) | displaced)


# --- reading JSON ---


def _table_state(objects: list[dict[str, Any]]) -> TableState:
    digest = ""
    hooks: dict[str, Hook | None] = {}
    marks: dict[str, list[str]] = {}
    elements: dict[str, frozenset[str]] = {}
    for item in objects:
        match item:
            case {"chain": chain}:
                hooks[chain["name"]] = _hook(chain)
                marks.setdefault(chain["name"], [])
            case {"rule": rule}:
                marks.setdefault(rule["chain"], []).append(rule.get("comment", ""))
            case {"set": found} | {"map": found}:
                type_ = type_from_json(found)
                elements[found["name"]] = frozenset(element_from_json(each, type_) for each in found.get("elem", ()))
                if found["name"] == RENDERED:
                    digest = found.get("comment", "")
    chains = {name: ChainState(hook, tuple(marks[name])) for name, hook in hooks.items()}
    return TableState(digest, chains, elements)


def _hook(chain: dict[str, Any]) -> Hook | None:
    if "hook" not in chain:
        return None
    return Hook(chain["type"], chain["hook"], int(chain["prio"]), chain.get("policy", "accept"))
