"""Lists by attributes that the caller may not see: a filter or an order by one would tell its values.

An attribute that is hidden from the caller is, for a list, one that the object does not have: no filter matches it, and an
order by it is no order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from neutrino.server.policy.authorizer import Sight
from neutrino.server.query import Query

Object = dict[str, Any]
# Filters that are not named as the attribute that they look at.
LOOK_AT = {"tags-any": "tags", "not-tags": "tags", "not-tags-any": "tags", "changed_since": "updated_at"}


def filtered_by(query: Query) -> frozenset[str]:
    """The attributes that the filters look at."""
    return frozenset(LOOK_AT.get(name, name) for name in query.filters)


def query_seen(query: Query, sight: Sight) -> Query | None:
    """What to ask the plugin for, or None where a filter matches nothing that the caller may see.

    Where an attribute is hidden in some rows, rows are left out after the query (`matching`), so the page is cut after it
    too (`page_of`).
    """
    if filtered_by(query) & sight.never:
        return None
    hidden = sight.never | sight.sometimes
    seen = replace(query, sorts=tuple(sort for sort in query.sorts if sort.key not in hidden))
    if not filtered_by(query) & sight.sometimes:
        return seen
    return replace(seen, limit=None, is_ordered=query.limit is not None)


def matching(rows: Iterable[Object], names: frozenset[str], sight: Sight) -> Iterator[Object]:
    """The rows in which the caller may see all these attributes."""
    for row in rows:
        hidden = sight.names(row)
        if hidden is not None and not hidden & names:
            yield row


def page_of(rows: Iterator[Object], query: Query) -> Iterable[Object]:
    if query.limit is None:
        return rows
    every = list(rows)
    return every[-query.limit :] if query.reverse else every[: query.limit]
