"""The private virtual environment of neutrino-common: locked dependencies and the wheel, built as if in place."""

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from debs import components
from debs.packages import PREFIX

PYTHON = "/usr/bin/python3"  # Debian's, which the package depends on
KEPT = re.compile(r"^(python[0-9.]*|neutrino)$")  # programs of the environment; those of dependencies are not needed


def python_version() -> str:
    script = "import sys; print('%d.%d' % sys.version_info[:2])"
    return run([PYTHON, "-c", script], capture=True).strip()


def build_wheel(source: Path, target: Path, scratch: Path) -> Path:
    """From a copy of the sources: setuptools would package what an earlier build has left in build/."""
    copy = scratch / "source"
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(source / "src", copy / "src", ignore=ignored)
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(source / name, copy / name)
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("neutrino-*.whl"):
        old.unlink()
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(copy))
    (wheel,) = target.glob("neutrino-*.whl")
    return wheel


def create(root: Path, wheel: Path, lock: Path) -> Path:
    """Create the environment below `root`, with the paths that it has once installed."""
    target = root / PREFIX.lstrip("/")
    run([PYTHON, "-m", "venv", "--without-pip", "--symlinks", str(target)])
    into = ("--python", str(target / "bin" / "python"))
    # The lock has all dependencies; pip would look at releases that are newer than the locked ones, and refuse them.
    pip(*into, "install", "--no-compile", "--no-deps", "--require-hashes", "-r", str(lock))
    pip(*into, "install", "--no-compile", "--no-deps", str(wheel))
    pip(*into, "check")
    _relocate(target)
    return target


def _relocate(target: Path) -> None:
    """Remove all traces of the directory in which the environment was built."""
    for name in os.listdir(target / "bin"):
        path = target / "bin" / name
        if not KEPT.match(name):
            path.unlink()
        elif not path.is_symlink():
            lines = path.read_text().splitlines(keepends=True)
            path.write_text("".join([f"#!{PREFIX}/bin/python\n", *lines[1:]]))
    shutil.rmtree(target / "include", ignore_errors=True)
    config = target / "pyvenv.cfg"
    lines = config.read_text().splitlines(keepends=True)
    config.write_text("".join(line for line in lines if not line.startswith("command")))
    for info in site_packages(target).glob("*.dist-info"):
        (info / "direct_url.json").unlink(missing_ok=True)  # where pip found the wheel
        (info / "REQUESTED").unlink(missing_ok=True)
        _fix_record(info)


def _fix_record(info: Path) -> None:
    """Leave files out of pip's list that are gone, and the hashes of those that have changed."""
    record, rows = info / "RECORD", []
    for name, digest, size in csv.reader(io.StringIO(record.read_text())):
        path = info.parent / name
        if path.exists():
            rows.append((name, "", "") if path.parent.name == "bin" else (name, digest, size))
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(sorted(rows))
    record.write_text(text.getvalue())


def site_packages(target: Path) -> Path:
    (found,) = target.glob("lib/python3.*/site-packages")
    return found


def licenses(target: Path) -> dict[str, str]:
    """Bundled distributions with their versions, to their licenses as their metadata states them."""
    found = {}
    for info in site_packages(target).glob("*.dist-info"):
        component = components.read((info / "METADATA").read_text(encoding="utf-8"))
        if component.name != "neutrino":
            found[f"{component.name} {component.version}"] = component.license or "see its files"
    return found


def leaks(root: Path, text: bytes) -> Iterator[Path]:
    """Files below `root` that contain `text`, such as the path of the build directory."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and text in path.read_bytes():
            yield path


def pip(*arguments: str) -> None:
    run([sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", *arguments])


def run(argv: Sequence[str], *, capture: bool = False, text: str | None = None) -> str:
    # Compiled modules that the new environment's interpreter writes would name the directory in which it was built.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    output = subprocess.PIPE if capture else None
    done = subprocess.run(argv, check=False, text=True, input=text, stdout=output, env=environment)
    if done.returncode:
        raise SystemExit(f"package: {' '.join(argv[:8])} … ended with {done.returncode}")
    return done.stdout or ""
