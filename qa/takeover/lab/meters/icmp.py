"""Echo requests on many paths from one thread, each answer accounted for."""

from __future__ import annotations

import itertools
import selectors
import socket
import struct
import time

from qa.takeover.lab.meters.measurements import PingPath, Pings

_REQUEST = {4: 8, 6: 128}
_REPLY = {4: 0, 6: 129}
_HEADER = struct.Struct("!BBHHH")
_PAYLOAD = struct.Struct("!Id")
_SO_RCVBUF = 1 << 20


class Pinger:
    """One path. The number of a request is in its payload: a sequence number of 16 bits comes again after some minutes."""

    def __init__(self, path: PingPath, identifier: int, link: socket.socket) -> None:
        self.path = path
        self.version = 6 if ":" in path.target else 4
        self._identifier = identifier
        self._socket = link
        self._numbers = itertools.count()
        self._waiting: dict[int, float] = {}
        self._duplicates = 0
        self._slowest = 0.0
        self._sent = 0

    def send(self) -> None:
        number, now = next(self._numbers), time.monotonic()
        self._waiting[number] = now
        self._sent += 1
        packet = request(self.version, self._identifier, number, now)
        try:
            self._socket.sendto(packet, (self.path.target, 0))
        except OSError:
            return  # no route, for example: the request is lost

    def receive(self) -> None:
        data = self._socket.recv(2048)
        if self.version == 4:
            data = data[(data[0] & 0x0F) * 4 :]
        if len(data) < _HEADER.size + _PAYLOAD.size:
            return
        kind, _, _, identifier, _ = _HEADER.unpack_from(data)
        if kind != _REPLY[self.version] or identifier != self._identifier:
            return
        number, sent = _PAYLOAD.unpack_from(data, _HEADER.size)
        if self._waiting.pop(number, None) is None:
            self._duplicates += 1
        else:
            self._slowest = max(self._slowest, time.monotonic() - sent)

    def result(self, patience: float) -> Pings:
        """`patience`: seconds after which a request without an answer is lost; younger ones are not counted."""
        latest = time.monotonic() - patience
        lost = [at for at in self._waiting.values() if at < latest]
        return Pings(self._sent - len(self._waiting) + len(lost), lost, self._duplicates, self._slowest)

    def register(self, selector: selectors.BaseSelector) -> None:
        selector.register(self._socket, selectors.EVENT_READ, self.receive)


def open_socket(target: str) -> socket.socket:
    """A raw socket of the current network namespace."""
    if ":" in target:
        link = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    else:
        link = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    link.setblocking(False)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SO_RCVBUF)
    return link


def request(version: int, identifier: int, number: int, now: float) -> bytes:
    payload = _PAYLOAD.pack(number, now)
    header = _HEADER.pack(_REQUEST[version], 0, 0, identifier, number & 0xFFFF)
    if version == 6:
        return header + payload  # the kernel fills the checksum in, as it includes addresses
    return _HEADER.pack(_REQUEST[4], 0, checksum(header + payload), identifier, number & 0xFFFF) + payload


def checksum(data: bytes) -> int:
    """The Internet checksum of an even number of bytes."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
