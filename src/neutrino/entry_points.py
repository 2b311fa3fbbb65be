"""Entry points of installed packages, by group: the metadata of all packages is read once, not for each group."""

import sys
from functools import cache
from importlib import metadata
from typing import Protocol


class _Selectable(Protocol):
    """`SelectableGroups` up to Python 3.11, then `EntryPoints`."""

    def select(self, *, group: str) -> metadata.EntryPoints: ...


def of_group(group: str) -> metadata.EntryPoints:
    return _of_group(group, tuple(sys.path))


@cache
def _of_group(group: str, path: tuple[str, ...]) -> metadata.EntryPoints:
    return _all(path).select(group=group)


@cache
def _all(_path: tuple[str, ...]) -> _Selectable:
    return metadata.entry_points()
