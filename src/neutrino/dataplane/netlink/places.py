"""Which namespace is which of those that the kernel speaks of by number, as when it says where the other end of a pair is.

Each namespace numbers others for itself, and there is no question from number to name. So the kernel is asked about one
name after another, the host's own first, which it nearly always is, and only as far as needed.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink.api import NetlinkError
from neutrino.dataplane.netlink.namespaces import Namespaces
from neutrino.dataplane.netlink.values import HOST
from neutrino.dataplane.netlink.rtnetlink import RouteSocket, number, read_attributes


class Places:
    """Called with a number, it answers with a name, or None where none of the names is meant."""

    def __init__(self, route: RouteSocket, namespaces: Namespaces) -> None:
        self._route = route
        self._namespaces = namespaces
        self._known: dict[int, str] = {}
        self._names: Iterator[str] | None = None

    def __call__(self, wanted: int) -> str | None:
        if self._names is None:
            self._names = iter([HOST, *sorted(self._namespaces.names())])
        while wanted not in self._known:
            name = next(self._names, None)
            if name is None:
                return None
            self._known.setdefault(self._number(name), name)
        return self._known[wanted]

    def _number(self, name: str) -> int:
        try:
            descriptor = self._namespaces.open(name)
        except NetlinkError:
            return -1  # it went meanwhile
        try:
            body = struct.pack("=Bxxx", socket.AF_UNSPEC) + number(linux.NETNSA_FD, descriptor)
            answer = read_attributes(self._route.get(linux.RTM_GETNSID, body), 4)
        except OSError:
            return -1
        finally:
            os.close(descriptor)
        given: int = struct.unpack("=i", answer[linux.NETNSA_NSID])[0]
        return given
