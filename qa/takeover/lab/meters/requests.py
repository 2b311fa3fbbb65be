"""Requests once a second, each kind from a thread: metadata over HTTP, renewals of DHCP leases."""

from __future__ import annotations

import http.client
import ipaddress
import itertools
import socket
import struct
import threading
import time
from collections.abc import Callable

from qa.takeover.lab.meters.measurements import RequestPath, Requests

PERIOD = 1.0
SECONDS = 6.0  # the longest wait for an answer
AGAIN_SECONDS = 3.0  # a DHCP client repeats a request that has no answer, as udhcpc does by default
_COOKIE = b"\x63\x82\x53\x63"
_REQUEST, _ACK = 3, 5
_DHCP = struct.Struct("!BBBBIHH4s4s4s4s16s64s128s4s")


class Requester:
    """One path, measured from a thread that is in the namespace of the instance already."""

    def __init__(self, path: RequestPath) -> None:
        self.path = path
        self.stopped = threading.Event()
        self._answers: list[tuple[float, float]] = []
        self._unanswered: list[tuple[float, str]] = []
        self._numbers = itertools.count(1)

    def run(self) -> None:
        ask: Callable[[], None] = self._ask_metadata if self.path.kind == "metadata" else self._renew
        while not self.stopped.is_set():
            asked = time.monotonic()
            try:
                ask()
            except (OSError, http.client.HTTPException, ValueError) as error:
                self._unanswered.append((asked, str(error)))
            else:
                self._answers.append((asked, time.monotonic() - asked))
            self.stopped.wait(max(0.0, asked + PERIOD - time.monotonic()))

    def result(self) -> Requests:
        return Requests(list(self._answers), list(self._unanswered))

    def _ask_metadata(self) -> None:
        connection = http.client.HTTPConnection(self.path.target, timeout=SECONDS)
        try:
            connection.request("GET", "/latest/meta-data/instance-id")
            answer = connection.getresponse()
            answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise ValueError(f"metadata answered {answer.status}")
        finally:
            connection.close()

    def _renew(self) -> None:
        number = next(self._numbers)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            link.bind((self.path.source, 68))
            link.settimeout(AGAIN_SECONDS)
            for is_last in (False, True):
                link.sendto(renewal(number, self.path.source, self.path.mac), (self.path.target, 67))
                try:
                    kind = _answer_to(number, link)
                    break
                except TimeoutError:
                    if is_last:
                        raise
            if kind != _ACK:
                raise ValueError(f"DHCP answered with message type {kind}")


def _answer_to(number: int, link: socket.socket) -> int:
    """The type of the answer to a request."""
    while True:
        kind, answered = read_answer(link.recv(2048))
        if answered == number:
            return kind


def renewal(number: int, address: str, mac: str) -> bytes:
    """A DHCPREQUEST of a client that has the address, as in RENEWING."""
    hardware = bytes.fromhex(mac.replace(":", "")).ljust(16, b"\0")
    own = ipaddress.IPv4Address(address).packed
    none = b"\0" * 4
    head = _DHCP.pack(1, 1, 6, 0, number, 0, 0, own, none, none, none, hardware, b"", b"", _COOKIE)
    return head + bytes((53, 1, _REQUEST, 255))


def read_answer(data: bytes) -> tuple[int, int]:
    """The message type and the transaction of a DHCP answer."""
    transaction = _DHCP.unpack_from(data)[4]
    options = data[_DHCP.size :]
    while options and options[0] != 255:
        if options[0] == 53:
            return options[2], transaction
        options = options[1:] if options[0] == 0 else options[2 + options[1] :]
    raise ValueError("a DHCP answer without message type")
