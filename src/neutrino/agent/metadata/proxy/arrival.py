"""The device that a connection came by, as the kernel noted it when the handshake was completed."""

from __future__ import annotations

import socket
import struct

_IP_PKTINFO, _IP_PKTOPTIONS = 8, 9  # linux/in.h
_IPV6_2292PKTOPTIONS = 6  # linux/in6.h
_HEADER = struct.Struct("@Nii")  # of a control message: length, level, type
_IPV4 = struct.Struct("=i8x")  # in_pktinfo: index, two addresses
_IPV6 = struct.Struct("=16xi")  # in6_pktinfo: address, index
_ANSWER_BYTES = 256


def arrived_by(connection: socket.socket) -> int | None:
    """The device's index; None if the connection is gone."""
    try:
        if connection.family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
            answer = connection.getsockopt(socket.IPPROTO_IPV6, _IPV6_2292PKTOPTIONS, _ANSWER_BYTES)
            wanted, layout = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO), _IPV6
        else:
            connection.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
            answer = connection.getsockopt(socket.IPPROTO_IP, _IP_PKTOPTIONS, _ANSWER_BYTES)
            wanted, layout = (socket.IPPROTO_IP, _IP_PKTINFO), _IPV4
    except OSError:
        return None
    return _read(answer, wanted, layout)


def _read(answer: bytes, wanted: tuple[int, int], layout: struct.Struct) -> int | None:
    if len(answer) < _HEADER.size + layout.size:
        return None
    _, level, kind = _HEADER.unpack_from(answer)
    (index,) = layout.unpack_from(answer, _HEADER.size)
    return index if (level, kind) == wanted and index > 0 else None
