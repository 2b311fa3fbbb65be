"""Attributes of neutron-lib's API definitions, of Neutron's own and of ours, in one format."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any

import neutron_lib.api.definitions as definitions  # type: ignore[import-untyped]
from msgspec import UNSET
from neutron_lib import constants

from neutrino.server.api.definition import REQUIRED, Resource
from tests.conformance.neutron_facts import NEUTRON

CORE = ("network", "subnet", "subnetpool", "port")  # resources of every server, without an extension

# What Neutron does not have: extensions and collections of our own.
OWN_ALIASES = frozenset({"rates", "trace"})
OWN_COLLECTIONS = frozenset({"changes", "rates", "router_placements", "traces"})

DECIDED = "decided by the server"
NEEDED = "must be given"
UNUSED = "of no use"  # the default of an attribute that cannot be set

Place = tuple[str, str]  # collection, attribute


@dataclass(frozen=True)
class Fact:
    """What a client can do with an attribute, and its default."""

    post: bool = False
    put: bool = False
    default: Any = UNUSED
    visible: bool = True
    filter: bool = False
    sort: bool = False

    def differences(self, ours: Fact) -> dict[str, tuple[Any, Any]]:
        """Aspect -> (expected, ours)."""
        pairs = {name: (getattr(self, name), getattr(ours, name)) for name in self.__dataclass_fields__}
        # 0 == False: the type of a default is a difference too
        return {k: (a, b) for k, (a, b) in pairs.items() if a != b or type(a) is not type(b)}


# Collections that neutron-lib names as in paths.
UNDERSCORED = {"bgp-speakers": "bgp_speakers", "bgp-peers": "bgp_peers"}


def of_neutron(aliases: Collection[str]) -> dict[Place, Fact]:
    """The attributes of Neutron with these extensions, on all resources."""
    found: dict[Place, Fact] = {}
    for module in _in_order(aliases):
        for collection, attributes in _maps(module):
            for name, spec in attributes.items():
                found[UNDERSCORED.get(collection, collection), _named(name)] = _fact(name, spec)
    for alias, facts in NEUTRON.items():
        if alias in aliases:
            for (collection, name), words in facts.items():
                found[collection, name] = _fact(name, _spelled_out(words))
    return found


def of_ours(resources: Iterable[Resource]) -> dict[Place, Fact]:
    found: dict[Place, Fact] = {}
    for resource in resources:
        for name in resource.tag_filters:  # filters only, never set or shown
            found[resource.collection, name] = Fact(visible=False, filter=True)
        for a in resource.attributes:
            default = (
                {UNSET: DECIDED, REQUIRED: NEEDED}.get(a.default, a.default) if _hashable(a.default) else a.default
            )
            found[resource.collection, a.name] = Fact(
                a.post,
                a.put,
                default if a.post else UNUSED,
                a.visible,
                a.filter or a.name in resource.tag_filters,
                a.sort,
            )
    return found


def _hashable(value: Any) -> bool:
    return value.__hash__ is not None


def aliases_of_lib() -> Mapping[str, ModuleType]:
    return _modules()


@cache
def _modules() -> dict[str, ModuleType]:
    names = [m.name for m in pkgutil.iter_modules(definitions.__path__)]
    modules = [importlib.import_module(f"{definitions.__name__}.{name}") for name in names]
    return {module.ALIAS: module for module in modules if hasattr(module, "ALIAS")}


def _in_order(aliases: Collection[str]) -> list[ModuleType]:
    """The definitions, each after those that it extends and overrides."""
    known = _modules()
    ordered: dict[str, ModuleType] = {}

    def add(alias: str) -> None:
        if alias not in known or alias in ordered:
            return
        for needed in sorted(known[alias].REQUIRED_EXTENSIONS or ()):
            if needed in aliases:
                add(needed)
        ordered[alias] = known[alias]

    for alias in (*CORE, *sorted(aliases)):
        add(alias)
    return list(ordered.values())


def _maps(module: ModuleType) -> Iterable[tuple[str, Mapping[str, Any]]]:
    yield from (module.RESOURCE_ATTRIBUTE_MAP or {}).items()
    for collection, sub in (module.SUB_RESOURCE_ATTRIBUTE_MAP or {}).items():
        yield collection, sub.get("parameters", {})


def _named(name: str) -> str:
    return "project_id" if name == "tenant_id" else name


def _fact(name: str, spec: Mapping[str, Any]) -> Fact:
    post = spec.get("allow_post", False)
    default: Any = UNUSED
    if post:
        default = spec.get("default", NEEDED)
        if (
            default is constants.ATTR_NOT_SPECIFIED or _named(name) == "project_id"
        ):  # it defaults to the caller's project
            default = DECIDED
    return Fact(
        post,
        spec.get("allow_put", False),
        default,
        spec.get("is_visible", False),
        spec.get("is_filter", False),
        spec.get("is_sort_key", False),
    )


def _spelled_out(described: str | tuple[str, Any]) -> dict[str, Any]:
    text, *default = (described,) if isinstance(described, str) else described
    words = set(text.split())
    spec: dict[str, Any] = {
        "allow_post": "post" in words,
        "allow_put": "put" in words,
        "is_visible": "hidden" not in words,
        "is_filter": "filter" in words,
        "is_sort_key": "sort" in words,
    }
    if default:
        spec["default"] = default[0]
    elif "decided" in words:
        spec["default"] = constants.ATTR_NOT_SPECIFIED
    return spec
