"""The connections of this process to clients of the API, as the kernel counts them.

granian gives an application neither the socket nor the port of a client, so the process looks through its own descriptors.
A descriptor may be closed and used again at any time: everything is done with a copy, whose cookie tells the sockets apart.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

DESCRIPTORS: Final = "/proc/self/fd"
SO_COOKIE: Final = 57  # of asm-generic/socket.h
OPEN: Final = (1, 8)  # ESTABLISHED, CLOSE_WAIT
NO_LINGER: Final = struct.pack("ii", 1, 0)  # the kernel drops the send buffer
TCP_INFO: Final = struct.Struct("=B 43x I 4x I 64x QQ 8x I 52x QQ")  # struct tcp_info of linux/tcp.h, in part


@dataclass(frozen=True)
class Sample:
    """Counters of a connection, in bytes, and seconds since data was last sent and received."""

    cookie: int
    address: str
    received: int
    sent: int  # without repetitions
    acknowledged: int
    unsent: int  # in the send buffer
    sent_ago: float
    received_ago: float

    @property
    def queued(self) -> int:
        """All that the server has written so far."""
        return self.sent + self.unsent


def samples(port: int) -> dict[int, Sample]:
    """The clients' connections by descriptor. `port`: of the API."""
    found = {}
    for name in os.listdir(DESCRIPTORS):
        with contextlib.suppress(OSError), _copy(int(name)) as copy:
            sample = _sample(copy, port)
            if sample is not None:
                found[int(name)] = sample
    return found


def close(descriptor: int, cookie: int, *, at_once: bool) -> None:
    """End a connection: the server reads its end, and may still answer. `at_once`: without what the client has not read."""
    with contextlib.suppress(OSError), _copy(descriptor) as copy:
        if _cookie(copy) != cookie:
            return
        if at_once:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        copy.shutdown(socket.SHUT_RDWR if at_once else socket.SHUT_RD)


@contextlib.contextmanager
def _copy(descriptor: int) -> Iterator[socket.socket]:
    if not os.readlink(f"{DESCRIPTORS}/{descriptor}").startswith("socket:"):
        raise OSError("not a socket")
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        yield copy


def _sample(copy: socket.socket, port: int) -> Sample | None:
    if copy.family not in (socket.AF_INET, socket.AF_INET6) or copy.type != socket.SOCK_STREAM:
        return None
    if copy.getsockname()[1] != port:  # a connection of this process to another server
        return None
    info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
    state, sent_ago, received_ago, acknowledged, received, unsent, sent, repeated = TCP_INFO.unpack(info)
    if state not in OPEN:
        return None
    return Sample(
        cookie=_cookie(copy),
        address=copy.getpeername()[0].partition("%")[0],
        received=received,
        sent=sent - repeated,
        acknowledged=acknowledged,
        unsent=unsent,
        sent_ago=sent_ago / 1000,
        received_ago=received_ago / 1000,
    )


def _cookie(copy: socket.socket) -> int:
    return int.from_bytes(copy.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8), "little")
