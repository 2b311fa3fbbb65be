"""Documents that name tests and files, or link to pages, name ones that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
REFERENCE = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_tests_that_a_page_names_exist(page: Path) -> None:
    missing = []
    for path, name in REFERENCE.findall((ROOT / page).read_text()):
        file = ROOT / path
        if not file.is_file() or (name and f"def {name}(" not in file.read_text()):
            missing.append(f"{path}::{name}" if name else path)
    assert missing == []


def test_features_have_a_row_for_every_part() -> None:
    """Parts A to G are those of the system that this project replaces: none is left out of the table."""
    text = (ROOT / "docs/features.md").read_text()
    parts = {"A": 6, "B": 5, "C": 3, "D": 7, "E": 12, "F": 3, "G": 10, "H": 8}
    ids = re.findall(r"^\| ([A-H]\d+) \|", text, re.MULTILINE)
    assert ids == [f"{letter}{number + 1}" for letter, count in parts.items() for number in range(count)]


def test_files_that_features_name_exist() -> None:
    """Tests are named with their folder, or follow one that was."""
    missing = []
    for row in (ROOT / "docs/features.md").read_text().splitlines():
        folder = ""
        for name in re.findall(r"`((?:tests/)?[\w/*.{},]+)`", row):
            if name.startswith("tests/"):
                folder = str(Path(name).parent)
            path = name if "/" in name else f"{folder}/{name}"
            if name.startswith(("tests/", "test_")) and not list(ROOT.glob(path.removesuffix("/"))):
                missing.append(name)
            elif re.match(r"(server|agent|model|feed|dataplane|cli|lab|configuration)/", name):
                missing += [] if list(ROOT.glob(f"src/neutrino/{name}".removesuffix("/"))) else [name]
    assert missing == []


def anchors(path: Path) -> set[str]:
    """Of the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        file, _, anchor = target.partition("#")
        path = (ROOT / page).parent / file if file else ROOT / page
        if not target.startswith("http") and (not path.exists() or (anchor and anchor not in anchors(path))):
            wrong.append(target)
    assert wrong == []
