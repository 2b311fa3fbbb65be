"""What of an object its reader gets to see."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from neutrino.server.api.definition import Resource
from neutrino.server.policy.authorizer import Sight

Object = dict[str, Any]
BATCH = 500
_encode = msgspec.json.Encoder(enc_hook=str).encode


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


def in_batches(objects: Iterator[Object]) -> Iterator[list[Object]]:
    while batch := list(itertools.islice(objects, BATCH)):
        yield batch


def encode_list(collection: str, batches: Iterable[Sequence[Object]]) -> bytes:
    """A whole list as JSON. Each batch becomes bytes before the next is read: ten thousand objects need not be at once."""
    parts = [_encode(batch)[1:-1] for batch in batches]
    return b'{"%b":[%b]}' % (collection.encode(), b",".join(part for part in parts if part))
