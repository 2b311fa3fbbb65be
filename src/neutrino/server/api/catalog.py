"""Which plugin serves which resource: methods are found by rule, once, at the start.

For a resource `thing` of collection `things`, a plugin has `get_things`, `get_thing`, `create_thing`, `update_thing`,
`delete_thing` and, where the resource takes several at once, `create_thing_bulk`; below a parent, `get_parent_things`
and so on, with the parent's id before the rest. An action is a method of its own name. `thing_target`, where there is one,
tells what the policy may want to know of the objects that a new `thing` will belong to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from neutrino.server.api.definition import Extension, Resource


class Plugin(Protocol):
    """What a plugin shows of itself; the methods above come with its resources."""

    resources: Sequence[Resource]
    extensions: Sequence[Extension]


Method = Callable[..., Any]


@dataclass(frozen=True)
class Served:
    resource: Resource
    index: Method | None = None
    show: Method | None = None
    create: Method | None = None
    create_bulk: Method | None = None
    update: Method | None = None
    delete: Method | None = None
    target: Method | None = None
    actions: Mapping[str, Method] = field(default_factory=dict)


class MissingMethod(Exception):
    """A plugin declares a resource and lacks a method for it."""


def serve(plugins: Iterable[Any]) -> list[Served]:
    return [_served(plugin, resource) for plugin in plugins for resource in plugin.resources]


def _served(plugin: Any, resource: Resource) -> Served:
    infix = f"{resource.parent.name}_" if resource.parent else ""
    single = f"{infix}{resource.name}".replace("-", "_")
    several = f"{infix}{resource.collection}".replace("-", "_")

    def method(name: str, verb: str) -> Method | None:
        if verb not in resource.verbs:
            return None
        found: Method | None = getattr(plugin, name, None)
        if found is None:
            raise MissingMethod(f"{type(plugin).__name__} serves {resource.collection} without {name}()")
        return found

    return Served(
        resource,
        index=method(f"get_{several}", "index"),
        show=method(f"get_{single}", "show"),
        create=method(f"create_{single}", "create"),
        create_bulk=getattr(plugin, f"create_{single}_bulk", None) if resource.bulk else None,
        update=method(f"update_{single}", "update"),
        delete=method(f"delete_{single}", "delete"),
        target=getattr(plugin, f"{single}_target", None),
        actions={action.name: getattr(plugin, action.name) for action in resource.actions},
    )
