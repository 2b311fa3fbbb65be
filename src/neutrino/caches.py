"""Caches of pure functions in a process that runs for months.

Most of their results are those of objects that have been deleted since. `lru_cache` keeps them until it is full, and it has
to be large: a cache with fewer places than a host has ports would never hit, as each run asks for all ports in turn. So the
agent clears these caches every few minutes, and the next run fills them with what the host has then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

_Result = TypeVar("_Result")
_CLEAR: list[Callable[[], None]] = []  # for each cache


def cached(maxsize: int) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Cache the results of a function of a module, as `lru_cache` does: `clear` empties the cache."""

    def decorate(function: Callable[..., _Result]) -> Callable[..., _Result]:
        wrapped = lru_cache(maxsize=maxsize)(function)
        _CLEAR.append(wrapped.cache_clear)
        return wrapped

    return decorate


def clear() -> None:
    for clear_one in _CLEAR:
        clear_one()
