"""The order of test files, and which of them run in one worker."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import WITH_KEYSTONE, ordered, unit_of_work

ROOT = Path(__file__).parents[1]


def test_files_with_keystone_are_two_units_and_others_their_own() -> None:
    assert unit_of_work("tests/api/test_ports.py::test_one[sqlite]") == "tests/api/test_ports.py"
    clients = {unit_of_work(f"{each}x.py::test_one") for each in ("tests/clients/", "tests/clients/test_")}
    assert clients == {"tests/clients/"}
    assert unit_of_work("tests/functional/test_keystone.py::test_one") == "keystone"
    assert unit_of_work("tests/functional/test_up_machine.py::test_one") == "tests/functional/test_up_machine.py"


def test_every_file_that_asks_for_a_keystone_is_in_one_of_them() -> None:
    asking = [
        path.relative_to(ROOT.parent).as_posix()
        for path in sorted(ROOT.glob("*/test_*.py"))
        if re.search(r"keystone: Keystone[,)]", path.read_text()) or path.parent.name == "clients"
    ]
    assert asking
    assert [path for path in asking if not path.startswith(WITH_KEYSTONE)] == []
    assert all((ROOT.parent / each).exists() for each in WITH_KEYSTONE)


def test_waiting_files_alternate_with_computing_ones_and_short_ones_are_last() -> None:
    keystone = "functional/test_keystone.py"
    paths = ["unit/a", "api/a", "api/b", "api/c", "lab/a", "clients/a", "functional/a", keystone, "faults/a"]
    items: list[Any] = [SimpleNamespace(path=ROOT / path) for path in paths]
    found = [item.path.relative_to(ROOT).as_posix() for item in ordered(items, ROOT)]
    waiting, computing = [keystone, "clients/a", "lab/a", "functional/a"], ["api/a", "api/b", "api/c", "faults/a"]
    assert found == [*chain.from_iterable(zip(waiting, computing, strict=True)), "unit/a"]
