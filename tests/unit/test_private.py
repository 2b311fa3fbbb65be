"""Files of the server and of agents are for their owner alone, whatever the umask and whatever was there before."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from neutrino import daemon_files, private
from neutrino.agent.dhcp.dnsmasq import FILE_MODE, Dnsmasq
from neutrino.agent.runtime.own_state import own_state
from neutrino.server.db import schema
from neutrino.server.db.session import Database
from neutrino.server.feed.connections.listeners import owned_socket

NETWORK = "00000000-0000-0000-0000-000000000001"


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: str | Path) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_new_database_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "state" / "neutrino.sqlite"
    db = Database(f"sqlite:///{path}")
    schema.ensure(db)
    with db.transaction() as tx:
        tx.execute(sa.text("CREATE TABLE more (x INTEGER)"))
    files = {file.name: mode(file) for file in path.parent.iterdir()}
    assert {"neutrino.sqlite", "neutrino.sqlite-wal", "neutrino.sqlite-shm"} <= files.keys()
    assert set(files.values()) == {0o600}, files
    assert mode(path.parent) == 0o700
    db.close()


def test_a_database_that_was_left_open_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "neutrino.sqlite"
    db = Database(f"sqlite:///{path}")
    schema.ensure(db)
    left = [path, *(Path(f"{path}{more}") for more in ("-wal", "-shm"))]
    for file in left:
        file.chmod(0o644)
    again = Database(f"sqlite:///{path}")
    assert schema.version(again) == schema.HEAD
    assert {mode(file) for file in left} == {0o600}
    again.close()
    db.close()


def test_the_locks_of_a_database_stay(tmp_path: Path) -> None:
    """A process that closes a file gives back all its locks on it: another process would read, or write, in between."""
    path = tmp_path / "neutrino.sqlite"
    db = Database(f"sqlite:///{path}")
    schema.ensure(db)
    with db.transaction() as tx:
        tx.execute(sa.text("CREATE TABLE more (x INTEGER)"))
        for file in (path, *(Path(f"{path}{more}") for more in ("-wal", "-shm"))):
            private.make_file(file)
        write = (
            "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('CREATE TABLE others (x INTEGER)')"
        )
        other = subprocess.run([sys.executable, "-c", write, str(path)], capture_output=True, text=True, timeout=60)
        assert "database is locked" in other.stderr
    db.close()


def test_the_directory_of_a_database_is_not_closed_where_it_was_there(tmp_path: Path) -> None:
    """It may be anybody's: a connection such as sqlite:////srv/shared/x.sqlite does not make it ours."""
    tmp_path.chmod(0o755)
    db = Database(f"sqlite:///{tmp_path}/neutrino.sqlite")
    schema.ensure(db)
    db.close()
    assert mode(tmp_path) == 0o755


def test_the_feeds_socket_has_a_closed_directory(tmp_path: Path) -> None:
    with owned_socket(str(tmp_path / "run" / "feed.sock")):
        assert mode(tmp_path / "run") == 0o700
        assert mode(tmp_path / "run" / "feed.sock.lock") & 0o077 == 0


def test_an_agents_directory_can_be_passed_and_not_read(tmp_path: Path) -> None:
    """dnsmasq has given up its rights and reads its files below."""
    for state in (tmp_path / "new", tmp_path / "old"):
        if state.name == "old":
            state.mkdir()
            state.chmod(0o755)
        with own_state(state):
            assert mode(state) == 0o711
            assert mode(state / "agent.lock") & 0o077 == 0
        Dnsmasq(str(state / "dhcp"), None).record(NETWORK)  # type: ignore[arg-type]
        daemon_files.write(state / "dhcp" / NETWORK / "host", "x", mode=FILE_MODE)
        assert (mode(state / "dhcp"), mode(state / "dhcp" / NETWORK)) == (0o711, 0o711)
        assert mode(state / "dhcp" / NETWORK / "host") == 0o644


@pytest.mark.parametrize(
    ("was", "now"), [(0o755, 0o711), (0o775, 0o711), (0o750, 0o710), (0o700, 0o700), (0o1777, 0o1777)]
)
def test_what_is_there_is_closed_to_readers(tmp_path: Path, was: int, now: int) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(was)
    private.own_directory(path)
    assert mode(path) == now


def test_a_directory_of_the_system_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[object] = []
    monkeypatch.setattr(os, "chmod", lambda *arguments: changed.append(arguments))
    for path in ("/", "/var", "/var/lib", "/tmp"):
        private.close_directory(path)
    assert changed == []


def test_a_directory_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()
    path.chmod(0o755)
    os.chown(path, 65534, 65534)
    private.close_directory(path)
    assert mode(path) == 0o755
    private.close_directory(tmp_path / "none")
    (tmp_path / "file").touch(0o644)
    with pytest.raises(FileExistsError):
        private.own_directory(tmp_path / "file")
