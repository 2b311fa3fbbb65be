"""The contract of the files driver, on the fake and on a real directory."""

from __future__ import annotations

import os
import resource
import signal
import stat
import threading
from pathlib import Path

import pytest

from neutrino.dataplane.files.api import Files, FilesError
from neutrino.dataplane.files.real import RealFiles
from tests.fakes.files import FakeFiles


@pytest.fixture(params=["fake", "real"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made = FakeFiles() if request.param == "fake" else RealFiles()
    made.make_directory(str(tmp_path))
    return made


@pytest.fixture
def top(tmp_path: Path) -> str:
    return str(tmp_path)


def test_a_file_is_written_read_and_removed(files, top):
    path = f"{top}/hosts"
    assert files.read(path) is None
    assert files.write(path, "a\nü\n")
    assert files.read(path) == "a\nü\n"
    assert files.list(top) == {"hosts"}
    assert files.remove(path)
    assert not files.remove(path)
    assert files.read(path) is None


def test_what_is_as_it_should_be_is_not_written(files, top):
    path = f"{top}/hosts"
    assert files.write(path, "a\r\nb\n")
    assert files.read(path) == "a\r\nb\n"
    assert not files.write(path, "a\r\nb\n")
    assert files.write(path, "b\n")
    assert files.write(path, "b\n", mode=0o600)
    assert not files.write(path, "b\n", mode=0o600)
    assert files.write(path, "", mode=0o600)
    assert files.read(path) == ""


def test_directories(files, top):
    files.make_directory(f"{top}/dhcp/net")
    files.make_directory(f"{top}/dhcp/net")
    files.write(f"{top}/dhcp/net/host", "x")
    assert files.list(top) == {"dhcp"}
    assert files.list(f"{top}/dhcp") == {"net"}
    assert files.list(f"{top}/dhcp/net") == {"host"}
    assert files.list(f"{top}/none") == frozenset()
    files.remove_directory(f"{top}/dhcp")
    files.remove_directory(f"{top}/dhcp")
    assert files.list(top) == frozenset()
    assert files.read(f"{top}/dhcp/net/host") is None


def test_a_directory_of_a_similar_name_stays(files, top):
    for name in ("net", "net2"):
        files.make_directory(f"{top}/{name}")
        files.write(f"{top}/{name}/host", "x")
    files.remove_directory(f"{top}/net")
    assert files.list(f"{top}/net2") == {"host"}


def test_what_is_refused_is_named(files, top):
    files.make_directory(f"{top}/d")
    files.write(f"{top}/f", "x")
    for call in (
        lambda: files.write(f"{top}/none/f", "x"),
        lambda: files.read(f"{top}/d"),
        lambda: files.write(f"{top}/d", "x"),
        lambda: files.remove(f"{top}/d"),
        lambda: files.list(f"{top}/f"),
        lambda: files.make_directory(f"{top}/f"),
        lambda: files.make_directory(f"{top}/f/d"),
        lambda: files.remove_directory(f"{top}/f"),
    ):
        with pytest.raises(FilesError, match=top):
            call()
    assert files.list(top) == {"d", "f"}


@pytest.mark.parametrize("path", ["", "hosts", "../hosts"])
def test_paths_are_absolute(files, path):
    with pytest.raises(FilesError, match="absolute"):
        files.write(path, "x")


# --- on real files alone ---


def test_modes(tmp_path):
    files = RealFiles()
    previous = os.umask(0o077)
    try:
        files.make_directory(f"{tmp_path}/d", mode=0o755)
        files.write(f"{tmp_path}/d/open", "x")
        files.write(f"{tmp_path}/d/secret", "x", mode=0o600)
    finally:
        os.umask(previous)
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "d").iterdir()}
    assert modes == {"open": 0o644, "secret": 0o600}
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o755


def test_a_reader_sees_the_old_text_or_the_new_one(tmp_path):
    files, path = RealFiles(), f"{tmp_path}/f"
    texts = {"a" * 100_000, "b" * 100_000}
    files.write(path, min(texts))
    done, seen = threading.Event(), set()

    def read() -> None:
        while not done.is_set():
            seen.add(Path(path).read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        for text in texts:
            files.write(path, text)
    done.set()
    reader.join()
    assert seen <= texts


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    files, path = RealFiles(), tmp_path / "f"
    files.write(str(path), "old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # a full disk, for this process
    try:
        with pytest.raises(FilesError, match=str(path)):
            files.write(str(path), "x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, previous)
    assert os.listdir(tmp_path) == ["f"]
    assert path.read_text() == "old"


def test_a_long_name(tmp_path):
    assert RealFiles().write(f"{tmp_path}/{'n' * 255}", "x")


def test_what_a_killed_agent_was_writing_is_not_listed(tmp_path):
    (tmp_path / ".abc.new~").write_text("half")
    (tmp_path / "hosts").write_text("whole")
    assert RealFiles().list(str(tmp_path)) == {"hosts"}


def test_what_is_not_text_equals_nothing(tmp_path):
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    assert RealFiles().write(f"{tmp_path}/f", "x")
    assert RealFiles().read(f"{tmp_path}/f") == "x"
