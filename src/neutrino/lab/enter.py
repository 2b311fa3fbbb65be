"""Doing something inside the namespaces of a lab."""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from neutrino.lab.errors import LabError

CLONE_NEWNET = 0x40000000
COMMAND_SECONDS = 30.0
RUN_SECONDS = 60.0
_libc = ctypes.CDLL(None, use_errno=True)
T = TypeVar("T")


def host_command(holder: int, argv: Sequence[str]) -> list[str]:
    """The command in the namespaces of the process that holds them. nsenter becomes the command: the pid is its own."""
    return ["nsenter", f"--target={holder}", "--net", "--mount", "--", *argv]


def vm_command(holder: int, namespace: str, argv: Sequence[str]) -> list[str]:
    return host_command(holder, ["ip", "netns", "exec", namespace, *argv])


def host_network(holder: int) -> Path:
    return Path(f"/proc/{holder}/ns/net")


def host_file(holder: int, path: str) -> Path:
    """A host's file, seen from outside."""
    return Path(f"/proc/{holder}/root{path}")


def vm_network(holder: int, namespace: str) -> Path:
    return host_file(holder, f"/run/netns/{namespace}")


def in_network(network: Path, work: Callable[[], T]) -> T:
    """Do the work in a network namespace. A thread may enter one alone; what it starts is there too."""
    done: list[T] = []
    failed: list[BaseException] = []

    def enter() -> None:
        try:
            with network.open("rb") as file:
                if _libc.setns(file.fileno(), CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(network))
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=enter, name=f"in {network}")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def command(argv: Sequence[str], text: str | None = None, timeout: float = COMMAND_SECONDS) -> str:
    """Run to the end, bounded, and give the output; what it said is part of the error."""
    try:
        done = subprocess.run(argv, input=text or "", capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv)} did not end in {timeout:.0f} s") from None
    except OSError as error:
        raise LabError(f"{argv[0]} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise LabError(f"{' '.join(argv)} ended with {done.returncode}: {said}")
    return done.stdout


def run(
    where: str,
    argv: Sequence[str],
    entering: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout: float = RUN_SECONDS,
    check: bool = True,
    text: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `entering`, which is `argv` in some namespace, to its end. With `check` a status other than 0 is a LabError."""
    try:
        done = subprocess.run(
            entering,
            input=text or "",
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{where}: {' '.join(argv)} did not end in {timeout:.0f} s") from None
    if check and done.returncode != 0:
        raise LabError(f"{where}: {' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def ip_batch(lines: Sequence[str], within: Sequence[str] = ()) -> None:
    """Several commands of `ip` in one process."""
    if lines:
        command([*within, "ip", "-batch", "-"], "\n".join(lines) + "\n")


def write_sysctls(values: Mapping[str, int]) -> None:
    """In the network namespace that we are in. `conf/eth0.100` is a device's name: dots are not taken apart."""
    for name, value in values.items():
        Path("/proc/sys/net", name).write_text(str(value))
