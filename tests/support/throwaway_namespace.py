"""A temporary network namespace, held by a process that ends with the test session."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from neutrino.dataplane.netlink.namespaces import Namespaces
from tests.support.process import ENDS_WITH_US, wait_until

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class ThrowawayNamespace:
    """`with ThrowawayNamespace() as inside: inside.run("ip", "link")`."""

    def __init__(self) -> None:
        own = os.readlink("/proc/self/ns/net")
        self._process = subprocess.Popen(
            [*ENDS_WITH_US, "unshare", "--net", "sleep", "infinity"], start_new_session=True
        )
        try:
            wait_until(
                lambda: os.readlink(self.path) != own and Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n",
                timeout=10,
                what="a network namespace",
                failed=lambda: None if self._process.poll() is None else "could not be made",
            )
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def path(self) -> str:
        return f"/proc/{self.pid}/ns/net"

    @property
    def names(self) -> Namespaces:
        """The namespaces of the process that holds this one, which is called `net` there."""
        return Namespaces(f"/proc/{self.pid}/ns")

    def driver(self, driver: Any) -> Any:
        """A driver whose calls are made by a thread inside the namespace."""
        return _Inside(driver, self.names)

    def run(self, *command: str, text: str = "") -> str:
        argv = ["nsenter", f"--net={self.path}", *command]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done.stdout

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket inside; a temporary thread enters the namespace to create it."""
        with open("/proc/thread-self/ns/net") as own, open(self.path) as inside:
            _enter(inside.fileno())
            try:
                return socket.socket(family, kind, protocol)
            finally:
                _enter(own.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class _Inside:
    def __init__(self, driver: object, names: Namespaces) -> None:
        self._driver = driver
        self._names = names

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._driver, method)
        return lambda *arguments: self._names.run("net", lambda: call(*arguments))


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
