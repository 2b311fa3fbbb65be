"""Desired against actual: what to add, what to change, what to remove. Pure, and the same for every kind of object."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclasses.dataclass(frozen=True)
class Delta(Generic[K, V]):
    add: Mapping[K, V]
    change: Mapping[K, tuple[V, V]]  # from, to
    remove: Mapping[K, V]

    def __bool__(self) -> bool:
        return bool(self.add or self.change or self.remove)


def diff(desired: Mapping[K, V], actual: Mapping[K, V]) -> Delta[K, V]:
    """What makes `actual` into `desired`; what is right already is in none of it."""
    return Delta(
        add={key: value for key, value in desired.items() if key not in actual},
        change={key: (actual[key], value) for key, value in desired.items() if key in actual and actual[key] != value},
        remove={key: value for key, value in actual.items() if key not in desired},
    )
