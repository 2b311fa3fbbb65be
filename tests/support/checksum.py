"""Checksums of UDP datagrams as a raw socket sees them, which is how DHCP clients read replies."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable

UDP = 17
_ALL = 3  # ETH_P_ALL


def has_right_checksum(frame: bytes) -> bool:
    """Of an Ethernet frame with IPv4 and UDP. A sum that was left to hardware covers the pseudo header alone."""
    header = (frame[14] & 15) * 4
    packet = frame[14 : 14 + struct.unpack_from("!H", frame, 16)[0]]
    data = packet[header:]
    if data[6:8] == bytes(2):  # no checksum at all, which IPv4 permits
        return True
    whole = packet[12:20] + struct.pack("!BBH", 0, UDP, len(data)) + data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(whole) // 2}H", whole))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF


def is_datagram_to(frame: bytes, port: int) -> bool:
    if frame[12:14] != b"\x08\x00" or frame[23] != UDP:
        return False
    header = 14 + (frame[14] & 15) * 4
    return bool(struct.unpack_from("!H", frame, header + 2)[0] == port)


def captured(sniffer: socket.socket, port: int, send: Callable[[], object], seconds: float = 15.0) -> list[bytes]:
    """Frames with UDP datagrams to the port that arrive while `send` runs, at least one of them."""
    found: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        sniffer.settimeout(0.1)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (found and done.is_set()):
            try:
                frame, sender = sniffer.recvfrom(65536)
            except TimeoutError:
                continue
            if sender[2] != socket.PACKET_OUTGOING and is_datagram_to(frame, port):
                found.append(frame)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        send()
    finally:
        done.set()
        reader.join()
    return found


def sniff(device: str) -> socket.socket:
    """A raw socket on a device of this thread's network namespace."""
    sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    sniffer.bind((device, 0))
    return sniffer
