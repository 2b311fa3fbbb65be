"""Catalog of the API: binds each resource definition to the collection object that serves it.

A plugin has two attributes:

    collections = ((PORT, ports), (BINDING, bindings))     resource definitions with the objects that serve them
    extensions = (Extension(...), ...)                     aliases for GET /v2.0/extensions

A collection has a method for each verb that its resource allows. For a child resource (`Resource.parent`) the id of the
parent comes before the other arguments, as in `show(context, parent_id, key, fields, everyone)`:

    index(context, query)                     rows of a list; an iterator is streamed
    show(context, key, fields, everyone)      one row, or None; `everyone`: not only what the caller's project may see
    create(context, values)                   the created object
    create_several(context, list_of_values)   optional, for bulk requests: all objects, or none
    update(context, key, values, revision)    the object after the update; `revision`: required by If-Match, or None
    delete(context, key, revision)
    delete_cascade(context, key, revision, permit)
                                              optional, for `?cascade=true`: with all that is in it; see `cascade.py`
    target(context, values)                   optional: attributes of the parent object, for policy rules
    also_creates(context, values)             optional: objects that are created along with it, whose policy rules apply too
                                              optional: the same for an update, an action with this body, or a delete
                                              without values; and for `show` with these fields before it
    <action>(context, key, body)              one method for each `Resource.actions`
    <lookup>(context, key)                    one method for each `Resource.lookups`

Methods may be spread over several objects, `(ROUTER, routers, interfaces)`: the first that has the method is used.
Missing methods are reported when the server is assembled, not by the first request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from neutrino.server.api.definition import Extension, Resource


class Plugin(Protocol):
    """The core plugin, or a service plugin (`neutrino.service_plugins`)."""

    @property
    def collections(self) -> Sequence[tuple[Any, ...]]: ...

    @property
    def extensions(self) -> Sequence[Extension]: ...


@dataclass(frozen=True)
class AlsoCreated:
    """An object that is created along with the requested one, as a client would have created it by itself."""

    resource: Resource
    values: Mapping[str, Any]  # what the request determines of it
    related: Mapping[str, Any]  # attributes of its parent, as `target` returns them


@dataclass(frozen=True)
class Served:
    """A resource with the methods that serve it; None where the resource does not have the verb."""

    resource: Resource
    index: Any = None
    show: Any = None
    create: Any = None
    create_several: Any = None
    update: Any = None
    delete: Any = None
    delete_cascade: Any = None
    target: Any = None
    also_creates: Any = None
    actions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    lookups: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


class MissingMethod(Exception):
    """A plugin offers a resource with a collection that lacks a method for it."""


def serve(plugins: Iterable[Plugin]) -> list[Served]:
    return [bind(resource, *objects) for plugin in plugins for resource, *objects in plugin.collections]


def bind(resource: Resource, *objects: Any) -> Served:
    def optional(name: str) -> Any:
        return next((getattr(one, name) for one in objects if hasattr(one, name)), None)

    def required(name: str) -> Any:
        method = optional(name)
        if method is None:
            raise MissingMethod(f"{type(objects[0]).__name__} serves {resource.collection} without {name}()")
        return method

    return Served(
        resource,
        create_several=optional("create_several") if resource.owned else None,
        delete_cascade=optional("delete_cascade"),
        target=optional("target"),
        also_creates=optional("also_creates"),
        actions={action: required(action) for action in resource.actions},
        lookups={lookup: required(lookup) for lookup in resource.lookups},
        **{verb: required(verb) for verb in resource.verbs},
    )
