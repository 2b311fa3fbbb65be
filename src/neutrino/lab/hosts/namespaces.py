"""Running commands and functions in the namespaces of hosts and instances."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.lab.errors import LabError
from neutrino.lab.timing import scaled

COMMAND_SECONDS = 180.0
T = TypeVar("T")


def host_command(holder: int, argv: Sequence[str]) -> list[str]:
    """The command in the namespaces of `holder`. nsenter execs it without a fork, so the pid is the command's own."""
    return ["nsenter", f"--target={holder}", "--net", "--mount", "--", *argv]


def vm_command(holder: int, namespace: str, argv: Sequence[str]) -> list[str]:
    return host_command(holder, ["ip", "netns", "exec", namespace, *argv])


def host_file(holder: int, path: str) -> Path:
    """A path in the host's mount namespace, accessible from outside."""
    return Path(f"/proc/{holder}/root{path}")


def vm_network(holder: int, namespace: str) -> Path:
    return host_file(holder, f"/run/netns/{namespace}")


def in_network(network: Path, work: Callable[[], T]) -> T:
    """Call `work` in a network namespace, in a thread of its own: sockets and processes that it creates stay there."""
    return Namespaces(str(network.parent)).run(network.name, work)


def in_host(holder: int, work: Callable[[], T]) -> T:
    """Call `work` in the network namespace of a host, likewise."""
    return in_network(Path(f"/proc/{holder}/ns/net"), work)


def run(
    argv: Sequence[str],
    *,
    text: str | None = None,
    timeout: float = COMMAND_SECONDS,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    shown: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end. A timeout, or with `check` an exit status other than 0, is a LabError.

    `shown`: the command for error messages, where `argv` is wrapped to enter a namespace.
    """
    shown, timeout = shown or " ".join(argv), scaled(timeout)
    try:
        # With an empty input at least: a program must not read from the terminal of the command.
        done = subprocess.run(
            argv, input=text or "", capture_output=True, text=True, timeout=timeout, check=False, env=env
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"{shown} did not end within {timeout:.0f} s") from None
    except OSError as error:
        raise LabError(f"cannot run {argv[0]}: {error.strerror}") from None
    if check and done.returncode != 0:
        raise LabError(f"{shown} failed with exit status {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done


def command(argv: Sequence[str], text: str | None = None) -> str:
    """The output of a command that must succeed."""
    return run(argv, text=text).stdout


def ip_batch(lines: Sequence[str], prefix: Sequence[str] = ()) -> None:
    """Several `ip` commands in one process; `prefix` is a command that enters a namespace."""
    if lines:
        command([*prefix, "ip", "-batch", "-"], "\n".join(lines) + "\n")


def write_sysctls(values: Mapping[str, int]) -> None:
    """Write sysctls of the current network namespace, by path: `ipv4/conf/eth0.100/…` keeps the dot of a device name."""
    for name, value in values.items():
        Path("/proc/sys/net", name).write_text(str(value))
