"""Adapts pages of the repository for the site: links to what is no page, and what Python-Markdown reads otherwise; pure."""

import posixpath
import re
from collections.abc import Collection, Sequence

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^([-*+]|\d+\.) ")
# The order in which a reader needs them; pages that are not named here follow by name.
GUIDES = (
    *("operator-guide", "deployment", "takeover", "packaging", "releases", "user-guide", "configuration", "options"),
    *("doctor", "openstack", "databases", "capacity", "trace", "lab", "conformance", "features", "benchmarks"),
    *("kernel-datapath", "dpdk"),
)
FIRST = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def adapted(page: str, text: str, pages: Collection[str]) -> str:
    """The text of `page`, a path in the repository, for a site that has `pages` alone."""
    lines: list[str] = []
    is_code = False
    for line in text.splitlines():
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            line = LINK.sub(lambda found: _link(page, found, pages), line)
            if lines and _begins_block(lines[-1], line):
                lines.append("")  # GitHub needs no empty line there
        lines.append(line)
    return "\n".join(lines) + "\n"


def _begins_block(before: str, line: str) -> bool:
    if not before.strip() or before.startswith((" ", "#")):
        return False
    return bool(ITEM.match(line) and not ITEM.match(before)) or (line.startswith("|") and not before.startswith("|"))


def _link(page: str, found: re.Match[str], pages: Collection[str]) -> str:
    """A link to a source file or directory becomes its name: the site does not have them."""
    text, target = found[1], found[2]
    file = target.partition("#")[0]
    if not file or "://" in file or file.startswith("mailto:"):
        return found[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), file))
    if path in pages:
        return found[0]
    return text if path in text else f"{text} (`{path}`)"


def navigation(pages: Collection[str], reference: Sequence[str]) -> list[dict[str, object]]:
    """The sections of the site."""
    guides = sorted(page for page in pages if posixpath.dirname(page) == "docs")
    named = [f"docs/{name}.md" for name in GUIDES if f"docs/{name}.md" in pages]
    others = sorted(page for page in pages if page.startswith("docs/") and page not in guides)
    return [
        {"Project": [page for page in FIRST if page in pages]},
        {"Guides": [*named, *(page for page in guides if page not in named)]},
        {"Design": others},
        {"API": [f"api/{name}" for name in reference]},
    ]
