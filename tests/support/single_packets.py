"""Single packets of any protocol, as frames: no stack sends, answers or retransmits them."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from ipaddress import ip_address

from tests.support.firewall import ICMP, ICMPV6, SCTP, TCP, UDP

OPENING_PORT = 41000  # of the side that opens the connection
_SYN, _ACK = 2, 16
_INIT, _INIT_ACK = 1, 2  # SCTP chunks
_ECHO = {ICMP: (8, 0), ICMPV6: (128, 129)}  # types of request and reply


def packet(
    protocol: int, source: str, destination: str, port: int, *, reply: bool = False, payload: bytes = b""
) -> bytes:
    """An IP packet that opens a connection to a port, or with `reply` an answer to such a packet, from that port."""
    ports = (port, OPENING_PORT) if reply else (OPENING_PORT, port)
    ends = ip_address(source).packed, ip_address(destination).packed
    data = _transport(protocol, ends, ports, reply, payload)
    if len(ends[0]) == 16:
        return struct.pack("!IHBB", 6 << 28, len(data), protocol, 64) + b"".join(ends) + data
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(data), 1, 0, 64, protocol, 0) + b"".join(ends)
    return header[:10] + _sum(header) + header[12:] + data


def _transport(protocol: int, ends: tuple[bytes, bytes], ports: tuple[int, int], reply: bool, payload: bytes) -> bytes:
    if protocol == TCP:
        flags = _ACK if reply else _SYN
        header = struct.pack("!HHIIBBHHH", *ports, 1000, 1 if reply else 0, 5 << 4, flags, 1000, 0, 0)
        return _summed(header + payload, 16, protocol, ends)
    if protocol == UDP:
        return _summed(struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload, 6, protocol, ends)
    if protocol in _ECHO:
        bare = struct.pack("!BBHHH", _ECHO[protocol][reply], 0, 0, min(ports), 1) + payload
        return _summed(bare, 2, protocol, ends if protocol == ICMPV6 else None)
    if protocol == SCTP:
        return _sctp(ports, reply, payload)
    return struct.pack("!HH", 0, 0x0800) + payload  # GRE


def _sctp(ports: tuple[int, int], reply: bool, payload: bytes) -> bytes:
    kind, tag, own = (_INIT_ACK, 1, 2) if reply else (_INIT, 0, 1)
    parameter = struct.pack("!HH", 0xC000, 4 + len(payload)) + payload  # one that a receiver skips
    chunk = struct.pack("!BBHIIHHI", kind, 0, 20 + len(parameter), own, 65536, 1, 1, 1) + parameter
    bare = struct.pack("!HHII", *ports, tag, 0) + chunk
    return bare[:8] + struct.pack("<I", _crc32c(bare)) + bare[12:]


def _crc32c(data: bytes) -> int:
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0x82F63B78 if found & 1 else 0)
    return found ^ 0xFFFFFFFF


def _summed(data: bytes, place: int, protocol: int, ends: tuple[bytes, bytes] | None) -> bytes:
    pseudo = b"".join(ends) + struct.pack("!II", len(data), protocol) if ends is not None else b""
    return data[:place] + _sum(pseudo + data) + data[place + 2 :]


def _sum(data: bytes) -> bytes:
    total = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF)


def arrives(
    sender: socket.socket, receiver: socket.socket, macs: tuple[str, str], sent: bytes, token: bytes, seconds: float
) -> bool:
    """Whether a packet with the token arrives. Both are packet sockets, bound to devices; `macs`: source, destination."""
    own, other = (bytes.fromhex(each.replace(":", "")) for each in macs)
    sender.send(other + own + (b"\x08\x00" if sent[0] >> 4 == 4 else b"\x86\xdd") + sent)
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and select.select([receiver], [], [], left)[0]:
        frame, place = receiver.recvfrom(2000)
        if token in frame and place[2] != socket.PACKET_OUTGOING:
            return True
    return False


def new_token() -> bytes:
    return os.urandom(12)
