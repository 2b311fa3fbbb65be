"""Bulk creates of resources that are written one by one: all objects are created, or none."""

from collections.abc import Callable, Sequence
from typing import Any

Object = dict[str, Any]


def one_by_one(
    several: Sequence[Object], create: Callable[[Object], Object], undo: Callable[[str], None]
) -> list[Object]:
    """Create one after the other; when one is refused, those created before are deleted again, by their ids."""
    made: list[Object] = []
    try:
        for values in several:
            made.append(create(values))
    except Exception:
        for one in reversed(made):
            undo(one["id"])
        raise
    return made
