"""Opens listening sockets inside namespaces, with the agent's privileges, for the unprivileged proxy."""

import contextlib
import dataclasses
import errno
import os
import socket
from collections.abc import Iterator

from neutrino.agent.metadata.desired import MetadataNamespace
from neutrino.agent.metadata.messages import ListenerState, SocketKind
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces

IP_FREEBIND = 15  # linux/in.h: an address can be bound before a device has it
NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


@dataclasses.dataclass
class Opened:
    """To be closed when its descriptors have been sent."""

    state: ListenerState
    sockets: list[socket.socket]

    def descriptors(self) -> list[int]:
        return [each.fileno() for each in self.sockets]

    def close(self) -> None:
        for each in self.sockets:
            each.close()


class NamespaceSockets:
    """Blocking."""

    def __init__(self, namespaces: Namespaces, backlog: int = 4096) -> None:
        self._namespaces = namespaces
        self._backlog = backlog

    def inode(self, namespace: str) -> int | None:
        """The inode of the namespace with that name; None if there is none."""
        try:
            found = os.stat(self._namespaces.path(namespace))
            own = os.stat("/proc/self/ns/net")
        except OSError:
            return None
        return found.st_ino if found.st_dev == own.st_dev else None  # else a file that is not mounted yet

    def open(self, space: MetadataNamespace) -> Opened:
        """Raises NetlinkError or OSError."""
        return self._namespaces.run(space.namespace, lambda: self._open_here(space))

    def _open_here(self, space: MetadataNamespace) -> Opened:
        inode = os.stat("/proc/thread-self/ns/net").st_ino
        with contextlib.ExitStack() as undo:
            made: list[tuple[SocketKind, socket.socket]] = []
            for kind, opened in self._sockets(space):
                undo.callback(opened.close)
                made.append((kind, opened))
            undo.pop_all()
        kinds = tuple(kind for kind, _ in made)
        state = ListenerState(inode, space.port, space.ipv6, kinds, space.sources)
        return Opened(state, [opened for _, opened in made])

    def _sockets(self, space: MetadataNamespace) -> Iterator[tuple[SocketKind, socket.socket]]:
        yield "ipv4", self._listen(socket.AF_INET, space.address, space.port)
        # For the name of the device that a connection arrived by, and the MAC of a link-local source.
        yield (
            "netlink",
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE),
        )
        if not space.ipv6:
            return
        try:
            yield "ipv6", self._listen(socket.AF_INET6, "::", space.port)
        except OSError as error:
            if error.errno not in NO_IPV6:
                raise

    def _listen(self, family: socket.AddressFamily, address: str, port: int) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # New sockets are opened while the old ones still accept: no connection is refused in between.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            else:
                made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
            made.bind((address, port))
            made.listen(self._backlog)
        except BaseException:
            made.close()
            raise
        return made


REFUSALS = (NetlinkError, OSError)
