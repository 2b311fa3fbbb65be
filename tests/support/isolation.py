"""Separate network and mount namespaces for each process that runs tests.

Tests create bridges, veth pairs, named namespaces and listening sockets. In the machine's namespaces these would collide
with existing ones (a bridge `br-ex`, a service on port 9696, the Open vSwitch of the distribution, `make up` in another
terminal) and with those of other test processes. If namespaces cannot be created, without root or in a restricted
container, nothing is isolated, and only tests that create no devices can pass.

Workers reach the servers that they share, in the namespace of the process that started the workers, by a link of their own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

HUB = "198.19.255.1"  # the address of the shared servers, of the range for benchmarks of networks (RFC 2544)
_FIRST_WORKER = 2
_DEVICE = "shared-servers"
_CLONE_NEWNS, _CLONE_NEWNET = 0x00020000, 0x40000000
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_RUN = ("/run/netns", "/run/openvswitch")
_libc = ctypes.CDLL(None, use_errno=True)


def isolate() -> bool:
    """Leave the machine's namespaces, and say whether that is possible.

    Call it in the main thread before others start: unshare() affects one thread only.
    """
    try:
        _check(_libc.unshare(_CLONE_NEWNS | _CLONE_NEWNET), "unshare")
    except PermissionError:
        return False
    mount("none", "/", "none", _MS_REC | _MS_PRIVATE)
    mount("sysfs", "/sys", "sysfs")  # shows the devices of the network namespace in which it is mounted
    for directory in _RUN:
        Path(directory).mkdir(parents=True, exist_ok=True)
        mount("tests", directory, "tmpfs", 0, "mode=755")
    _ip("link", "set", "lo", "up")
    return True


def link_to_hub(hub: int, number: int) -> None:
    """Make HUB, in the network namespace of the process `hub`, reachable for worker `number`."""
    own, peer = f"198.19.255.{_FIRST_WORKER + number}", f"worker{number}"
    _ip("link", "add", _DEVICE, "type", "veth", "peer", "name", peer, "netns", str(hub))
    there = ("nsenter", f"--net=/proc/{hub}/ns/net", "--")
    for prefix, device, address, other in (((), _DEVICE, own, HUB), (there, peer, HUB, own)):
        _ip("link", "set", device, "addrgenmode", "none", prefix=prefix)  # no IPv6: nothing but these addresses
        _ip("address", "add", address, "peer", other, "dev", device, prefix=prefix)
        _ip("link", "set", device, "up", prefix=prefix)


def new_mount_namespace() -> None:
    """Give this process a mount namespace whose mounts stay in it."""
    _check(_libc.unshare(_CLONE_NEWNS), "unshare")
    mount("none", "/", "none", _MS_REC | _MS_PRIVATE)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    names = (source.encode(), target.encode(), kind.encode())
    _check(_libc.mount(*names, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def _ip(*words: str, prefix: Sequence[str] = ()) -> None:
    subprocess.run([*prefix, "ip", *words], check=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
