"""An installation by packages: default files, the server's user, notifications to systemd."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
from setuptools import Distribution

from neutrino.cli.installed import become_owner, default_files
from neutrino.notify import notify
from tests.support.packaging import ROOT


def test_installed_files_are_the_default(tmp_path: Path) -> None:
    installed = tmp_path / "server.conf"
    assert default_files([], str(installed)) == []
    installed.touch()
    assert default_files([], str(installed)) == [str(installed)]
    assert default_files(["mine.conf"], str(installed)) == ["mine.conf"]


def _in_child(work: object) -> str:
    """The result of a function in a forked process, which may change its user."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writable, str(work()).encode())  # type: ignore[operator]
        except BaseException as error:
            os.write(writable, repr(error).encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(child, 0)
    with open(readable) as pipe:
        return pipe.read()


def test_root_continues_as_the_owner_of_the_state_directory(tmp_path: Path) -> None:
    nobody = 65534
    os.chown(tmp_path, nobody, nobody)

    def user() -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
        become_owner(str(tmp_path))
        return os.getresuid(), os.getresgid(), os.getgroups()

    assert _in_child(user) == f"({(nobody,) * 3}, {(nobody,) * 3}, [{nobody}])"


def test_the_owner_needs_no_entry_in_passwd(tmp_path: Path) -> None:
    """The volume of a container belongs to a user of the container. Groups of root are given up all the same."""
    unknown = 1_234_567_890
    os.chown(tmp_path, unknown, unknown)

    def user() -> tuple[tuple[int, ...], tuple[int, ...], list[int]]:
        os.setgroups([0, 4])
        become_owner(str(tmp_path))
        return os.getresuid(), os.getresgid(), os.getgroups()

    assert _in_child(user) == f"({(unknown,) * 3}, {(unknown,) * 3}, [])"


def test_a_directory_of_root_or_none_changes_nothing(tmp_path: Path) -> None:
    def user(path: Path) -> int:
        become_owner(str(path))
        return os.getuid()

    assert _in_child(lambda: user(tmp_path)) == "0"
    assert _in_child(lambda: user(tmp_path / "missing")) == "0"


@pytest.mark.parametrize("abstract", [False, True])
def test_notifications_are_datagrams(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"neutrino-{os.getpid()}" if abstract else str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if abstract else name)
        assert notify("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_without_a_service_manager_nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    for address in ("relative", str(tmp_path / "nobody-listens")):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        assert not notify("READY=1")


def test_the_wheel_has_every_file_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """setuptools includes files other than Python's by the patterns in pyproject.toml."""
    monkeypatch.chdir(ROOT)
    project = Distribution({"script_name": "setup.py", "include_package_data": False})
    project.parse_config_files()
    command = project.get_command_obj("build_py")
    command.ensure_finalized()
    packaged = {path for _, directory, _, names in command.data_files for path in _resolved(directory, names)}
    packages = {Path("src", package.replace(".", "/")).resolve() for package in command.packages}
    for path in (ROOT / "src" / "neutrino").rglob("*"):
        if not stat.S_ISREG(path.lstat().st_mode) or path.suffix == ".pyc":
            continue
        included = path.parent.resolve() in packages if path.suffix == ".py" else path.resolve() in packaged
        assert included, f"{path} is not in the wheel"


def _resolved(directory: str, names: list[str]) -> set[Path]:
    """Names are relative to the package's directory, or to the current one, by setuptools' version."""
    return {Path(name if name.startswith(directory) else Path(directory, name)).resolve() for name in names}
