"""Parsing of request bodies: JSON, its envelope, and every attribute by its definition."""

import copy
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET

from neutrino.model.objects import Object
from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Resource
from neutrino.server.api.types import parse_attribute
from neutrino.server.context import Context

# Objects of a bulk create: all are parsed before the policy is evaluated, and written in one transaction.
MAX_BULK = 500


@dataclass(frozen=True, slots=True)
class Item:
    """One object of a request: its values with defaults, and the names that the client gave."""

    values: Object
    given: tuple[str, ...]


def decode(raw: bytes) -> Any:
    if not raw:
        raise errors.HTTPBadRequest("The request has no body.")
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise errors.HTTPBadRequest("The body is not JSON.") from None


def items_to_create(resource: Resource, body: object, context: Context) -> tuple[list[Item], bool]:
    """The objects to create, and whether it is a bulk create."""
    if not isinstance(body, dict):
        raise errors.HTTPBadRequest("The body is not a JSON object.")
    if resource.collection in body and resource.owned:
        several = body[resource.collection]
        if not isinstance(several, list) or not several:
            raise errors.HTTPBadRequest(f"'{resource.collection}' is not a list of objects to create.")
        if len(several) > MAX_BULK:
            raise errors.HTTPBadRequest(
                f"Invalid input for {resource.collection}: it has {len(several)} items, and at most {MAX_BULK} are "
                "created at once."
            )
        return [_to_create(resource, _unwrapped(resource, one), context) for one in several], True
    return [_to_create(resource, _only(resource, body), context)], False


def _unwrapped(resource: Resource, one: object) -> object:
    """Remove the envelope of an object: in a bulk create it may have the envelope of a single create."""
    return one[resource.name] if isinstance(one, dict) and one.keys() == {resource.name} else one


def _only(resource: Resource, body: object) -> object:
    if not isinstance(body, dict) or resource.name not in body:
        raise errors.HTTPBadRequest(f"The body has no '{resource.name}'.")
    return body[resource.name]


def _checked(resource: Resource, one: object, verb: str) -> Object:
    if not isinstance(one, dict):
        raise errors.HTTPBadRequest(f"'{resource.name}' in the body is not a JSON object.")
    unknown = [name for name in one if SYNONYMS.get(name, name) not in resource.by_name]
    if unknown:
        raise errors.HTTPBadRequest(f"A {resource.name} has no attribute {', '.join(map(repr, unknown))}.")
    out: Object = {}
    for given, value in one.items():
        name = SYNONYMS.get(given, str(given))
        if name in out and out[name] != value:
            raise errors.HTTPBadRequest(f"Two different values are given for {name}.")
        out[name] = value
    for name in out:
        attribute = resource.by_name[name]
        if not (attribute.post if verb == "POST" else attribute.put):
            raise errors.HTTPBadRequest(f"'{name}' cannot be set by {verb}.")
    return out


# Deprecated names of attributes, in bodies, filters, sort keys and fields.
SYNONYMS = {"tenant_id": "project_id", "target_project": "target_tenant"}


def _to_create(resource: Resource, one: object, context: Context) -> Item:
    given = _checked(resource, one, "POST")
    values: Object = {}
    for attribute in resource.attributes:
        if attribute.name in given:
            values[attribute.name] = parse_attribute(attribute.name, attribute.type, given[attribute.name])
        elif attribute.default is REQUIRED:
            raise errors.HTTPBadRequest(f"'{attribute.name}' is required.")
        elif attribute.post and attribute.default is not UNSET:
            # Copied: plugins may change a list, and the definition is shared by all requests.
            values[attribute.name] = copy.copy(attribute.default)
    if resource.owned and not _is_for_all(resource, values, context):
        values["project_id"] = _owner(values.get("project_id"), context)
    return Item(values, tuple(given))


def _is_for_all(resource: Resource, values: Object, context: Context) -> bool:
    """Whether the object is for the whole cloud, which only an administrator may ask for."""
    if not resource.cloud_wide or values.get("project_id", "") is not None:
        return False
    if not context.is_admin:
        raise errors.HTTPBadRequest("A null project_id, for all projects, needs administrative rights.")
    return True


def _owner(asked: str | None, context: Context) -> str:
    """The project of a new object. Administrators, services and roles of `context_can_set_project_id` give another one."""
    if not asked:
        if context.project_id is None:
            raise errors.HTTPBadRequest("The caller has no project: 'project_id' is required.")
        return context.project_id
    may_choose = context.is_admin or context.can_set_project_id or context.roles & {"service", "advsvc"}
    if asked != context.project_id and not may_choose:
        raise errors.HTTPBadRequest("A project_id other than the caller's own needs administrative rights.")
    return asked


def item_to_update(resource: Resource, body: object) -> Item:
    given = _checked(resource, _only(resource, body), "PUT")
    values = {name: parse_attribute(name, resource.by_name[name].type, value) for name, value in given.items()}
    return Item(values, tuple(given))
