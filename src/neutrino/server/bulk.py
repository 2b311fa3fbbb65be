"""Several objects in one request, where each is a change of its own: all of them come to be, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Object = dict[str, Any]


def one_by_one(
    several: Sequence[Object], create: Callable[[Object], Object], take_back: Callable[[str], None]
) -> list[Object]:
    """One after the other; what was made is taken back, by its id, when a later one is refused."""
    made: list[Object] = []
    try:
        for values in several:
            made.append(create(values))
    except Exception:
        for one in reversed(made):
            take_back(one["id"])
        raise
    return made
