"""Checks a built site: every link leads to a file and an anchor of it, and no page makes a browser fetch anything else."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
NOT_FETCHED = {"canonical", "next", "prev"}  # relations of <link> that a browser does not follow by itself


class Page(HTMLParser):
    """Anchors, links, and what a browser fetches at once."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in FETCHED and FETCHED[tag] in given and given.get("rel") not in NOT_FETCHED:
            self.fetched.append(given[FETCHED[tag]])


def problems(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":  # a server would show it at any path, so its links are absolute
            continue
        found += [f"{name}: fetches {target}" for target in page.fetched if urlsplit(target).netloc]
        for target in (*page.links, *page.fetched):
            if (reason := _problem(path, target, pages)) is not None:
                found.append(f"{name}: {target}: {reason}")
    return found


def _problem(path: Path, target: str, pages: dict[Path, Page]) -> str | None:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if to.is_dir():
        to = to / "index.html"
    if not to.is_file():
        return "no such file"
    anchor = unquote(parts.fragment)
    if anchor and to in pages and anchor not in pages[to].anchors:
        return "no such anchor"
    return None
