"""A daemon's user plants links, fifos, directories and wrong pids wherever it may: root follows none of them."""

from __future__ import annotations

import os
import pwd
import signal
import socket
import stat
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from neutrino import daemon_files
from neutrino.agent.bgp.bgpd import Bgpd
from neutrino.agent.bgp.render import Settings, render
from neutrino.agent.dhcp.dnsmasq import Dnsmasq
from neutrino.agent.l3.services.bfd import files as bfd
from neutrino.agent.metadata.proxy import process as metadata_proxy
from neutrino.agent.runtime.own_state import own_state
from neutrino.agent.runtime.supervisor import Service, apply_service, plan_service
from neutrino.daemon_files import MAX_LOG, bound_log
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.process.api import Daemon, ProcessError
from neutrino.dataplane.process.real import RealProcesses
from neutrino.dataplane.program import ProgramError, run_as
from neutrino.model.bgp import BgpSpeaker
from tests.fakes.process import FakeProcesses

USER = pwd.getpwnam("nobody")
SPEAKER, NETWORK = "1", "22222222-2222-4222-8222-222222222222"  # the path of a socket is short
SECRET = "only root may read or change this\n"
PLANTS = ("symbolic link", "hard link", "fifo", "directory", "socket")


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[Path]:
    """A file of root that no daemon's user may read or change."""
    path = tmp_path / "victim"
    path.write_text(SECRET)
    path.chmod(0o600)
    yield path
    found = path.stat()
    assert path.read_text() == SECRET
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o600)


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A directory of the daemon's user."""
    path = tmp_path / "theirs"
    path.mkdir(mode=0o700)
    os.chown(path, USER.pw_uid, USER.pw_gid)
    return path


def plant(kind: str, path: Path, victim: Path) -> None:
    daemon_files.remove(path)
    if kind == "symbolic link":
        path.symlink_to(victim)
    elif kind == "hard link":
        os.link(victim, path)
        return
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        (path / "below").mkdir(parents=True)
    else:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    os.chown(path, USER.pw_uid, USER.pw_gid, follow_symlinks=False)


def within_seconds(run: Callable[[], object]) -> object:
    """In a thread: what waits for the other end of a fifo never returns."""
    results: list[object] = []

    def catch() -> None:
        try:
            results.append(run())
        except Exception as error:
            results.append(error)

    thread = threading.Thread(target=catch, daemon=True)
    thread.start()
    thread.join(10)
    assert results, "it waits for the user of the daemon"
    return results[0]


def speaker(local_as: int) -> BgpSpeaker:
    return BgpSpeaker(id=SPEAKER, local_as=local_as)


# --- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLANTS)
def test_only_regular_files_with_one_name_are_read(kind: str, victim: Path, theirs: Path) -> None:
    plant(kind, theirs / "states", victim)
    assert within_seconds(lambda: daemon_files.read(theirs / "states")) is None
    assert within_seconds(lambda: daemon_files.read_from(theirs / "states", 0, 100)) == ""


def test_a_huge_file_is_not_read(theirs: Path) -> None:
    path = theirs / "leases"
    path.write_text("short")
    assert daemon_files.read(path) == "short"
    os.truncate(path, daemon_files.MAX_BYTES + 1)
    assert daemon_files.read(path) is None
    assert daemon_files.read_from(path, daemon_files.MAX_BYTES, 100) == "\0"
    assert daemon_files.read(theirs / "missing") is None


# --- writing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["file", ".file.new"])
@pytest.mark.parametrize("kind", PLANTS)
def test_a_file_is_written_beside_what_was_planted(kind: str, name: str, victim: Path, theirs: Path) -> None:
    plant(kind, theirs / name, victim)
    result = within_seconds(lambda: daemon_files.write(theirs / "file", "text", mode=0o640, group=USER.pw_gid))
    if (kind, name) == ("directory", "file"):
        assert isinstance(result, OSError)
        assert str(theirs / "file") in str(result)
        return
    assert result is None
    found = os.lstat(theirs / "file")
    assert (theirs / "file").read_text() == "text"
    assert stat.S_ISREG(found.st_mode)
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), USER.pw_gid, 0o640)


def test_a_file_that_the_daemon_owns_is_replaced_though_its_text_is_right(theirs: Path) -> None:
    path = theirs / "file"
    path.write_text("text")
    os.chown(path, USER.pw_uid, USER.pw_gid)
    daemon_files.write(path, "text")
    assert path.stat().st_uid == os.geteuid()
    before = path.stat().st_ino
    daemon_files.write(path, "text")
    assert path.stat().st_ino == before, "nothing to do"


@pytest.mark.parametrize("kind", [each for each in PLANTS if each != "fifo"])
def test_a_fifo_is_made_in_the_place_of_what_was_planted(kind: str, victim: Path, theirs: Path) -> None:
    plant(kind, theirs / "news", victim)
    descriptor = daemon_files.open_fifo(theirs / "news")
    assert stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    os.close(descriptor)


@pytest.mark.parametrize("kind", PLANTS)
def test_files_of_the_bfd_speaker(kind: str, victim: Path, tmp_path: Path) -> None:
    directory = tmp_path / "bfd" / bfd.STATES
    directory.mkdir(parents=True)
    plant(kind, directory.parent / f".{bfd.STATES}.router.new", victim)
    assert within_seconds(lambda: bfd.replace(directory / "router", "[]")) is None
    assert bfd.read_states(directory / "router") == ()
    plant(kind, directory / "other", victim)
    assert within_seconds(lambda: bfd.read_states(directory / "other")) == ()


@pytest.mark.parametrize("kind", PLANTS)
def test_the_monitor_file_of_the_metadata_proxy(kind: str, victim: Path, theirs: Path) -> None:
    plant(kind, theirs / "monitor", victim)
    result = within_seconds(lambda: metadata_proxy._open_monitor_file(str(theirs / "monitor")))
    assert isinstance(result, OSError)
    assert "monitor" in str(result)


# --- directories ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLANTS)
def test_a_directory_of_an_earlier_release_is_taken_back(kind: str, victim: Path, theirs: Path) -> None:
    (theirs / "log").write_text("of root")
    (theirs / "config").write_text("of the daemon")
    os.chown(theirs / "config", USER.pw_uid, USER.pw_gid)
    plant(kind, theirs / "planted", victim)
    daemon_files.own_directory(theirs)
    found = theirs.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), os.getegid(), 0o711)
    assert os.listdir(theirs) == ["log"], "what its user could change is gone"


def test_a_directory_that_others_may_write_to_is_taken_back(tmp_path: Path, victim: Path) -> None:
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(0o777)
    plant("symbolic link", path / "planted", victim)
    daemon_files.own_directory(path)
    assert os.listdir(path) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o711


def test_a_link_is_no_directory(tmp_path: Path, theirs: Path) -> None:
    (tmp_path / "link").symlink_to(theirs)
    with pytest.raises(daemon_files.UnsafeFile, match="link"):
        daemon_files.own_directory(tmp_path / "link")
    with pytest.raises(daemon_files.UnsafeFile, match="link"):
        daemon_files.give_directory(tmp_path / "link", USER.pw_uid, USER.pw_gid)
    assert theirs.stat().st_uid == USER.pw_uid


@pytest.mark.parametrize("kind", PLANTS)
def test_the_directory_of_a_daemon_is_empty_at_its_start(kind: str, victim: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    for _ in range(2):
        daemon_files.give_directory(path, USER.pw_uid, USER.pw_gid)
        found = path.stat()
        assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (USER.pw_uid, USER.pw_gid, 0o700)
        assert os.listdir(path) == []
        plant(kind, path / "pid", victim)


def test_a_state_path_of_another_user_is_named(theirs: Path, caplog: pytest.LogCaptureFixture) -> None:
    with own_state(theirs):
        pass
    assert "belongs to user nobody, who can become root through it" in caplog.text


# --- bgpd -------------------------------------------------------------------------------------------------------------


def every_directory_of(user: int, base: Path) -> list[Path]:
    found = [base, *(path for path in base.rglob("*") if path.is_dir() and not path.is_symlink())]
    return [path for path in found if path.stat().st_uid == user]


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("earlier_release", [False, True])
def test_the_user_of_bgpd_does_not_become_root(kind: str, earlier_release: bool, victim: Path, tmp_path: Path) -> None:
    """Whatever it plants in the directories that it may change, under every name that root uses there."""
    bgpd, settings = Bgpd(str(tmp_path / "bgp"), "sleep", USER.pw_name), Settings("192.0.2.1", 10)
    bgpd.write(SPEAKER, render(speaker(65001), settings))
    service = bgpd.service(SPEAKER)
    service.before_start()
    if earlier_release:
        os.chown(tmp_path / "bgp" / SPEAKER, USER.pw_uid, USER.pw_gid)
    for directory in reversed(every_directory_of(USER.pw_uid, tmp_path / "bgp")):
        for name in ("bgpd.conf", ".bgpd.conf.new", "log", "pid", "commands", ".commands.new", "run"):
            plant(kind, directory / name, victim)

    assert within_seconds(lambda: bgpd.write(SPEAKER, render(speaker(65002), settings))) is None
    config = tmp_path / "bgp" / SPEAKER / "bgpd.conf"
    assert "65002" in config.read_text()
    assert (config.stat().st_uid, stat.S_IMODE(config.stat().st_mode)) == (os.geteuid(), 0o640)
    assert plan_service(service, RealProcesses(f"test-{uuid.uuid4().hex}"))[1] is None
    service.before_start()
    log = Path(service.daemon.log_file)
    processes = RealProcesses(f"test-{uuid.uuid4().hex}")
    process = processes.start(Daemon("bgpd", ("sleep", "1000"), log_file=str(log)))
    processes.stop(process, patience=0.1)
    assert os.lstat(log).st_uid == os.geteuid()
    bgpd.forget(SPEAKER)
    assert not (tmp_path / "bgp" / SPEAKER).exists()


def test_the_output_of_a_program_of_another_user_is_bounded() -> None:
    """vtysh prints what bgpd sends."""
    assert run_as(USER, ["id", "-un"]) == "nobody\n"
    assert run_as(USER, ["sh", "-c", "id -un; ls -d /; id >&2"]) == "nobody\n/\n"
    with pytest.raises(ProgramError, match="no such thing"):
        run_as(USER, ["sh", "-c", "echo no such thing >&2; exit 2"])
    with pytest.raises(ProgramError, match="exited with status 3"):
        run_as(USER, ["sh", "-c", "exit 3"])
    with pytest.raises(ProgramError, match="/nowhere"):
        run_as(USER, ["/nowhere"])
    with pytest.raises(ProgramError, match="yes prints more than 100000 bytes"):
        run_as(USER, ["yes"], 100_000)


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def processes() -> Iterator[RealProcesses]:
    made = RealProcesses(f"test-{uuid.uuid4().hex}")
    yield made
    for process in made.running().values():
        made.stop(process, patience=0.1)


@pytest.mark.parametrize("kind", PLANTS)
def test_a_log_that_was_planted_is_refused(kind: str, processes: RealProcesses, victim: Path, theirs: Path) -> None:
    plant(kind, theirs / "log", victim)
    daemon = Daemon("sleeper", ("sleep", "1000"), log_file=str(theirs / "log"))
    result = within_seconds(lambda: processes.start(daemon))
    assert isinstance(result, ProcessError)
    assert str(theirs / "log") in str(result)
    bound_log(str(theirs / "log"))


@pytest.mark.parametrize("kind", PLANTS)
@pytest.mark.parametrize("name", ["pid", "pid.new", ".pid.new"])
def test_a_pid_file_that_was_planted(
    kind: str, name: str, processes: RealProcesses, victim: Path, theirs: Path
) -> None:
    daemon = Daemon("sleeper", ("sleep", "1000"), pid_file=str(theirs / "pid"))
    plant(kind, theirs / name, victim)
    started = within_seconds(lambda: processes.start(daemon))
    assert within_seconds(lambda: processes.find("sleeper", daemon.pid_file)) == started
    plant(kind, theirs / "pid", victim)
    within_seconds(lambda: processes.stop(started, patience=0.1, pid_file=daemon.pid_file))
    assert not os.path.lexists(theirs / "pid")
    assert processes.running() == {}


def test_a_changed_pid_file_ends_no_other_process(processes: RealProcesses, theirs: Path, tmp_path: Path) -> None:
    """Neither one that another daemon is, nor one of root that is none of ours."""
    other = processes.start(Daemon("other", ("sleep", "1000")))
    with subprocess.Popen(["sleep", "1000"]) as foreign:
        try:
            for pid in (other.pid, foreign.pid, 1, -1, 0, 2**70):
                (theirs / "pid").write_text(f"{pid}\n")
                assert processes.find("daemon", str(theirs / "pid")) is None
            (theirs / "pid").write_text("9" * 10_000)
            assert processes.find("daemon", str(theirs / "pid")) is None
            dnsmasq = Dnsmasq(str(tmp_path), Namespaces())
            dnsmasq.record(NETWORK)
            for text in (f"{foreign.pid}\n", f"{other.pid}\n", "²\n", "-1\n", "9" * 10_000):
                (tmp_path / NETWORK / "pid").write_text(text)
                assert list(dnsmasq.pids(NETWORK)) == []
                dnsmasq.stop_all(NETWORK)
            assert foreign.poll() is None
            assert processes.find("other") == other
        finally:
            foreign.send_signal(signal.SIGKILL)


def test_the_reason_of_a_failed_start_is_bounded(processes: RealProcesses, tmp_path: Path) -> None:
    argv = ("sh", "-c", "head --bytes=1000000 /dev/zero | tr '\\0' x; exit 1")
    pid, log = str(tmp_path / "pid"), str(tmp_path / "log")
    with pytest.raises(ProcessError, match="xxx") as raised:
        processes.start(Daemon("talker", argv, pid_file=pid, log_file=log, writes_pid_file=True))
    assert len(str(raised.value)) < 5000


def test_the_log_of_another_file_is_not_cut(victim: Path, theirs: Path) -> None:
    large = theirs.parent / "large"
    large.write_bytes(b"x" * (MAX_LOG + 1))
    os.link(large, theirs / "log")
    bound_log(str(theirs / "log"))
    assert large.stat().st_size == MAX_LOG + 1


def test_the_files_of_a_service_replace_what_was_planted(victim: Path, theirs: Path) -> None:
    fakes = FakeProcesses()
    daemon = Daemon("radvd", ("radvd",), pid_file=str(theirs / "pid"))
    service = Service(daemon, {str(theirs / "radvd.conf"): "text"}, mode=0o644)
    for name in ("radvd.conf", ".radvd.conf.new", ".pid.loaded.new", "pid.loaded"):
        plant("symbolic link", theirs / name, victim)
    apply_service(service, fakes)
    assert (theirs / "radvd.conf").read_text() == "text"
    assert not (theirs / "radvd.conf").is_symlink()
