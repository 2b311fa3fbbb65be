"""The order in which files of tests run: those that wait beside those that compute, and the short ones last.

A lab waits for its hosts most of the time, a test of the API computes: side by side they take less time than all of one
kind after the other. What is left when some workers have nothing to do any more should be short.

Files that need a Keystone run in two workers, as each worker would start a Keystone of its own: those of clients in one,
the others in another. They are the longest units of work, and the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, zip_longest
from pathlib import Path

import pytest

WAITING = ("clients", "lab", "functional")  # those that take longest first
SHORT = ("unit",)
CLIENTS = "tests/clients/"
WITH_KEYSTONE = (
    CLIENTS,
    "tests/functional/test_cloud.py",
    "tests/functional/test_keystone.py",
    "tests/functional/test_runtime_lock.py",
    "tests/functional/test_slow_clients.py",
    "tests/functional/test_support_servers.py",
    "tests/functional/test_ui_login.py",
    "tests/functional/test_up.py",
)


def ordered(items: Iterable[pytest.Item], root: Path) -> list[pytest.Item]:
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)

    def kind(path: Path) -> str:
        return path.relative_to(root).parts[0]

    def needs_keystone(path: Path) -> bool:
        return f"tests/{path.relative_to(root).as_posix()}".startswith(WITH_KEYSTONE)

    waiting = [path for one in WAITING for path in files if kind(path) == one]
    waiting.sort(key=lambda path: (not needs_keystone(path), kind(path) == "clients"))  # clients begin a moment later
    short = [files[path] for path in files if kind(path) in SHORT]
    computing = [files[path] for path in files if kind(path) not in (*WAITING, *SHORT)]
    beside = chain.from_iterable(zip_longest([files[path] for path in waiting], computing, fillvalue=()))
    return list(chain.from_iterable([*beside, *short]))


def unit_of_work(nodeid: str) -> str:
    """Tests of one unit run in one worker: those of a file, of all clients, of all other files that need a Keystone."""
    if nodeid.startswith(CLIENTS):
        return CLIENTS
    return "keystone" if nodeid.startswith(WITH_KEYSTONE) else nodeid.split("::", 1)[0]
