"""Comparison of the API answers of two servers, object by object and attribute by attribute.

`ALLOWED` is the table of differences that do not count: what each server computes from its own clock or its own state.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from neutrino.model.agents import PROBLEMS
from neutrino.model.objects import Object
from neutrino.takeover.family import Shown

Answers = Mapping[str, Sequence[Object]]  # the objects of each collection
ReadPath = Callable[[str], Object]  # GET of a path below /v2.0

# Attributes that may differ, by collection (the last part of its path if it is below an object), with the reason in
# docs/takeover.md. `*`: objects that only one of the servers shows.
ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "agents": frozenset({"alive", "heartbeat_timestamp", "ha_chassis_priority"}),
    "dhcp-agents": frozenset({"alive", "heartbeat_timestamp", "ha_chassis_priority"}),
    "l3-agents": frozenset({"alive", "heartbeat_timestamp", "ha_chassis_priority", "*"}),
    "bindings": frozenset({"profile"}),
    "routers": frozenset({"qos_policy_id", "qos_network_policy_id"}),
    "network_segment_ranges": frozenset({"physical_network", "available", "used", "*"}),
    "fwaas/firewall_rules": frozenset({"firewall_policy_id"}),
    "trunks": frozenset({"status"}),
}
# In values of an object: Neutron shows null for the first, and its internal number; it does not show the drivers in
# bindings, nor the ranges of ports in floating IPs, whose port forwardings are compared by themselves.
NESTED: Final = frozenset(
    {"belongs_to_default_sg", "standard_attr_id", "bound_drivers", "external_port_range", "internal_port_range"}
)
# What agents report: of a host that is converted, each server has the report of another agent.
REPORTED: Final = frozenset({"configurations", "started_at"})
AGENTS: Final = frozenset({"agents", "dhcp-agents", "l3-agents"})
SECRETS: Final = frozenset({"psk", "password"})  # compared, and not shown


@dataclass(frozen=True, order=True)
class Difference:
    """An attribute with two values, or an object that one server lacks (`attribute` is empty)."""

    collection: str
    object_id: str
    attribute: str
    theirs: str  # JSON
    ours: str

    def __str__(self) -> str:
        what = f"{self.collection} {self.object_id}"
        return f"{what}: {self.attribute or 'object'}: Neutron {self.theirs}, neutrino {self.ours}"


def read_answers(get: ReadPath, collections: Sequence[Shown]) -> dict[str, list[Object]]:
    """Every collection of a server, as the reader may see it; what the server does not serve is left out."""
    answers: dict[str, list[Object]] = {}
    for shown in collections:
        path = shown.path
        try:
            answers[path] = list(get(path)[shown.key or path])
        except (LookupError, RuntimeError):  # the server has no such collection
            continue
        for part, part_key in shown.parts:
            for parent in answers[path]:
                with_id = part.format(id=parent["id"])
                try:
                    items = get(with_id)[part_key]
                except (LookupError, RuntimeError):  # ports that are no instance's have no bindings
                    continue
                if items:
                    answers[with_id] = list(items)
    return answers


def compare(theirs: Answers, ours: Answers, allowed: Mapping[str, frozenset[str]] = ALLOWED) -> Iterator[Difference]:
    """The differences between the answers of Neutron and of ours, but for `allowed` attributes by collection."""
    for collection, objects in theirs.items():
        own = {key_of(one): one for one in ours.get(collection, ())}
        ignored = _ignored(allowed, collection)
        for one in objects:
            key = key_of(one)
            if key not in own:
                if key and "*" not in ignored:  # without a key: the binding of a port without a host
                    yield Difference(collection, key, "", "present", "missing")
                continue
            yield from _attributes(collection, key, one, own.pop(key), ignored)
        for key in own if "*" not in ignored else ():
            yield Difference(collection, key, "", "missing", "present")


def _attributes(
    collection: str, key: str, theirs: Object, ours: Object, ignored: frozenset[str]
) -> Iterator[Difference]:
    """Attributes that Neutron shows; those that only we show are extensions of ours."""
    if collection.rpartition("/")[2] in AGENTS and PROBLEMS in ours.get("configurations", {}):
        ignored |= REPORTED
    for name, value in theirs.items():
        if name in ignored:
            continue
        if name not in ours:
            yield Difference(collection, key, name, _shown(name, value), "not shown")
        elif _comparable(value) != _comparable(ours[name]):
            yield Difference(collection, key, name, _shown(name, value), _shown(name, ours[name]))


def _shown(name: str, value: object) -> str:
    return "***" if name in SECRETS else json.dumps(value)


def _ignored(allowed: Mapping[str, frozenset[str]], collection: str) -> frozenset[str]:
    """Those of the collection, or of all collections of its kind below objects."""
    return allowed[collection] if collection in allowed else allowed.get(collection.rpartition("/")[2], frozenset())


def key_of(one: Object) -> str:
    """The id of an object; objects without one are told apart by their host, port or project."""
    names = ("id", "host", "fixed_port_id", "project_id")
    return str(next((one[name] for name in names if one.get(name)), ""))


def _comparable(value: object) -> object:
    """Lists without their order, which neither API promises; their items as text."""
    if isinstance(value, list):
        return sorted(json.dumps(_comparable(item), sort_keys=True) for item in value)
    if isinstance(value, dict):
        return {key: _comparable(item) for key, item in value.items() if key not in NESTED and item is not None}
    return value
