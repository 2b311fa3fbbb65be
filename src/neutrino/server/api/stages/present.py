"""What of an object its reader gets to see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from neutrino.server.api.definition import Resource
from neutrino.server.policy.authorizer import Sight

Object = dict[str, Any]


def names_to_fetch(resource: Resource, fields: Sequence[str] | None, sight: Sight) -> tuple[str, ...] | None:
    """What to ask the plugin for: what is shown, and what the policy looks at to decide."""
    if sight.everything:
        return tuple(fields) if fields is not None else None
    shown = fields if fields is not None else visible_names(resource)
    return tuple(dict.fromkeys([*shown, *sight.needs]))


def visible_names(resource: Resource) -> tuple[str, ...]:
    return (*resource.visible, "tenant_id") if "project_id" in resource.by_name else resource.visible


def present(resource: Resource, objects: Iterable[Object], sight: Sight, fields: Sequence[str] | None) -> list[Object]:
    """The objects as this reader may see them; those that the policy hides are left out."""
    if sight.everything and fields is None:  # the plugin was asked for just what is visible
        return list(objects)
    names = tuple(fields) if fields is not None else visible_names(resource)
    out = []
    for row in objects:
        hidden = sight.names(row)
        if hidden is None:
            continue
        out.append({name: row[name] for name in names if name in row and name not in hidden})
    return out
