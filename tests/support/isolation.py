"""Separate network and mount namespaces for each process that runs tests.

Tests create bridges, veth pairs, named namespaces and listening sockets. In the machine's namespaces these would collide
with existing ones (a bridge `br-ex`, a service on port 9696, the Open vSwitch of the distribution, `make up` in another
terminal) and with those of other test processes. If namespaces cannot be created, without root or in a restricted
container, nothing is isolated, and only tests that create no devices can pass.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_RUN = ("/run/netns", "/run/openvswitch")
_libc = ctypes.CDLL(None, use_errno=True)
_outside: list[int] = []  # a descriptor of the machine's network namespace, once this process has left it


def isolate() -> None:
    """Leave the machine's namespaces. Call it in the main thread before others start: unshare() affects one thread only."""
    if _outside:
        return
    before = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET), "unshare")
    except PermissionError:
        os.close(before)
        return
    _outside.append(before)
    _mount("none", "/", "none", _MS_REC | _MS_PRIVATE)
    _mount("sysfs", "/sys", "sysfs")  # shows the devices of the network namespace in which it is mounted
    for directory in _RUN:
        Path(directory).mkdir(parents=True, exist_ok=True)
        _mount("tests", directory, "tmpfs", 0, "mode=755")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def in_machines_network(argv: Sequence[str]) -> list[str]:
    """The command in the machine's network namespace, for programs that need the Internet, such as pip."""
    if not _outside:
        return [*argv]
    return ["nsenter", f"--net=/proc/{os.getpid()}/fd/{_outside[0]}", "--", *argv]


def _mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    names = (source.encode(), target.encode(), kind.encode())
    _check(_libc.mount(*names, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
