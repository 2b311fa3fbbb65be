"""Questions to the kernel of a namespace: the name of a device, and the MAC behind a link-local address.

The socket was opened inside the namespace by the agent and needs no rights for asking. The kernel answers at once.
"""

from __future__ import annotations

import contextlib
import socket
import struct

from neutrino.dataplane.netlink import constants as linux
from neutrino.dataplane.netlink.rtnetlink import attribute, read_attributes

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_LINK = struct.Struct("=BxHiII")  # family, type, index, flags, change
_NEIGHBOUR = struct.Struct("=BxxxiHBB")  # family, index, state, flags, type
_ANSWER_BYTES = 1 << 15


def read_device(kernel: socket.socket, index: int) -> str | None:
    """The device's present name; None if there is none of that index."""
    body = _LINK.pack(socket.AF_UNSPEC, 0, index, 0, 0)
    name = _ask(kernel, linux.RTM_GETLINK, body, linux.RTM_NEWLINK, _LINK.size).get(linux.IFLA_IFNAME)
    return name.rstrip(b"\0").decode(errors="replace") if name is not None else None


def read_mac(kernel: socket.socket, device: int, address: str) -> str | None:
    """The MAC as the kernel has seen it on the wire; None if it has not."""
    target = attribute(linux.NDA_DST, socket.inet_pton(socket.AF_INET6, address))
    body = _NEIGHBOUR.pack(socket.AF_INET6, device, 0, 0, 0) + target
    mac = _ask(kernel, linux.RTM_GETNEIGH, body, linux.RTM_NEWNEIGH, _NEIGHBOUR.size).get(linux.NDA_LLADDR)
    return mac.hex(":") if mac is not None and len(mac) == 6 else None


def _ask(kernel: socket.socket, what: int, body: bytes, expected: int, fixed_bytes: int) -> dict[int, bytes]:
    """The attributes of the one answer; none where the kernel refuses."""
    with contextlib.suppress(OSError):
        while True:
            kernel.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)  # an answer to a question that was given up
    try:
        kernel.send(_HEADER.pack(_HEADER.size + len(body), what, linux.NLM_F_REQUEST, 1, 0) + body)
        answer = kernel.recv(_ANSWER_BYTES, socket.MSG_DONTWAIT)
    except OSError:
        return {}
    length, kind, *_ = _HEADER.unpack_from(answer)
    return read_attributes(answer[_HEADER.size : length], fixed_bytes) if kind == expected else {}
