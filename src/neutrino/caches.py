"""Caches of pure functions in a process that runs for months.

Most of their results are those of objects that have been deleted since. `lru_cache` keeps them until it is full, and it has
to be large: a cache with fewer places than a host has ports would never hit, as each run asks for all ports in turn. So the
agent clears these caches every few minutes, and the next run fills them with what the host has then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_CACHES: list[_lru_cache_wrapper[Any]] = []


def cached(maxsize: int) -> Callable[[Callable[..., _Result]], _lru_cache_wrapper[_Result]]:
    """As `lru_cache`, for a function of a module: `clear` empties its cache."""

    def decorate(function: Callable[..., _Result]) -> _lru_cache_wrapper[_Result]:
        wrapped = lru_cache(maxsize=maxsize)(function)
        _CACHES.append(wrapped)
        return wrapped

    return decorate


def clear() -> None:
    for each in _CACHES:
        each.cache_clear()
