"""What a lock pins, and which of the files with its hashes pip would install on a platform; pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

ARCHITECTURES = ("x86_64", "aarch64")
PYTHONS = ("3.11", "3.12", "3.13")
GLIBC = 36  # 2.36, that of Debian 12
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Kind(StrEnum):
    WHEEL = "wheel"
    SOURCE = "source"
    NONE = "none"


@dataclass(frozen=True)
class Pin:
    requirement: Requirement
    hashes: frozenset[str]

    @property
    def name(self) -> str:
        return canonicalize_name(self.requirement.name)

    @property
    def version(self) -> str:
        (only,) = self.requirement.specifier
        return only.version


@dataclass(frozen=True)
class Platform:
    architecture: str
    python: str

    @property
    def tags(self) -> frozenset[Tag]:
        version = tuple(int(part) for part in self.python.split("."))
        names = [f"manylinux_2_{minor}_{self.architecture}" for minor in range(GLIBC, 4, -1)]
        names += [f"{old}_{self.architecture}" for old in ("manylinux2014", "manylinux2010", "manylinux1", "linux")]
        interpreter = f"cp{''.join(self.python.split('.'))}"
        return frozenset(
            [
                *cpython_tags(version, platforms=names),
                *compatible_tags(version, interpreter=interpreter, platforms=names),
            ]
        )

    def applies(self, pin: Pin) -> bool:
        environment = {
            "platform_machine": self.architecture,
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
        }
        return pin.requirement.marker is None or pin.requirement.marker.evaluate(environment)


@dataclass(frozen=True)
class File:
    """A file of the index."""

    name: str
    sha256: str


def pins(text: str) -> list[Pin]:
    joined = text.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [Pin(Requirement(_HASH.sub("", line).strip()), frozenset(_HASH.findall(line))) for line in lines]


def linked(page: str) -> list[File]:
    """The files that a page of an index links to: the last part of each link's path, and its fragment."""
    links = [unquote(link) for link in re.findall(r"""href=["']([^"']+)["']""", page)]
    parts = [link.rpartition("/")[2].partition("#sha256=") for link in links]
    return [File(name, digest) for name, mark, digest in parts if mark]


def chosen(pin: Pin, files: Iterable[File], tags: frozenset[Tag]) -> Kind:
    """The kind of the file that pip would take; NONE if it would refuse all."""
    allowed = [file.name for file in files if file.sha256 in pin.hashes]
    if any(_fits(name, tags) for name in allowed):
        return Kind.WHEEL
    return Kind.SOURCE if any(name.endswith((".tar.gz", ".zip")) for name in allowed) else Kind.NONE


def _fits(name: str, tags: frozenset[Tag]) -> bool:
    try:
        return not tags.isdisjoint(parse_wheel_filename(name)[3])
    except InvalidWheelFilename:
        return False


@dataclass(frozen=True)
class Result:
    lock: str
    platform: Platform
    kinds: Mapping[str, Kind]  # by name and version

    def of(self, kind: Kind) -> Sequence[str]:
        return sorted(name for name, found in self.kinds.items() if found is kind)


def check(lock: str, text: str, platform: Platform, index: Mapping[str, Sequence[File]]) -> Result:
    """`index`: the files of each name."""
    tags = platform.tags
    wanted = [pin for pin in pins(text) if platform.applies(pin)]
    return Result(
        lock, platform, {f"{pin.name} {pin.version}": chosen(pin, index.get(pin.name, ()), tags) for pin in wanted}
    )
