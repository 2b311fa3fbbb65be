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
    <action>(context, key, body)              one method for each `Resource.actions`
    <lookup>(context, key)                    one method for each `Resource.lookups`

Missing methods are reported when the server is assembled, not by the first request.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from neutrino.model.objects import Object, Values
from neutrino.server.api.cascade import Removed
from neutrino.server.api.definition import Extension, Resource


class Plugin(Protocol):
    """The core plugin, or the plugin of a feature."""

    @property
    def collections(self) -> Sequence[tuple[Resource, object]]: ...

    @property
    def extensions(self) -> Sequence[Extension]: ...


@dataclass(frozen=True)
class AlsoCreated:
    """An object that is created along with the requested one, as a client would have created it by itself."""

    resource: Resource
    values: Values  # what the request determines of it
    related: Values  # attributes of its parent, as `target` returns them


class MissingMethod(Exception):
    """A plugin offers a resource with a collection that lacks a method for it."""


def _missing(*args: object) -> NoReturn:
    raise MissingMethod("the resource does not have this verb")


@dataclass(frozen=True)
class Served:
    """A resource with the methods that serve it, as the pipeline calls them."""

    resource: Resource
    index: Callable[..., Iterable[Object]] = _missing
    show: Callable[..., Object | None] = _missing
    create: Callable[..., Object] = _missing
    create_several: Callable[..., list[Object]] | None = None
    update: Callable[..., Object] = _missing
    delete: Callable[..., None] = _missing
    delete_cascade: Callable[..., Iterable[Removed]] | None = None
    target: Callable[..., Object] | None = None
    also_creates: Callable[..., Iterable[AlsoCreated]] = lambda *args: ()
    actions: Mapping[str, Callable[..., object]] = field(default_factory=dict)
    lookups: Mapping[str, Callable[..., object]] = field(default_factory=dict)


def serve(plugins: Iterable[Plugin]) -> list[Served]:
    return [bind(resource, collection) for plugin in plugins for resource, collection in plugin.collections]


def bind(resource: Resource, collection: object) -> Served:
    """Find the methods of a collection by the verbs, actions and lookups of the resource."""
    names = {*resource.verbs, *resource.actions, *resource.lookups}
    optional = {"delete_cascade", "target", "also_creates", *(("create_several",) if resource.owned else ())}
    methods = {name: method for name in names | optional if (method := getattr(collection, name, None)) is not None}
    if missing := sorted(names - methods.keys()):
        raise MissingMethod(f"{type(collection).__name__} serves {resource.collection} without {missing[0]}()")
    return Served(
        resource,
        actions={action: methods[action] for action in resource.actions},
        lookups={lookup: methods[lookup] for lookup in resource.lookups},
        **{name: method for name, method in methods.items() if name in resource.verbs | optional},
    )
