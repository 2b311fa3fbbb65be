"""Reconciles resource providers in Placement with those of an agent.

Providers, traits and inventories are read, compared and changed where they differ, so a repeated report changes nothing.
Traits of others and inventories of other classes stay. Each change names the generation that was read: if another writer
was first, all is read again, boundedly.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from neutrino.features.placement.providers import OUR_CLASSES, Provider, Tree
from neutrino.model.objects import Values
from neutrino.server.placement import TUNNEL_TRAIT, Call, PlacementResponse, Unavailable

VERSION = "1.28"  # generations of consumers; nested providers and codes of errors are older
REPEATS = 5
_CONFLICT, _IN_USE = "placement.concurrent_update", "placement.resource_provider.inuse"


class Refused(Exception):
    """Placement does not accept it, and would not at once: another attempt is for the next report."""


class Conflict(Exception):
    """Another writer was first."""


def sync(call: Call, tree: Tree) -> list[str]:
    """What could not be removed. Raises Refused or Unavailable."""
    for _ in range(REPEATS):
        try:
            return _Sync(call, tree).run()
        except Conflict:
            continue
    raise Unavailable(f"the resource providers of {tree.hypervisor} are changed by others at the same time")


class _Sync:
    def __init__(self, call: Call, tree: Tree) -> None:
        self._call, self._tree = call, tree

    def run(self) -> list[str]:
        tree = self._tree
        named = self._get(f"/resource_providers?name={quote(tree.hypervisor, safe='')}", "reading the compute node")
        if not named["resource_providers"]:
            if not tree.providers:
                return []
            raise Refused(f"there is no resource provider {tree.hypervisor}: Nova makes that of a compute node")
        root = named["resource_providers"][0]["uuid"]
        listed = self._get(f"/resource_providers?in_tree={root}", "reading its tree")["resource_providers"]
        known = {one["uuid"]: one for one in listed}
        for provider in tree.providers:
            self._provider(provider, known.get(provider.id), root)
        wanted = {provider.id for provider in tree.providers}
        old = [one for key, one in known.items() if key not in wanted and tree.is_ours(key, one["name"])]
        # Devices before their agent, which cannot be deleted while it has any.
        return [left for one in sorted(old, key=lambda one: -len(one["name"])) if (left := self._remove(one))]

    def _provider(self, wanted: Provider, known: Values | None, root: str) -> None:
        if known is None:
            body = {"uuid": wanted.id, "name": wanted.name, "parent_provider_uuid": wanted.parent or root}
            self._change("POST", "/resource_providers", body, f"creating {wanted.name}")
        elif known["name"] != wanted.name:
            self._change("PUT", f"/resource_providers/{wanted.id}", {"name": wanted.name}, f"renaming {wanted.name}")
        self._traits(wanted.id, wanted.traits, wanted.name)
        self._inventories(wanted)

    def _traits(self, provider_id: str, wanted: frozenset[str], name: str) -> None:
        path = f"/resource_providers/{provider_id}/traits"
        found = self._get(path, f"reading traits of {name}")
        after = wanted | {trait for trait in found["traits"] if not _is_our_trait(trait)}
        if after == set(found["traits"]):
            return
        for trait in sorted(wanted - set(found["traits"])):
            self._change("PUT", f"/traits/{trait}", None, f"creating trait {trait}")
        generation = found["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "traits": sorted(after)}
        self._change("PUT", path, body, f"writing traits of {name}")

    def _inventories(self, wanted: Provider) -> None:
        path = f"/resource_providers/{wanted.id}/inventories"
        found = self._get(path, f"reading inventories of {wanted.name}")
        others = {name: each for name, each in found["inventories"].items() if name not in OUR_CLASSES}
        after = {**others, **wanted.inventories}
        if after == found["inventories"]:
            return
        body = {"resource_provider_generation": found["resource_provider_generation"], "inventories": after}
        self._change("PUT", path, body, f"writing inventories of {wanted.name}")

    def _remove(self, provider: Values) -> str:
        """Empty if it is gone. One with allocations stays, without traits: no further port is placed there."""
        answer = self._call("DELETE", f"/resource_providers/{provider['uuid']}", None)
        if answer.status == 409 and _code(answer) != _CONFLICT:
            self._traits(provider["uuid"], frozenset(), provider["name"])
            return f"{provider['name']} is not removed: {_detail(answer)}"
        _check(answer, f"deleting {provider['name']}", 404)
        return ""

    def _get(self, path: str, what: str) -> Any:
        answer = self._call("GET", path, None)
        if answer.status == 404:  # deleted since the list was read
            raise Conflict
        return _check(answer, what)

    def _change(self, method: str, path: str, body: object, what: str) -> None:
        _check(self._call(method, path, body), what)


def _is_our_trait(trait: str) -> bool:
    return trait == TUNNEL_TRAIT or trait.startswith(("CUSTOM_PHYSNET_", "CUSTOM_VNIC_TYPE_"))


def _check(answer: PlacementResponse, what: str, *further: int) -> Any:
    """The body of an answer that is no error."""
    if 200 <= answer.status < 300 or answer.status in further:
        return answer.body
    if answer.status == 409 and _code(answer) == _CONFLICT:
        raise Conflict
    reason = f"{what}: HTTP {answer.status} {_detail(answer)}".rstrip()
    if answer.status in (400, 404, 409):
        raise Refused(reason)
    raise Unavailable(reason)


def _error(answer: PlacementResponse) -> Mapping[str, Any]:
    errors = answer.body.get("errors") if isinstance(answer.body, Mapping) else None
    return errors[0] if isinstance(errors, list) and errors and isinstance(errors[0], Mapping) else {}


def _code(answer: PlacementResponse) -> str:
    return str(_error(answer).get("code", ""))


def _detail(answer: PlacementResponse) -> str:
    return " ".join(str(_error(answer).get("detail", "")).split())[:500]
