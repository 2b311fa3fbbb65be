"""The static files of the page, read once at the start: a request is a look-up in a table, and no path reaches the disk."""

import gzip
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

INDEX: Final = "index.html"
TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LEAST_COMPRESSED = 512  # bytes; below, the headers outweigh what compression saves


@dataclass(frozen=True, slots=True)
class StaticFile:
    content_type: str
    body: bytes
    compressed: bytes | None  # gzip
    etag: str


def read_files() -> dict[str, StaticFile]:
    """Read all files, by their path below /ui/; the index also by the empty path."""
    files = {path: _file(path, entry.read_bytes()) for path, entry in _walk(resources.files(__package__) / "page")}
    return {"": files[INDEX], **files}


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        elif _suffix(entry.name) in TYPES:
            yield prefix + entry.name, entry


def _suffix(name: str) -> str:
    return name[name.rfind(".") :] if "." in name else ""


def _file(path: str, body: bytes) -> StaticFile:
    # mtime: workers of several servers must give the same bytes for the same ETag.
    compressed = gzip.compress(body, mtime=0) if len(body) >= LEAST_COMPRESSED else None
    return StaticFile(TYPES[_suffix(path)], body, compressed, hashlib.sha256(body).hexdigest()[:24])
