"""Whether a device leaves checksums of what it sends to hardware, by the old ethtool call; a veth has none.

On Open vSwitch's userspace datapath nobody fills them in, and what a router or DHCP server sends over a veth pair is
dropped by whoever gets it. So the end inside the namespace fills them in itself.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GET_TX_CHECKSUM, _SET_TX_CHECKSUM = 0x16, 0x17


def read_tx_checksum(control: socket.socket, device: str) -> bool:
    return bool(_call(control, device, _GET_TX_CHECKSUM, 0))


def set_tx_checksum(control: socket.socket, device: str, *, on: bool) -> None:
    if read_tx_checksum(control, device) != on:
        _call(control, device, _SET_TX_CHECKSUM, int(on))


def _call(control: socket.socket, device: str, command: int, value: int) -> int:
    name = device.encode()
    if len(name) > 15:
        raise OSError(errno.ENODEV, f"there is no device {device}")
    words = ctypes.create_string_buffer(struct.pack("=II", command, value), 8)
    fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", name, ctypes.addressof(words)))
    answer: int = struct.unpack("=II", words.raw)[1]
    return answer
