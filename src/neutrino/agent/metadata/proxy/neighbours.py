"""The MAC behind a link-local address, as the kernel has seen it on the wire."""

from __future__ import annotations

import contextlib
import socket
import struct

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink.wire import attribute, read_attributes

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type
_ANSWER_BYTES = 1 << 13


def read_mac(kernel: socket.socket, device: int, address: str) -> str | None:
    """`kernel` was opened inside the namespace, and need not have rights. The kernel answers at once."""
    body = _NEIGHBOUR.pack(socket.AF_INET6, device, 0, 0, 0) + attribute(
        linux.NDA_DST, socket.inet_pton(socket.AF_INET6, address)
    )
    with contextlib.suppress(OSError):
        while True:
            kernel.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)  # an answer to a question that was given up
    try:
        kernel.send(_HEADER.pack(_HEADER.size + len(body), linux.RTM_GETNEIGH, linux.NLM_F_REQUEST, 1, 0) + body)
        answer = kernel.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        return None
    length, kind, *_ = _HEADER.unpack_from(answer)
    if kind != linux.RTM_NEWNEIGH:
        return None
    found = read_attributes(answer[_HEADER.size : length], _NEIGHBOUR.size)
    mac = found.get(linux.NDA_LLADDR)
    return mac.hex(":") if mac is not None and len(mac) == 6 else None
