"""The sockets of a BFD session on one link (RFC 5881), opened in the router's namespace.

Packets go to UDP port 3784 with a TTL of 255, and others are not accepted: no router has forwarded them. The source port
is of the range that RFC 5881 requires. Both sockets have the router's address, without IP_FREEBIND: a host that does not
have the address, as the standby host of an HA router, cannot open them.
"""

import contextlib
import errno
import os
import random
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from neutrino.agent.l3.services.bfd.files import WantedSession
from neutrino.agent.l3.services.bfd.packet import ControlPacket, Invalid, decode, encode
from neutrino.dataplane.netlink.namespaces import Namespaces

PORT = 3784
SOURCE_PORTS = (49152, 65535)
TTL = 255
IP_RECVTTL = 12  # linux/in.h; Python has no name for it
_CONTROL = 0xC0  # DSCP CS6: network control
_MOST_BYTES = 512
_ANCILLARY = 64


@dataclass(frozen=True)
class LinkSockets:
    """`inode` is that of the namespace: one that is deleted and created again has another."""

    inode: int
    receiver: socket.socket
    sender: socket.socket
    peer: str
    target: tuple[object, ...]

    def send(self, packet: ControlPacket) -> None:
        """OSError if it cannot be sent, as when the address or the device is gone."""
        self.sender.sendto(encode(packet), self.target)

    def receive(self) -> Iterator[ControlPacket]:
        """All packets that have arrived from the peer, without those that are invalid."""
        while True:
            try:
                payload, ancillary, _, source = self.receiver.recvmsg(_MOST_BYTES, _ANCILLARY)
            except OSError:  # no more of them; or an error of the device, which the next `send` has too
                return
            if source[0].partition("%")[0] == self.peer and _ttl(ancillary) == TTL:
                with contextlib.suppress(Invalid):
                    yield decode(payload)

    def close(self) -> None:
        self.receiver.close()
        self.sender.close()


def open_sockets(namespaces: Namespaces, namespace: str, wanted: WantedSession) -> LinkSockets:
    """Raises NetlinkError or OSError. Blocking."""
    return namespaces.run(namespace, lambda: _open_here(wanted))


def has_address(namespaces: Namespaces, namespace: str, wanted: WantedSession) -> bool:
    """Whether the host has the address now. For IPv6: the kernel sends from an address that was removed."""

    def probe() -> bool:
        with socket.socket(_family(wanted.local), socket.SOCK_DGRAM) as made:
            try:
                made.bind(_address(wanted.local, 0, wanted.device))
            except OSError:
                return False
        return True

    return namespaces.run(namespace, probe)


def inode(namespaces: Namespaces, namespace: str) -> int | None:
    """None if there is no such namespace."""
    try:
        return os.stat(namespaces.path(namespace)).st_ino
    except FileNotFoundError:
        return None


def _open_here(wanted: WantedSession) -> LinkSockets:
    with contextlib.ExitStack() as undo:
        receiver, sender = (undo.enter_context(_socket(wanted)) for _ in range(2))
        if receiver.family == socket.AF_INET:
            receiver.setsockopt(socket.IPPROTO_IP, IP_RECVTTL, 1)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, TTL)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _CONTROL)
        else:
            receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, TTL)
            sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, _CONTROL)
        receiver.bind(_address(wanted.local, PORT, wanted.device))
        _bind_sender(sender, wanted)
        undo.pop_all()
    namespace = os.stat("/proc/thread-self/ns/net").st_ino
    peer = str(ip_address(wanted.peer))  # as the kernel writes it
    return LinkSockets(namespace, receiver, sender, peer, _address(peer, PORT, wanted.device))


def _socket(wanted: WantedSession) -> socket.socket:
    made = socket.socket(_family(wanted.local), socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, wanted.device.encode())
    return made


def _bind_sender(sender: socket.socket, wanted: WantedSession) -> None:
    for attempt in range(100):
        try:
            return sender.bind(_address(wanted.local, random.randint(*SOURCE_PORTS), wanted.device))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or attempt == 99:
                raise


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _address(address: str, port: int, device: str) -> tuple[object, ...]:
    if ":" not in address:
        return address, port
    return address, port, 0, socket.if_nametoindex(device) if address.startswith("fe80:") else 0


def _ttl(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) in ((socket.IPPROTO_IP, socket.IP_TTL), (socket.IPPROTO_IPV6, socket.IPV6_HOPLIMIT)):
            return int.from_bytes(data[:4], sys.byteorder)
    return None
