"""Transitions of HA routers: the VRRP address that comes to, or leaves, a network namespace."""

from __future__ import annotations

import selectors
import socket
import struct
import time

from qa.takeover.lab.meters.measurements import HaRouter, Transition

_GROUP_IPV4_ADDRESSES = 0x10  # RTMGRP_IPV4_IFADDR
_NEW, _DELETE, _LOCAL = 20, 21, 2  # RTM_NEWADDR, RTM_DELADDR, IFA_LOCAL
_HEADER = struct.Struct("=IHHII")
_ADDRESS = struct.Struct("=BBBBI")
_ATTRIBUTE = struct.Struct("=HH")
VRRP_PREFIX = b"\xa9\xfe\x00"  # 169.254.0.0/24


class Watch:
    """The namespace of a router on one host."""

    def __init__(self, router: HaRouter, link: socket.socket) -> None:
        self.router = router
        self._link = link
        self._is_active = router.is_active
        self.transitions: list[Transition] = []

    def register(self, selector: selectors.BaseSelector) -> None:
        selector.register(self._link, selectors.EVENT_READ, self._receive)

    def _receive(self) -> None:
        for is_added, address in address_events(self._link.recv(1 << 16)):
            if address.startswith(VRRP_PREFIX) and is_added != self._is_active:
                self._is_active = is_added
                router = self.router
                self.transitions.append(Transition(time.monotonic(), router.router, router.host, is_added))


def open_socket() -> socket.socket:
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    link.bind((0, _GROUP_IPV4_ADDRESSES))
    link.setblocking(False)
    return link


def address_events(data: bytes) -> list[tuple[bool, bytes]]:
    """The addresses of a netlink message, each with whether it was added."""
    events = []
    while len(data) >= _HEADER.size:
        size, kind, *_ = _HEADER.unpack_from(data)
        message, data = data[_HEADER.size : size], data[(size + 3) & ~3 :]
        if kind not in (_NEW, _DELETE):
            continue
        attributes = message[_ADDRESS.size :]
        while len(attributes) >= _ATTRIBUTE.size:
            length, name = _ATTRIBUTE.unpack_from(attributes)
            if name == _LOCAL:
                events.append((kind == _NEW, attributes[_ATTRIBUTE.size : length]))
            attributes = attributes[max(4, (length + 3) & ~3) :]
    return events
