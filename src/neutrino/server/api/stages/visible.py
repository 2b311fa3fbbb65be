"""What a caller gets to see: hidden rows and attributes, filters and orders by them, and the encoding of lists.

An attribute that the policy hides from the caller does not exist for a list: a filter by it matches nothing and an order
by it is ignored, because either would disclose its values.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from neutrino.model.objects import Object
from neutrino.server.api.definition import Resource
from neutrino.server.policy.authorizer import Visibility
from neutrino.server.query import Query

BATCH = 100  # objects in memory at once; with 500, a list of 5,000 ports leaves 5 MB more in a worker
# Filters that have another name than the attribute that they look at.
FILTERED_ATTRIBUTES = {"tags-any": "tags", "not-tags": "tags", "not-tags-any": "tags", "changed_since": "updated_at"}
_encode_into = msgspec.json.Encoder(enc_hook=str).encode_into

# --- attributes -------------------------------------------------------------------------------------------------------


def visible_names(resource: Resource) -> tuple[str, ...]:
    return (*resource.visible, "tenant_id") if "project_id" in resource.by_name else resource.visible


def names_to_fetch(resource: Resource, fields: Sequence[str] | None, visibility: Visibility) -> tuple[str, ...] | None:
    """The attributes to read: those shown, and those that the policy's decision depends on."""
    if visibility.everything:
        return tuple(fields) if fields is not None else None
    shown = fields if fields is not None else visible_names(resource)
    return tuple(dict.fromkeys([*shown, *visibility.needs]))


def present(
    resource: Resource, objects: Iterable[Object], visibility: Visibility, fields: Sequence[str] | None
) -> list[Object]:
    """The objects as the caller may see them, without those that the policy hides."""
    if visibility.everything and fields is None:  # only visible attributes were fetched
        return list(objects)
    names = tuple(fields) if fields is not None else visible_names(resource)
    out = []
    for row in objects:
        hidden = visibility.hidden(row)
        if hidden is not None:
            out.append({name: row[name] for name in names if name in row and name not in hidden})
    return out


def present_own(resource: Resource, row: Object, visibility: Visibility) -> Object:
    """An object that the caller has just written: shown even if the policy does not let the caller read it, but without
    the attributes that the policy hides.
    """
    hidden = visibility.hidden_attributes(row)
    return {name: row[name] for name in visible_names(resource) if name in row and name not in hidden}


# --- lists ------------------------------------------------------------------------------------------------------------


def filtered_by(query: Query) -> frozenset[str]:
    """The attributes that the filters look at."""
    return frozenset(FILTERED_ATTRIBUTES.get(name, name) for name in query.filters)


def permitted_query(query: Query, visibility: Visibility) -> Query | None:
    """The query without orders by hidden attributes; None if a filter looks at an attribute that is always hidden.

    If a filtered attribute is hidden in some rows, those rows are dropped after the query, so the page is cut after that
    too (`matching_page`).
    """
    if filtered_by(query) & visibility.never:
        return None
    # An order by an attribute that is hidden in some rows would disclose it by their position.
    hidden = visibility.never | visibility.sometimes
    permitted = replace(query, sorts=tuple(sort for sort in query.sorts if sort.key not in hidden))
    if not filtered_by(query) & visibility.sometimes:
        return permitted
    return replace(permitted, limit=None, is_ordered=query.limit is not None)


def matching_page(rows: Iterable[Object], query: Query, visibility: Visibility) -> Iterable[Object]:
    """The rows in which the caller may see all filtered attributes; of these, the page."""
    names = filtered_by(query)
    if not names & visibility.sometimes:
        return rows  # the database has matched them
    found = (row for row in rows if (hidden := visibility.hidden(row)) is not None and not hidden & names)
    if query.limit is None:
        return found
    every = list(found)
    return every[-query.limit :] if query.reverse else every[: query.limit]


def in_batches(objects: Iterator[Object]) -> Iterator[list[Object]]:
    while batch := list(itertools.islice(objects, BATCH)):
        yield batch


def encode_list(collection: str, batches: Iterable[Sequence[Object]]) -> deque[bytes]:
    """A whole list as JSON, in parts. A batch is encoded before the next one is read: memory holds one batch of objects."""
    parts = deque([b'{"%b":[' % collection.encode()])
    buffer = bytearray()  # one for all batches: a part is copied once
    for batch in batches:
        _encode_into(batch, buffer)
        if len(buffer) > len(b"[]"):
            buffer[:1] = b","
            parts.append(bytes(memoryview(buffer)[1 if len(parts) == 1 else 0 : -1]))
    parts.append(b"]}")
    return parts
