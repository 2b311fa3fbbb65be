"""Opens listening sockets inside namespaces, with the agent's privileges, for the unprivileged proxy."""

import contextlib
import errno
import os
import socket
from dataclasses import dataclass

import msgspec

from neutrino.agent.metadata.messages import Listener
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces

IP_FREEBIND = 15  # linux/in.h: an address can be bound before a device has it
NO_IPV6 = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
REFUSALS = (NetlinkError, OSError)


@dataclass(frozen=True)
class NamespaceSockets:
    """Blocking."""

    namespaces: Namespaces
    backlog: int = 4096

    def inode(self, namespace: str) -> int | None:
        """The inode of the namespace with that name; None if there is none."""
        try:
            found = os.stat(self.namespaces.path(namespace))
            own = os.stat("/proc/self/ns/net")
        except OSError:
            return None
        return found.st_ino if found.st_dev == own.st_dev else None  # else a file that is not mounted yet

    def open(self, namespace: str, wanted: Listener) -> tuple[Listener, list[socket.socket]]:
        """The listener with the namespace's inode, and its sockets. Raises NetlinkError or OSError."""
        return self.namespaces.run(namespace, lambda: self._open_here(wanted))

    def _open_here(self, wanted: Listener) -> tuple[Listener, list[socket.socket]]:
        inode = os.stat("/proc/thread-self/ns/net").st_ino
        with contextlib.ExitStack() as undo:
            opened = [
                undo.enter_context(self._listen(socket.AF_INET, wanted.address, wanted.port)),
                # For the MAC of a link-local source.
                undo.enter_context(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)),
            ]
            try:
                opened += [self._listen(socket.AF_INET6, "::", wanted.port)] if wanted.ipv6 else []
            except OSError as error:
                if error.errno not in NO_IPV6:  # a host without IPv6 serves IPv4 alone
                    raise
            undo.pop_all()
        return msgspec.structs.replace(wanted, inode=inode), opened

    def _listen(self, family: socket.AddressFamily, address: str, port: int) -> socket.socket:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # New sockets are opened while the old ones still accept: no connection is refused in between.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # IPv4 has a socket of its own
            else:
                made.setsockopt(socket.IPPROTO_IP, IP_FREEBIND, 1)
            made.bind((address, port))
            made.listen(self.backlog)
        except BaseException:
            made.close()
            raise
        return made
