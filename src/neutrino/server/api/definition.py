"""Declaration of a resource: its attributes and their rules, its verbs, its path.

The files in `resources/` declare resources with these values. Validation, policy, quotas, the OpenAPI document and the
routes are all derived from them, so nothing about an attribute is written twice.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from neutrino.server import errors
from neutrino.server.api.types import Schema, Type

REQUIRED: Final = object()  # the default of an attribute that a create request must give


@dataclass(frozen=True)
class Attribute:
    name: str
    type: Type[object]
    post: bool = False
    put: bool = False
    default: object = UNSET  # the value if a create omits it; UNSET: the plugin decides; REQUIRED: refused
    visible: bool = True
    shown_null: bool = False  # a response may contain null where a request may not
    filter: bool = False
    filter_as: Type[object] | None = None  # the type of filter values, if it is another one
    sort: bool = False
    secret: bool = False  # masked in notifications, which have the request
    guarded: bool = False  # setting it (other than to its default) needs its own policy rule


def creatable(name: str, type_: Type[object], *, searchable: bool = False, **rules: Any) -> Attribute:
    """An attribute that a create request may give; a `searchable` one filters and sorts lists."""
    return Attribute(name, type_, post=True, **({"filter": searchable, "sort": searchable} | rules))


def writable(name: str, type_: Type[object], *, searchable: bool = False, **rules: Any) -> Attribute:
    """An attribute that create and update requests may give."""
    return creatable(name, type_, searchable=searchable, put=True, **rules)


ALL_VERBS: Final = frozenset({"index", "show", "create", "update", "delete"})
TAG_FILTERS: Final = ("tags", "tags-any", "not-tags", "not-tags-any")


@dataclass(frozen=True)
class ActionEvent:
    """The notification of an action: its event type, and the name of the answer in its payload."""

    event_type: str
    payload: str


@dataclass(frozen=True)
class Resource:
    name: str
    attributes: tuple[Attribute, ...]
    collection: str = ""  # by default the name with an s
    path: str = ""  # in URLs, if it differs from the collection
    parent: "Resource | None" = None
    parent_path: str = ""  # of the parents' collection in URLs of children, if it differs from that of the parents' own
    verbs: frozenset[str] = ALL_VERBS
    actions: tuple[str, ...] = ()  # such as add_addresses of PUT /address-groups/{id}/add_addresses
    # Actions of which Neutron notifies once, after they have succeeded, by events with other names than theirs.
    action_events: Mapping[str, ActionEvent] = field(default_factory=dict, hash=False)
    lookups: tuple[str, ...] = ()  # the same by GET: they change nothing
    # JSON schemas by action or lookup: of its body, and of its answer if that is not the object.
    bodies: Mapping[str, Schema] = field(default_factory=dict, hash=False)
    answers: Mapping[str, Schema] = field(default_factory=dict, hash=False)
    key: str = "id"
    quota: bool | str = False  # whether their number is limited; a name if the limit has another one than the resource
    foreign_is_hidden: bool = False  # a refused change of another project's object is answered with 404
    tagged: bool = False
    not_found: type[errors.ApiError] = errors.HTTPNotFound
    hidden: type[errors.ApiError] | None = None  # the error for an object that the caller may not see, if another one
    # A list continues after any marker. After one that does not exist, or that the caller may not see, it is empty.
    any_marker: bool = False
    cloud_wide: bool = False  # an object of which the request says that its project is null is for the whole cloud
    belongs_to: str = ""  # the attribute that names the object on whose owner the policy depends

    def __post_init__(self) -> None:
        if not self.collection:
            object.__setattr__(self, "collection", f"{self.name}s")

    @cached_property
    def by_name(self) -> Mapping[str, Attribute]:
        return MappingProxyType({a.name: a for a in self.attributes})

    @cached_property
    def visible(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.attributes if a.visible)

    @cached_property
    def secrets(self) -> frozenset[str]:
        return frozenset(a.name for a in self.attributes if a.secret)

    @cached_property
    def owned(self) -> bool:
        """Whether objects have a project of their own. Only such resources have bulk creates, as in Neutron."""
        return self.parent is None and "project_id" in self.by_name

    @cached_property
    def full_name(self) -> str:
        """The name, after that of the parent."""
        return f"{self.parent.name}_{self.name}" if self.parent else self.name

    @cached_property
    def quota_name(self) -> str:
        return self.quota if isinstance(self.quota, str) else self.name

    @property
    def tag_filters(self) -> tuple[str, ...]:
        return TAG_FILTERS if self.tagged else ()

    @cached_property
    def url(self) -> str:
        """The path of the collection below `/v2.0/`; a child resource has its parent's id in it."""
        own = self.path or self.collection.replace("_", "-")
        return f"{self.parent_path or self.parent.url}/{{parent}}/{own}" if self.parent else own


@dataclass(frozen=True)
class Extension:
    alias: str
    name: str
    description: str
    updated: str = "2026-01-01T00:00:00-00:00"
