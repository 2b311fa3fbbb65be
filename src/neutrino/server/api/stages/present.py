"""What of an object its reader gets to see."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass
class Parts:
    """A body in parts, which are given away one by one: nobody keeps a long one as a whole."""

    parts: deque[bytes]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[bytes]:
        while self.parts:
            yield self.parts.popleft()


def encode_list(collection: str, batches: Iterable[Sequence[Object]]) -> Parts:
    """A whole list as JSON. Each batch becomes bytes before the next is read: ten thousand objects need not be at once."""
    parts = deque([b'{"%b":[' % collection.encode()])
    for batch in batches:
        encoded = _encode(batch)[1:-1]
        if encoded:
            parts.append(b"," + encoded if len(parts) > 1 else encoded)
    parts.append(b"]}")
    return Parts(parts)
