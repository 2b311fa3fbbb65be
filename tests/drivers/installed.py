"""Drivers from a directory with a pyproject.toml, as if they were installed: what pip would write, and no more."""

from __future__ import annotations

import contextlib
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from stevedore.extension import ExtensionManager

HERE = Path(__file__).parent


def install(name: str, directory: Path) -> Path:
    """Put a driver and its entry points below `directory`; gives what belongs on the Python path."""
    source, target = HERE / name, directory / f"driver-{name}"
    target.mkdir()
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    for module in source.glob("*.py"):
        shutil.copy(module, target)
    for package in source.glob("*/__init__.py"):
        shutil.copytree(package.parent, target / package.parent.name, ignore=shutil.ignore_patterns("__pycache__"))
    info = target / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return target


@contextlib.contextmanager
def installed(directory: Path, *names: str) -> Iterator[None]:
    """Drivers on the Python path of this process. For a module: stevedore takes half a second to find all entry points."""
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.syspath_prepend(str(install(name, directory)))
        ExtensionManager.ENTRY_POINT_CACHE.clear()  # it remembers entry points by their group alone
        yield
    ExtensionManager.ENTRY_POINT_CACHE.clear()
