"""Addresses of the feed: `unix:/path`, `ws://host:port` on loopback, `wss://host:port` between machines."""

import ipaddress
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MAX_PATH = 107  # bytes of a Unix socket's path that the kernel accepts


class BadAddress(ValueError):
    """Not a valid address of the feed."""


@dataclass(frozen=True, slots=True)
class Address:
    """A Unix socket's path, or host and port."""

    path: str = ""
    host: str = ""
    port: int = 0
    tls: bool = False

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.tls else 'ws'}://{host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        if self.path or self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse(text: str, *, tls: bool = False) -> Address:
    """Parse an address; `tls` applies to `host:port` without a scheme."""
    if text.startswith(("unix:", "/")):
        path = text.removeprefix("unix:").removeprefix("//")  # also unix:///path
        if not path.startswith("/"):
            raise BadAddress(f"{text!r} has to be the absolute path of a socket")
        return Address(path=path)
    scheme, found, rest = text.rpartition("://")
    if found and scheme not in ("ws", "wss"):
        raise BadAddress(f"{text!r} is not unix:/path, ws://host:port or wss://host:port")
    host, _, port = rest.rstrip("/").rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise BadAddress(f"{text!r} has no host and port")
    return Address(host=host.removeprefix("[").removesuffix("]"), port=int(port), tls=scheme == "wss" if found else tls)


@contextmanager
def short_path(path: str) -> Iterator[str]:
    """A path to the socket within MAX_PATH: of a long one, through a descriptor of its directory."""
    if len(os.fsencode(path)) <= MAX_PATH:
        yield path
        return
    directory = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{Path(path).name}"
    finally:
        os.close(directory)
