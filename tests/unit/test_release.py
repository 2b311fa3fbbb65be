"""What a release consists of beside its packages: version, changelog section, source archive, components, checksums."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from neutrino import __version__
from tests.support.packaging import ROOT, components, release

CHANGELOG = """# Changelog

## Unreleased

### Added
- Something new.

## 0.2.0 - 2026-12-01

### Fixed
- A fault.

## 0.1.0
"""


def test_one_place_has_the_version() -> None:
    assert release.version_of((ROOT / "src/neutrino/__init__.py").read_text()) == __version__
    assert importlib.metadata.version("neutrino") == __version__
    assert not re.search(r'^version = "', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("", "has 0 lines"),
        ('__version__ = "1.0.0"\n__version__ = "1.0.1"\n', "has 2 lines"),
        ('__version__ = "1.0"\n', "not three numbers"),
        ('__version__ = "1.0.0-1"\n', "not three numbers"),
        ('__version__ = "01.0.0"\n', "not three numbers"),
    ],
)
def test_a_version_that_packages_cannot_have_is_refused(source: str, error: str) -> None:
    with pytest.raises(release.Refused, match=error):
        release.version_of(source)


def test_section_of_the_changelog() -> None:
    assert release.section(CHANGELOG, "0.2.0") == "## 0.2.0 - 2026-12-01\n\n### Fixed\n- A fault.\n"
    assert "Something new" in release.section(CHANGELOG, "Unreleased")
    assert release.section((ROOT / "CHANGELOG.md").read_text(), "Unreleased")


@pytest.mark.parametrize(
    ("changelog", "title", "error"),
    [
        (CHANGELOG, "0.3.0", "no section `## 0.3.0`: give the section `## Unreleased` that title"),
        (CHANGELOG, "0.2", "no section"),
        (CHANGELOG, "0.1.0", "is empty"),
        (CHANGELOG + "\n## 0.2.0\n- Again.\n", "0.2.0", "2 sections"),
    ],
)
def test_a_changelog_without_the_section_is_refused(changelog: str, title: str, error: str) -> None:
    with pytest.raises(release.Refused, match=re.escape(error)):
        release.section(changelog, title)


def _tree(path: Path, *, mtime: int, owner: str, reverse: bool = False) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        entries = [("src/a.py", b"x", 0o664), ("run", b"#!/bin/sh\n", 0o775), ("empty", b"", 0o600)]
        for name, data, mode in reversed(entries) if reverse else entries:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime, entry.uname = len(data), mode, mtime, owner
            archive.addfile(entry, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "run"
        archive.addfile(link)
    return out.getvalue()


def test_the_source_archive_has_nothing_of_the_machine(tmp_path: Path) -> None:
    one = release.source_archive("1.2.3", _tree(tmp_path, mtime=1, owner="me"), b"Name: neutrino\n", 1_700_000_000)
    other = _tree(tmp_path, mtime=2, owner="you", reverse=True)
    assert release.source_archive("1.2.3", other, b"Name: neutrino\n", 1_700_000_000) == one
    with tarfile.open(fileobj=io.BytesIO(one)) as archive:
        found = {entry.name: entry for entry in archive}
        assert list(found) == [f"neutrino-1.2.3/{name}" for name in ("PKG-INFO", "empty", "link", "run", "src/a.py")]
        assert (found["neutrino-1.2.3/run"].mode, found["neutrino-1.2.3/empty"].mode) == (0o755, 0o644)
        assert found["neutrino-1.2.3/link"].linkname == "run"
        assert {(e.mtime, e.uid, e.gid, e.uname, e.gname) for e in found.values()} == {(1_700_000_000, 0, 0, "", "")}


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    files = {"b": b"2", "a": b"1"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "SHA256SUMS").write_text(release.checksums(files))
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
    assert release.checksums(files).startswith(hashlib.sha256(b"1").hexdigest() + "  a\n")


def test_differences_name_files_and_places() -> None:
    assert release.differences({"a": b"1"}, {"a": b"1"}) == []
    assert release.differences({"a": b"123", "b": b"", "d": b"1"}, {"a": b"1x3", "c": b"", "d": b"12"}) == [
        "a: differs from byte 1 on (3 and 3 bytes)",
        "b: only in the first build",
        "c: only in the second build",
        "d: differs from byte 1 on (1 and 2 bytes)",
    ]


# --- components ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "licenses"),
    [
        ("License-Expression: MIT OR Apache-2.0\nLicense: other\n", [{"expression": "MIT OR Apache-2.0"}]),
        ("License: MIT License\n", [{"license": {"id": "MIT"}}]),
        ("License: Our own\n", [{"license": {"name": "Our own"}}]),
        ("Classifier: License :: OSI Approved :: Apache Software License\n", [{"license": {"id": "Apache-2.0"}}]),
        ("Classifier: License :: OSI Approved :: BSD License\n", [{"license": {"name": "BSD License"}}]),
        ("License: A long text,\n        of several lines\nClassifier: License :: ISC\n", [{"license": {"id": "ISC"}}]),
        ("", None),
    ],
)
def test_license_of_a_component(fields: str, licenses: object) -> None:
    component = components.read(f"Metadata-Version: 2.1\nName: Some_Thing\nVersion: 1.0\n{fields}\nLicense: not this\n")
    (found,) = json.loads(components.cyclonedx("1.2.3", "arm64", 0, [component]))["components"]
    assert found.get("licenses") == licenses
    assert (found["name"], found["version"], found["purl"]) == ("Some_Thing", "1.0", "pkg:pypi/some-thing@1.0")


def test_components_do_not_depend_on_the_order_in_which_they_are_found() -> None:
    installed = [each for each in importlib.metadata.distributions() if each.metadata["Name"] != "neutrino"]
    found = {components.read(str(each.read_text("METADATA"))) for each in installed if each.read_text("METADATA")}
    text = components.cyclonedx("1.2.3", "arm64", 1_700_000_000, sorted(found))
    twice = [*sorted(found, reverse=True), *found]
    assert components.cyclonedx("1.2.3", "arm64", 1_700_000_000, twice) == text
    document = json.loads(text)
    assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert {"falcon", "SQLAlchemy"} <= {each["name"] for each in document["components"]}
    assert [each["name"] for each in document["components"] if not each["name"] or not each["version"]] == []


# --- the command, in a clone of its own ---------------------------------------------------------------------------------


def _git(clone: Path, *arguments: str) -> None:
    who = ("-c", "user.name=someone", "-c", "user.email=someone@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(clone), *who, *arguments], check=True, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A commit with what the build of a wheel needs, with two modules of the code."""
    clone = tmp_path / "clone"
    shutil.copytree(ROOT / "packaging", clone / "packaging", ignore=shutil.ignore_patterns("__pycache__"))
    (clone / "src/neutrino/cli").mkdir(parents=True)
    for name in ("pyproject.toml", "LICENSE", "src/neutrino/__init__.py", "src/neutrino/py.typed", ".gitignore"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, clone / name)
    (clone / "src/neutrino/cli/__init__.py").write_text("")
    (clone / "CHANGELOG.md").write_text(f"# Changelog\n\n## Unreleased\n\n## {__version__}\n- All of it.\n")
    _git(tmp_path, "init", "--quiet", "clone")
    _git(clone, "add", ".")
    _git(clone, "commit", "--quiet", "-m", "All of it")
    return clone


def _release(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-B", str(clone / "packaging/release"), *arguments]
    return subprocess.run(argv, check=False, capture_output=True, text=True, timeout=300)


def test_refusals(clone: Path) -> None:
    (clone / "new file").write_text("")
    done = _release(clone)
    assert (done.returncode, done.stdout) == (1, "")
    assert "release: files are not committed: " in done.stderr
    assert "new file" in done.stderr
    (clone / "new file").unlink()

    _git(clone, "tag", f"v{__version__}")
    (clone / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n- All of it.\n")
    _git(clone, "commit", "--quiet", "-a", "-m", "Without the section")
    assert f"release: v{__version__} is the tag of another commit" in _release(clone).stderr
    _git(clone, "tag", "--delete", f"v{__version__}")
    assert f"release: CHANGELOG.md has no section `## {__version__}`" in _release(clone).stderr
    assert not (clone / "dist").exists()


@pytest.mark.slow
def test_wheel_and_sources_are_reproducible_and_complete(clone: Path, tmp_path: Path) -> None:
    done = _release(clone, "--check", "--sources-only")
    assert done.returncode == 0, done.stderr
    assert "release: two builds are equal: 3 files" in done.stdout
    name = f"neutrino-{__version__}"
    assert sorted(path.name for path in (clone / "dist").iterdir()) == [
        "SHA256SUMS",
        f"{name}-changes.md",
        f"{name}-py3-none-any.whl",
        f"{name}.tar.gz",
    ]
    assert {oct(path.stat().st_mode & 0o777) for path in (clone / "dist").iterdir()} == {"0o644"}
    assert (clone / "dist" / f"{name}-changes.md").read_text() == f"## {__version__}\n- All of it.\n"
    with tarfile.open(clone / "dist" / f"{name}.tar.gz") as archive:
        names = set(archive.getnames())
    assert {f"{name}/{path}" for path in ("PKG-INFO", "pyproject.toml", "src/neutrino/__init__.py")} <= names
