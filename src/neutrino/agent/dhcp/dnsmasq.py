"""dnsmasq itself: its files and its process, of one network each. The only place here that starts, signals or ends one.

A process is known by its command line, which names the pid file of its network: an agent with no memory finds it again.
It is started inside the namespace, goes into the background by itself, and outlives the agent.

Other daemons are run by `dataplane/process`; dnsmasq is not, for three reasons. That it goes into the background is the
one sign that it listens, and ports are ACTIVE by that sign; there, daemons stay in the foreground. There, they are known
by marks in their environment, and a dnsmasq that Neutron's agent has left behind, which we end and replace, has none. And
whether it has to be started anew is seen from its command line and its files together (`plan.py`), not from a digest.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from neutrino import private
from neutrino.agent.dhcp import command

T = TypeVar("T")
FILES = (command.HOST, command.ADDN_HOSTS, command.OPTS, command.INTERFACE, command.BOUND, command.LEASES)
START_SECONDS = 20.0
END_SECONDS = 5.0


class DnsmasqError(Exception):
    """dnsmasq could not be started, or did not end."""


class Inside(Protocol):
    """Does something inside a namespace."""

    def run(self, name: str, work: Callable[[], T]) -> T: ...


@dataclass(frozen=True)
class Found:
    """What is there of a network's dnsmasq."""

    pid: int | None = None
    running: tuple[str, ...] | None = None  # the command line
    files: Mapping[str, str] = field(default_factory=dict)


class Dnsmasq:
    def __init__(self, directory: str, inside: Inside) -> None:
        """`directory` holds a directory for each network."""
        self._directory = Path(directory)
        self._inside = inside

    def networks(self) -> frozenset[str]:
        """Those that have files here."""
        try:
            return frozenset(
                entry.name for entry in os.scandir(self._directory) if entry.is_dir() and _is_id(entry.name)
            )
        except FileNotFoundError:
            return frozenset()

    def read(self, network_id: str) -> Found:
        where = self._directory / network_id
        files: dict[str, str] = {}
        for name in FILES:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                files[name] = (where / name).read_text(errors="replace")
        pid = self._pid(where)
        running = _command_of(pid) if pid is not None else None
        return Found(pid, running, files)

    def is_running(self, network_id: str) -> bool:
        """Also one whose pid file is lost."""
        where = self._directory / network_id
        return self._pid(where) is not None or next(self._pids(where), None) is not None

    def write(self, network_id: str, files: Mapping[str, str]) -> None:
        """Each file whole or not at all. dnsmasq gives up its rights and must still be able to read them."""
        where = self._directory / network_id
        private.own_directory(self._directory, passable=True)
        private.own_directory(where, passable=True)
        for name, text in files.items():
            new = where / f".{name}.new"
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            with os.fdopen(descriptor, "w") as file:
                os.fchmod(descriptor, 0o644)
                file.write(text)
            new.replace(where / name)

    def start(self, namespace: str, argv: Sequence[str]) -> None:
        """Returns when it serves, which it says by going into the background; none of the network may run."""
        for word in argv:
            if word.startswith("--log-facility=/"):
                Path(word.partition("=")[2]).parent.mkdir(parents=True, exist_ok=True)
        self._call(namespace, argv)

    def reload(self, network_id: str) -> None:
        pid = self._pid(self._directory / network_id)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)

    def stop(self, network_id: str) -> None:
        """Also one whose pid file is lost: two would be in each other's way."""
        for pid in self._pids(self._directory / network_id):
            _end(pid)
        (self._directory / network_id / command.PID).unlink(missing_ok=True)

    def forget(self, network_id: str) -> None:
        """Its files go. They are what an agent with no memory knows the network by: last of all."""
        shutil.rmtree(self._directory / network_id, ignore_errors=True)

    def release(self, namespace: str, argv: Sequence[str]) -> None:
        self._call(namespace, argv)

    def _call(self, namespace: str, argv: Sequence[str]) -> None:
        def work() -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=START_SECONDS,
                start_new_session=True,
                cwd="/",
                check=False,
            )

        try:
            done = self._inside.run(namespace, work)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DnsmasqError(f"{argv[0]}: {error}") from error
        if done.returncode:
            raise DnsmasqError(f"{argv[0]}: {done.stderr.decode(errors='replace').strip() or done.returncode}")

    def _pid(self, where: Path) -> int | None:
        """The process that the pid file names, if it is the one."""
        try:
            pid = int((where / command.PID).read_text())
        except (OSError, ValueError):
            return None
        return pid if _is_of(pid, where) else None

    def _pids(self, where: Path) -> Iterator[int]:
        for entry in os.scandir("/proc"):
            if entry.name.isdigit() and _is_of(int(entry.name), where):
                yield int(entry.name)


def _is_of(pid: int, where: Path) -> bool:
    argv = _command_of(pid)
    return argv is not None and f"--pid-file={where / command.PID}" in argv and Path(argv[0]).name == "dnsmasq"


def _command_of(pid: int) -> tuple[str, ...] | None:
    try:
        text = Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return None
    return tuple(text.split("\0")[:-1]) or None


def _end(pid: int) -> None:
    """Kindly, then not; whoever started it may be long gone, so it is waited for by its descriptor."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
            if select.select([descriptor], [], [], END_SECONDS)[0]:
                return
    finally:
        os.close(descriptor)
    raise DnsmasqError(f"dnsmasq {pid} does not end")


def _is_id(name: str) -> bool:
    return len(name) == 36 and name.count("-") == 4
