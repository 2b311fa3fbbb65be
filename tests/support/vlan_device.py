"""A VLAN device in userspace: `python vlan_device.py eth0 vlan10 10` in an instance's namespace, until it is ended.

In place of `ip link add link eth0 name vlan10 type vlan id 10`, for which the kernel needs 802.1Q. It is a TAP device: what
is sent on it leaves through eth0 with the tag, and packets with the tag arrive on it.
"""

from __future__ import annotations

import fcntl
import os
import selectors
import socket
import struct
import sys

_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
_ETH_P_ALL, _VLAN = 0x0003, 0x8100
_SOL_PACKET, _PACKET_AUXDATA, _PACKET_OUTGOING = 263, 8, 4
_VLAN_VALID = 1 << 4  # in tp_status: the kernel has taken the tag off
_AUXDATA = struct.Struct("=IIIHHHH")  # status, length, snaplen, mac, net, VLAN, TPID
_SIZE = 65536


def main(parent: str, name: str, tag: int) -> None:
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as uplink:
        uplink.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        uplink.bind((parent, _ETH_P_ALL))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(tap, selectors.EVENT_READ)
            selector.register(uplink, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fd == tap:
                        frame = os.read(tap, _SIZE)
                        uplink.send(frame[:12] + struct.pack("!HH", _VLAN, tag) + frame[12:])
                    elif found := _tagged(uplink, tag):
                        _deliver(tap, found)


def _tagged(uplink: socket.socket, tag: int) -> bytes:
    """The packet that has arrived, without its tag; empty if it has another one, or was sent from here."""
    frame, ancillary, _, address = uplink.recvmsg(_SIZE, 256)
    if address[2] == _PACKET_OUTGOING:
        return b""
    for _, kind, data in ancillary:
        if kind == _PACKET_AUXDATA and len(data) >= _AUXDATA.size:
            status, *_, vlan, _tpid = _AUXDATA.unpack(data[: _AUXDATA.size])
            if status & _VLAN_VALID:
                return frame if vlan & 0xFFF == tag else b""
    kind, vlan = struct.unpack_from("!HH", frame, 12)
    return frame[:12] + frame[16:] if kind == _VLAN and vlan & 0xFFF == tag else b""


def _deliver(tap: int, frame: bytes) -> None:
    try:
        os.write(tap, frame)
    except OSError:  # the device is down
        return


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
