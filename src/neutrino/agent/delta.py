"""Difference of desired and actual state: what to add, change and remove. Pure."""

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_ABSENT = object()


@dataclasses.dataclass(frozen=True)
class Delta(Generic[K, V]):
    add: Mapping[K, V] = dataclasses.field(default_factory=dict)
    change: Mapping[K, tuple[V, V]] = dataclasses.field(default_factory=dict)  # from, to
    remove: Mapping[K, V] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.add) + len(self.change) + len(self.remove)


def diff(desired: Mapping[K, V], actual: Mapping[K, V]) -> Delta[K, V]:
    """What turns `actual` into `desired`."""
    add: dict[K, V] = {}
    change: dict[K, tuple[V, V]] = {}
    for key, value in desired.items():
        known = actual.get(key, _ABSENT)
        if known is value:
            continue
        if known is _ABSENT:
            add[key] = value
        elif known != value:
            change[key] = actual[key], value
    return Delta(add, change, remove={key: value for key, value in actual.items() if key not in desired})
