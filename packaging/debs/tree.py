"""Directory trees of the packages, and their archives."""

import gzip
import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from debs import control, environment
from debs.control import Build
from debs.packages import Package

HERE = Path(__file__).resolve().parents[1]
SHELLS = {
    "bash": "usr/share/bash-completion/completions/neutrino",
    "zsh": "usr/share/zsh/vendor-completions/_neutrino",
    "fish": "usr/share/fish/vendor_completions.d/neutrino.fish",
}
RESTRICTED = {"etc/neutrino/server.conf": 0o640, "etc/neutrino/agent.conf": 0o600}


def assemble(package: Package, root: Path, python: Path, build: Build) -> None:
    """Fill the package's tree, except the environment; `python` is that of the environment."""
    for target, source in package.files.items():
        _copy(HERE / source, root / target.lstrip("/"))
    for target, program in package.sample.items():
        _write(root / target.lstrip("/"), _sample(python, program, package))
    for link, to in package.links.items():
        path = root / link.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)
    if package.has_documents:
        _write_documents(root, python, build)
    doc = root / "usr/share/doc" / package.name
    bundled = environment.licenses(python.parents[1]) if package.has_environment else {}
    _write(doc / "copyright", control.copyright_file(build, bundled))
    _write_gz(doc / "changelog.gz", control.changelog(build))
    overrides = HERE / "lintian" / package.name
    if overrides.exists():
        _copy(overrides, root / "usr/share/lintian/overrides" / package.name)


def _sample(python: Path, program: str, package: Package) -> str:
    script = (
        "import json, sys; from neutrino.cli.sample import Set, render; "
        "given = {(v[0], v[1]): Set(v[2], v[3]) for v in json.load(sys.stdin)}; "
        f"sys.stdout.write(render({program!r}, given))"
    )
    values = json.dumps([(each.section, each.name, each.value, each.why) for each in package.values])
    return environment.run([str(python), "-I", "-B", "-c", script], capture=True, text=values)


def _write_documents(root: Path, python: Path, build: Build) -> None:
    man = root / "usr/share/man/man1"
    environment.run([str(python), "-I", "-B", "-m", "neutrino.cli.documents.man", str(man), str(build.seconds)])
    for page in sorted(man.iterdir()):
        _write_gz(page.with_name(f"{page.name}.gz"), page.read_text(encoding="utf-8"))
        page.unlink()
    for shell, target in SHELLS.items():
        argv = [str(python), "-I", "-B", "-m", "neutrino.cli.main", "completion", shell]
        _write(root / target, environment.run(argv, capture=True))


def pack(package: Package, root: Path, build: Build, target: Path) -> Path:
    """Write the archive of a complete tree. The same tree gives the same bytes."""
    _settle(root)
    contents = {
        str(path.relative_to(root)): path.read_bytes()
        for path in _files(root)
        if "/" + str(path.relative_to(root)) not in package.conffiles
    }
    size = sum(len(data) for data in contents.values()) // 1024 + 1
    metadata = root / "DEBIAN"
    metadata.mkdir()
    _write(metadata / "control", control.control(package, build, size))
    _write(metadata / "md5sums", control.md5sums(contents))
    if package.conffiles:
        _write(metadata / "conffiles", control.conffiles(package))
    for name in package.scripts:
        path = metadata / name.rpartition(".")[2]
        _copy(HERE / "scripts" / name, path)
        path.chmod(0o755)
    metadata.chmod(0o755)
    archive = target / build.file_name(package)
    environment.run(["dpkg-deb", "--root-owner-group", "-Zxz", "-z1", "--build", str(root), str(archive)], capture=True)
    return archive


def _settle(root: Path) -> None:
    """Fixed modes and times, whatever the umask and the clock of the build."""
    for path in [root, *sorted(root.rglob("*"))]:
        if path.is_symlink():
            continue
        name = str(path.relative_to(root))
        executable = path.is_dir() or (path.parent.name == "bin" and path.parent.parent.name == "neutrino")
        path.chmod(RESTRICTED.get(name, 0o755 if executable else 0o644))


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if stat.S_ISREG(path.lstat().st_mode):
            yield path


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)


def _write_gz(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def sources_date(source: Path) -> int:
    """SOURCE_DATE_EPOCH, else the time of the last commit, else of pyproject.toml."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    if (source / ".git").exists():
        return int(environment.run(["git", "-C", str(source), "log", "-1", "--format=%ct"], capture=True))
    return int((source / "pyproject.toml").stat().st_mtime)
