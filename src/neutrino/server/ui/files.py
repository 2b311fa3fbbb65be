"""The static files of the page, read once at the start: a request is a look-up in a table, and no path reaches the disk."""

import gzip
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
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


VERSIONS: Final = "v/"  # before the version in the path of a file that a browser may keep
VERSIONED: Final = re.compile(r"v/[0-9a-f]{1,64}/(?=.)")


@dataclass(frozen=True, slots=True)
class StaticFile:
    content_type: str
    body: bytes
    compressed: bytes | None  # gzip
    etag: str


@dataclass(frozen=True, slots=True)
class Files:
    """All files, by their path below /ui/; the index also by the empty path.

    The index refers to the others below `v/<version>/`, where a browser keeps them: the version is a digest of all files.
    Modules import each other by relative paths, and so stay below it.
    """

    by_path: Mapping[str, StaticFile]
    version: str

    def find(self, path: str) -> tuple[StaticFile | None, bool]:
        """The file of a path, and whether a browser may keep it.

        Of the version of another server behind the same load balancer this server has no file: it answers with its own,
        which is not kept, as without a version.
        """
        versioned = VERSIONED.match(path)
        if versioned is None:
            return self.by_path.get(path), False
        name = path[versioned.end() :]
        file = self.by_path.get(name) if name != INDEX else None  # its references are relative to its own path
        return file, versioned[0] == f"{VERSIONS}{self.version}/"


@cache
def read_files() -> Files:
    """Once for all servers of a process: compressing takes 25 ms."""
    bodies = {path: entry.read_bytes() for path, entry in _walk(resources.files(__package__) / "page")}
    digests = "".join(f"{path}\0{hashlib.sha256(body).hexdigest()}\n" for path, body in bodies.items())
    version = hashlib.sha256(digests.encode()).hexdigest()[:16]
    for path in bodies.keys() - {INDEX}:
        bodies[INDEX] = bodies[INDEX].replace(f'"{path}"'.encode(), f'"{VERSIONS}{version}/{path}"'.encode())
    files = {path: _file(path, body) for path, body in bodies.items()}
    return Files({"": files[INDEX], **files}, version)


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
