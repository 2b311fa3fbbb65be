"""ARCHITECTURE.md and the design pages name every module, and only existing ones; the walks are short.

A module is named by its path from src/neutrino/, in backticks: `agent/l2/plan.py`, or grouped: `agent/l2/{plan,role}.py`. A
folder with one file per resource may be named with an asterisk: `server/api/resources/*.py`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "neutrino"
PAGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "design").glob("*.md"))]
WALKS = ROOT / "docs" / "design" / "walks.md"
MAX_FILES = 22
CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w/{},*-]+\.py")
BRACES = re.compile(r"\{([^{}]*)\}")

MODULES = {
    str(path.relative_to(SOURCE))
    for path in SOURCE.rglob("*.py")
    # A package's own file is described by its folder; migrations are named by their folder too.
    if path.name != "__init__.py" and "versions" not in path.parts
}
FOLDERS = {path.name for path in SOURCE.iterdir() if path.is_dir()}


def expand(path: str) -> Iterator[str]:
    """The alternatives of a path with braces."""
    parts = BRACES.split(path)
    choices = [part.split(",") if number % 2 else [part] for number, part in enumerate(parts)]
    return ("".join(choice) for choice in itertools.product(*choices))


def named(text: str) -> set[str]:
    """Paths of modules in backticks, from src/neutrino/; other paths and file names without a folder are left out."""
    found = set()
    for code in CODE.findall(text):
        for path in itertools.chain.from_iterable(expand(each) for each in PATH.findall(code)):
            path = path.removeprefix("src/neutrino/")
            if path.partition("/")[0] in FOLDERS or path in MODULES:
                found.add(path)
    return found


def exists(path: str) -> bool:
    return (
        any(fnmatch(module, path) and module.count("/") == path.count("/") for module in MODULES)
        or (SOURCE / path).is_file()
    )


def test_every_module_is_named() -> None:
    paths = set().union(*(named(page.read_text()) for page in PAGES))
    patterns = [path for path in paths if "*" in path]

    def is_named(module: str) -> bool:
        return module in paths or any(
            fnmatch(module, pattern) and module.count("/") == pattern.count("/") for pattern in patterns
        )

    assert sorted(module for module in MODULES if not is_named(module)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_named_module_exists(page: Path) -> None:
    assert sorted(path for path in named(page.read_text()) if not exists(path)) == []


@pytest.mark.parametrize("walk", ["A port's MAC from POST to flow", "A floating IP from POST to nft map"])
def test_a_walk_is_short_and_names_existing_files(walk: str) -> None:
    """A walk is a section of walks.md, a numbered list of files in the order in which the data passes them. Every path in
    a list item counts, so that no step hides a second file."""
    _, heading, rest = WALKS.read_text().partition(f"## {walk}\n")
    assert heading, f"docs/design/walks.md has no section '{walk}'"
    section = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    items = re.findall(r"^\d+\. (`[^`]+\.py`.*)$", section, re.MULTILINE)
    files = [path for item in items for path in re.findall(r"[\w/]+\.py", item)]
    assert [path for path in files if not (SOURCE / path).is_file()] == []
    assert 5 <= len(files) <= MAX_FILES, f"{len(files)} files"
    assert len(files) == len(set(files)), "a walk that returns to a file is no walk in one direction"
