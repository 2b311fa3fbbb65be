"""Documents that name tests and files, or link to pages, name ones that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path.relative_to(ROOT) for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")))
REFERENCE = re.compile(r"((?:tests|qa)/[\w/]+\.py)(?:::(\w+))?")


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
    parts = {"A": 6, "B": 5, "C": 3, "D": 7, "E": 12, "F": 3, "G": 10, "H": 11}
    ids = re.findall(r"^\| ([A-H]\d+) \|", text, re.MULTILINE)
    assert ids == [f"{letter}{number + 1}" for letter, count in parts.items() for number in range(count)]


def test_files_that_features_name_exist() -> None:
    """Tests are named with their folder, or follow one that was."""
    missing = []
    for row in (ROOT / "docs/features.md").read_text().splitlines():
        folder = ""
        for name in re.findall(r"`((?:(?:tests|qa)/)?[\w/*.{},]+)`", row):
            if name.startswith(("tests/", "qa/")):
                folder = str(Path(name).parent)
            path = name if "/" in name else f"{folder}/{name}"
            if name.startswith(("tests/", "qa/", "test_")) and not list(ROOT.glob(path.removesuffix("/"))):
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


# --- modules, and the names that pages claim to be in them --------------------------------------------------------------

SOURCES = sorted(path for folder in ("src", "tests", "qa", "packaging") for path in (ROOT / folder).rglob("*.py"))
IDENTIFIER = re.compile(r"`([A-Za-z_][\w.]*)`")


def modules(name: str) -> list[Path]:
    """The modules that a page means: it leaves out the folders that its reader knows."""
    return [path for path in SOURCES if path.as_posix().endswith(f"/{name}")]


def words(path: Path) -> set[str]:
    return set(re.findall(r"\w+", path.read_text()))


def claimed(text: str) -> list[tuple[str, str]]:
    """Names and the modules that they are said to be in: rows of tables of modules, and "`name` (`module.py`)"."""
    found = []
    for module, description in re.findall(r"^\| `([\w/]+\.py)` \| (.*)\|$", text, re.MULTILINE):
        # Classes, and names with an underscore: a single word may be anything.
        names = [
            name for name in IDENTIFIER.findall(description) if re.search(r"[A-Z][a-z]|_", name.rpartition(".")[2])
        ]
        found += [(name, module) for name in names]
    found += re.findall(r"`([A-Za-z_][\w.]*)`(?:,? in|:)? ?\(`([\w/]+\.py)`\)", text)
    return [(name.rpartition(".")[2], module) for name, module in found if not name.endswith(".py")]


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_modules_that_a_page_names_exist_and_have_what_it_says(page: Path) -> None:
    text = (ROOT / page).read_text()
    if page.name != "CHANGELOG.md":  # older entries name what was there then
        named = re.findall(r"`([\w/]+\.py)`", text)
        assert [name for name in named if not modules(name)] == []
    wrong = [(n, module) for n, module in claimed(text) if not any(n in words(path) for path in modules(module))]
    assert wrong == []


def test_a_claim_about_a_module_that_lacks_it_is_found() -> None:
    row = "| `server/events/notifications.py` | `notifier_from_conf`; `NoSuchClass`, `messagingv2` |\n"
    assert claimed(row) == [(name, "server/events/notifications.py") for name in ("notifier_from_conf", "NoSuchClass")]
    (path,) = modules("server/events/notifications.py")
    assert "NoSuchClass" not in words(path)
    assert claimed("`Bgpd.write` (`agent/bgp/bgpd.py`)") == [("write", "agent/bgp/bgpd.py")]
    assert modules("agent/no_such_module.py") == []
