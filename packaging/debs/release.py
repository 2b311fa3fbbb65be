"""What a release needs beside its packages: version, changelog section, source archive, checksums; pure."""

import gzip
import hashlib
import io
import re
import tarfile
from collections.abc import Mapping

VERSION = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)
NUMBERS = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
UNRELEASED = "Unreleased"


class Refused(Exception):
    """Why there can be no release now; the command prints it in one line."""


def version_of(source: str) -> str:
    """The version, from the text of src/neutrino/__init__.py, the one place that has it."""
    found = VERSION.findall(source)
    if len(found) != 1:
        raise Refused(f'src/neutrino/__init__.py has {len(found)} lines `__version__ = "…"`, not one')
    if not NUMBERS.fullmatch(found[0]):
        raise Refused(f"src/neutrino/__init__.py: __version__ is {found[0]!r}, not three numbers as 0.1.0")
    return str(found[0])


def section(changelog: str, title: str) -> str:
    """The section of CHANGELOG.md with this title, such as `0.1.0` of `## 0.1.0 - 2026-12-01`."""
    found: list[list[str]] = []
    inside = False
    for line in changelog.splitlines():
        if line.startswith("## "):
            inside = line[3:].split()[:1] == [title]
            if inside:
                found.append([])
        if inside:
            found[-1].append(line)
    if not found:
        raise Refused(
            f"CHANGELOG.md has no section `## {title}`: give the section `## {UNRELEASED}` that title and its date, "
            f"and begin a new `## {UNRELEASED}` above it"
        )
    if len(found) > 1:
        raise Refused(f"CHANGELOG.md has {len(found)} sections `## {title}`")
    if not any(line.strip() and not line.startswith("#") for line in found[0]):
        raise Refused(f"CHANGELOG.md: the section `## {title}` is empty")
    return "\n".join(found[0]).rstrip() + "\n"


def source_archive(version: str, tree: bytes, metadata: bytes, seconds: int) -> bytes:
    """The sdist: the files of a commit, from `git archive`, and PKG-INFO; bytes depend on nothing else."""
    root = f"neutrino-{version}"
    found: dict[str, tuple[tarfile.TarInfo, bytes]] = {}
    with tarfile.open(fileobj=io.BytesIO(tree)) as given:
        for member in given:
            if member.isdir():
                continue
            reader = given.extractfile(member) if member.isreg() else None
            found[f"{root}/{member.name}"] = (member, reader.read() if reader else b"")
    information = tarfile.TarInfo()
    information.mode = 0o644
    found[f"{root}/PKG-INFO"] = (information, metadata)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, (member, data) in sorted(found.items()):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = member.type, member.linkname
            entry.mode = 0o755 if member.mode & 0o100 else 0o644
            entry.mtime, entry.size = seconds, len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(out.getvalue(), 9, mtime=seconds)


def checksums(files: Mapping[str, bytes]) -> str:
    """SHA256SUMS, for `sha256sum --check`."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))


def differences(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> list[str]:
    """Names of the files that two builds do not have in common, with where they begin to differ."""
    found = []
    for name in sorted({*one, *other}):
        if name not in one or name not in other:
            found.append(f"{name}: only in the {'first' if name in one else 'second'} build")
        elif one[name] != other[name]:
            pairs = enumerate(zip(one[name], other[name], strict=False))
            at = next((i for i, (a, b) in pairs if a != b), min(len(one[name]), len(other[name])))
            found.append(f"{name}: differs from byte {at} on ({len(one[name])} and {len(other[name])} bytes)")
    return found
