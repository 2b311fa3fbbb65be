"""Which file of an index pip takes for a locked version; `python -m qa.locks` asks the real index."""

import tomllib
from pathlib import Path

import pytest

from qa.locks.files import PYTHONS, File, Kind, Platform, check, linked, pins

A, B, C = ("a" * 64, "b" * 64, "c" * 64)
LOCK = f"""# Made by scripts/lock
fast==1.0 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
Old.Name==2.0 ; python_full_version >= '3.13' \\
    --hash=sha256:{C}
"""
X86, ARM = Platform("x86_64", "3.13"), Platform("aarch64", "3.13")


def kinds(*files: File, platform: Platform = ARM) -> dict[str, Kind]:
    return dict(check("requirements.lock", LOCK, platform, {"fast": files, "old-name": ()}).kinds)


def test_pins_have_normalised_names_versions_and_hashes() -> None:
    fast, old = pins(LOCK)
    assert (fast.name, fast.version, fast.hashes) == ("fast", "1.0", {A, B})
    assert (old.name, old.version) == ("old-name", "2.0")


@pytest.mark.parametrize(("python", "expected"), [("3.11", 1), ("3.12", 1), ("3.13", 2)])
def test_markers_are_those_of_the_platform(python: str, expected: int) -> None:
    assert len(check("l", LOCK, Platform("aarch64", python), {}).kinds) == expected


@pytest.mark.parametrize(
    ("name", "x86", "arm"),
    [
        ("fast-1.0-py3-none-any.whl", Kind.WHEEL, Kind.WHEEL),
        ("fast-1.0-cp313-cp313-manylinux_2_17_aarch64.manylinux2014_aarch64.whl", Kind.NONE, Kind.WHEEL),
        ("fast-1.0-cp39-abi3-manylinux_2_28_x86_64.whl", Kind.WHEEL, Kind.NONE),
        ("fast-1.0-cp313-cp313-manylinux_2_39_aarch64.whl", Kind.NONE, Kind.NONE),  # a newer glibc than Debian 12 has
        ("fast-1.0-cp313-cp313-musllinux_1_2_x86_64.whl", Kind.NONE, Kind.NONE),
        ("fast-1.0-cp314-cp314-manylinux_2_17_x86_64.whl", Kind.NONE, Kind.NONE),
        ("fast-1.0.tar.gz", Kind.SOURCE, Kind.SOURCE),
    ],
)
def test_what_pip_would_take(name: str, x86: Kind, arm: Kind) -> None:
    file = File(name, A)
    assert (kinds(file, platform=X86)["fast 1.0"], kinds(file)["fast 1.0"]) == (x86, arm)


def test_a_file_whose_hash_is_not_locked_is_not_taken() -> None:
    assert kinds(File("fast-1.0-py3-none-any.whl", C), File("fast-1.0.tar.gz", B))["fast 1.0"] is Kind.SOURCE


def test_a_version_without_files_cannot_be_installed() -> None:
    assert kinds()["old-name 2.0"] is Kind.NONE


def test_links_of_an_index_that_has_pages_only() -> None:
    page = f'<a href="../../files/ab/fast-1.0%2Blocal.tar.gz#sha256={A}">fast</a> <a href="/help">help</a>'
    assert linked(page) == [File("fast-1.0+local.tar.gz", A)]


def test_the_versions_of_python_are_those_of_the_classifiers() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    assert (
        tuple(f"3.{each.removeprefix(prefix)}" for each in project["classifiers"] if each.startswith(prefix)) == PYTHONS
    )
