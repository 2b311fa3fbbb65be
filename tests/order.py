"""The order in which files of tests run: those that wait beside those that compute, and the short ones last.

A lab waits for its hosts most of the time, a test of the API computes: side by side they take less time than all of one
kind after the other. What is left when some workers have nothing to do any more should be short.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest
from pathlib import Path

import pytest

WAITING = ("lab", "clients", "functional")  # those that take longest first
SHORT = ("unit",)


def ordered(items: Iterable[pytest.Item], root: Path) -> list[pytest.Item]:
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def kind(path: Path) -> str:
        return path.relative_to(root).parts[0]

    waiting = [files[path] for one in WAITING for path in files if kind(path) == one]
    short = [files[path] for path in files if kind(path) in SHORT]
    computing = [files[path] for path in files if kind(path) not in (*WAITING, *SHORT)]
    beside = chain.from_iterable(zip_longest(waiting, computing, fillvalue=()))
    return list(chain.from_iterable([*beside, *short]))
