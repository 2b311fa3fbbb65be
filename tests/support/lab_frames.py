"""Frames made byte by byte: those that an honest machine would not send, and those that carry a mark to be known by.

with FrameCapture(receiver) as capture: ...                            the frames that arrive at a VM
arriving(sender, receiver, {"odd": lambda mark: …}, …)    which of several frames arrive
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
import struct
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Protocol, Self

from neutrino.lab.timing import Deadline
from neutrino.model.addresses import link_local

ARP, RARP, IPV4, IPV6, VLAN = 0x0806, 0x8035, 0x0800, 0x86DD, 0x8100
ICMP, TCP, UDP, ICMPV6 = 1, 6, 17, 58
FRAGMENT, DESTINATION_OPTIONS = 44, 60
EVERYBODY, NO_MAC = "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"
ALL_NODES, ALL_NODES_MAC = "ff02::1", "33:33:00:00:00:01"
ROUTER_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, NEIGHBOUR_ADVERTISEMENT = 134, 135, 136
SYN = 0x02
_EVERY_PROTOCOL = 0x0003
_FIRST_FRAGMENT = 1320  # bytes: conntrack of the userspace datapath takes no first fragment below 1280

Frame = Callable[[bytes], bytes | tuple[bytes, ...]]
"""Builds a frame, or several that belong together, with a given mark."""


class Station(Protocol):
    """An endpoint of a frame."""

    @property
    def mac(self) -> str: ...

    @property
    def addresses(self) -> Mapping[int, str]:
        """By IP version."""
        ...


class Machine(Protocol):
    """A VM, or another namespace with a device, where frames are sent and received."""

    @property
    def device(self) -> str: ...

    def socket(self, family: int, kind: int, protocol: int = 0) -> socket.socket: ...


# --- frames -----------------------------------------------------------------------------------------------------------


def ethernet(source: str, target: str, kind: int, payload: bytes, vlan: int | None = None) -> bytes:
    tag = b"" if vlan is None else struct.pack("!HH", VLAN, vlan)
    return _mac(target) + _mac(source) + tag + struct.pack("!H", kind) + payload


def arp(operation: int, sender: tuple[str, str], target: tuple[str, str], mark: bytes) -> bytes:
    """An ARP packet for two (MAC, address) pairs. The mark is padding after it."""
    payload = b"".join(_mac(mac) + _ip(address) for mac, address in (sender, target))
    return struct.pack("!HHBBH", 1, IPV4, 6, 4, operation) + payload + mark


def ipv4(source: str, target: str, protocol: int, payload: bytes, identity: int = 1, place: int = 0) -> bytes:
    """`place`: flags and offset of a fragment."""
    parts = (0x45, 0, 20 + len(payload), identity, place, 64, protocol, 0)
    head = struct.pack("!BBHHHBBH", *parts) + _ip(source) + _ip(target)
    return head[:10] + _checksum(head) + head[12:] + payload


def ipv6(source: str, target: str, protocol: int, payload: bytes) -> bytes:
    return struct.pack("!IHBB", 6 << 28, len(payload), protocol, 255) + _ip(source) + _ip(target) + payload


def ip(source: str, target: str, protocol: int, payload: bytes) -> tuple[int, bytes]:
    """An IP packet of the addresses' version, and its Ethernet type."""
    made = ipv6 if ":" in source else ipv4
    return (IPV6 if ":" in source else IPV4), made(source, target, protocol, payload)


def udp(source: str, target: str, ports: tuple[int, int], payload: bytes) -> bytes:
    head = struct.pack("!HHHH", *ports, 8 + len(payload), 0)
    return _with_checksum(source, target, UDP, head + payload, 6)


def tcp(source: str, target: str, ports: tuple[int, int], payload: bytes, flags: int = SYN) -> bytes:
    head = struct.pack("!HHIIBBHHH", *ports, 1, 0, 5 << 4, flags, 1024, 0, 0)
    return _with_checksum(source, target, TCP, head + payload, 16)


def icmp(kind: int, code: int, payload: bytes) -> bytes:
    head = struct.pack("!BBHHH", kind, code, 0, 7, 1)
    return head[:2] + _checksum(head + payload) + head[4:] + payload


def icmpv6(source: str, target: str, kind: int, payload: bytes) -> bytes:
    return _with_checksum(source, target, ICMPV6, struct.pack("!BBH", kind, 0, 0) + payload, 2)


def advertisement(source: str, target: str, address: str, mac: str, mark: bytes) -> bytes:
    """An unsolicited neighbour advertisement of the address and MAC."""
    option = struct.pack("!BB", 2, 1) + _mac(mac)
    payload = struct.pack("!I", 0x20000000) + _ip(address) + option
    return icmpv6(source, target, NEIGHBOUR_ADVERTISEMENT, payload + _as_option(mark))


def router_advertisement(source: str, target: str, mark: bytes) -> bytes:
    return icmpv6(source, target, ROUTER_ADVERTISEMENT, struct.pack("!BBHII", 64, 0, 1800, 0, 0) + _as_option(mark))


def _as_option(mark: bytes) -> bytes:
    """An unassigned option of neighbour discovery, in units of eight bytes."""
    length = (len(mark) + 2 + 7) // 8
    return struct.pack("!BB", 253, length) + mark.ljust(length * 8 - 2, b" ")


def _with_checksum(source: str, target: str, protocol: int, segment: bytes, at: int) -> bytes:
    addresses = _ip(source) + _ip(target)
    if ":" in source:
        pseudo = addresses + struct.pack("!IBBBB", len(segment), 0, 0, 0, protocol)
    else:
        pseudo = addresses + struct.pack("!BBH", 0, protocol, len(segment))
    return segment[:at] + _checksum(pseudo + segment) + segment[at + 2 :]


def _checksum(data: bytes) -> bytes:
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", ~total & 0xFFFF or 0xFFFF)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _ip(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


# --- frames with a mark, as machines send them -------------------------------------------------------------------------


def datagram(
    source: tuple[str, str], target: tuple[str, str], ports: tuple[int, int] = (7, 7), vlan: int | None = None
) -> Frame:
    """A UDP datagram from a (MAC, address) to another."""

    def made(mark: bytes) -> bytes:
        kind, packet = ip(source[1], target[1], UDP, udp(source[1], target[1], ports, mark))
        return ethernet(source[0], target[0], kind, packet, vlan)

    return made


def fragmented(
    source: tuple[str, str],
    target: tuple[str, str],
    segment: Callable[[bytes], bytes],
    protocol: int = UDP,
    *,
    extended: bool = False,
) -> Frame:
    """A segment in two fragments. The mark is in the first: a second fragment alone is not delivered.

    `extended`: IPv6, with an extension header between the fragment header and the segment.
    """

    def made(mark: bytes) -> tuple[bytes, ...]:
        whole, kind = segment(mark + b" " * 1400), protocol
        if extended:
            whole, kind = struct.pack("!BBBBI", protocol, 0, 1, 4, 0) + whole, DESTINATION_OPTIONS
        number, parts = secrets.randbits(16), (whole[:_FIRST_FRAGMENT], whole[_FIRST_FRAGMENT:])
        frames = []
        for part, offset, more in zip(parts, (0, _FIRST_FRAGMENT), (1, 0), strict=True):
            if ":" in source[1]:
                fragment = struct.pack("!BBHI", kind, 0, offset | more, number) + part
                packet = IPV6, ipv6(source[1], target[1], FRAGMENT, fragment)
            else:
                packet = IPV4, ipv4(source[1], target[1], kind, part, number, more << 13 | offset // 8)
            frames.append(ethernet(source[0], target[0], *packet))
        return tuple(frames)

    return made


def fragmented_datagram(
    source: tuple[str, str], target: tuple[str, str], ports: tuple[int, int] = (7, 7), *, extended: bool = False
) -> Frame:
    return fragmented(source, target, lambda data: udp(source[1], target[1], ports, data), extended=extended)


def honest(source: Station, target: Station, version: int = 4) -> Frame:
    """A valid datagram."""
    return datagram(ends(source, version), ends(target, version))


def to_all(source: Station, number: int = 7) -> Frame:
    return datagram(ends(source), (EVERYBODY, "255.255.255.255"), (7, number))


def ends(station: Station, version: int = 4) -> tuple[str, str]:
    return station.mac, station.addresses[version]


def arp_request(mac: str, sender: tuple[str, str], address: str) -> Frame:
    """An ARP request for the address, with a sender (MAC, address), from an Ethernet source MAC."""
    return lambda mark: ethernet(mac, EVERYBODY, ARP, arp(1, sender, (NO_MAC, address), mark))


def announces(mac: str) -> Frame:
    """The RARP that QEMU sends for a VM after live migration, to update the switches on the path."""
    nobody = (mac, "0.0.0.0")
    return lambda mark: ethernet(mac, EVERYBODY, RARP, arp(3, nobody, nobody, mark))


def advertises(mac: str, address: str) -> Frame:
    """A multicast neighbour advertisement of an IPv6 address at this MAC."""
    return _from_link_local(mac, lambda source, mark: advertisement(source, ALL_NODES, address, mac, mark))


def routes(mac: str) -> Frame:
    """A multicast RA of a router at this MAC."""
    return _from_link_local(mac, lambda source, mark: router_advertisement(source, ALL_NODES, mark))


def _from_link_local(mac: str, payload: Callable[[str, bytes], bytes]) -> Frame:
    source = str(link_local(mac))
    return lambda mark: ethernet(mac, ALL_NODES_MAC, IPV6, ipv6(source, ALL_NODES, ICMPV6, payload(source, mark)))


# --- sending and receiving --------------------------------------------------------------------------------------------


class FrameCapture:
    """Captures all frames that arrive at a machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._received: list[bytes] = []

    def __enter__(self) -> Self:
        self._socket = self._machine.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
        self._socket.bind((self._machine.device, 0))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._socket.close()

    def receives(self, mark: bytes, timeout: float) -> bool:
        """Whether a frame with the mark has arrived or arrives in time."""
        give_up = time.monotonic() + timeout
        while not self.received(mark):
            self._socket.settimeout(max(give_up - time.monotonic(), 0.001))
            try:
                frame, sender = self._socket.recvfrom(65536)
            except TimeoutError:
                return False
            if sender[2] != socket.PACKET_OUTGOING:
                self._received.append(frame)
        return True

    def received(self, mark: bytes) -> bool:
        return any(mark in frame for frame in self._received)


def send(machine: Machine, *frames: bytes | tuple[bytes, ...]) -> None:
    with machine.socket(socket.AF_PACKET, socket.SOCK_RAW) as device:
        device.bind((machine.device, 0))
        for several in frames:
            for frame in several if isinstance(several, tuple) else (several,):
                device.send(frame)


def swallowed(sender: Machine, receiver: Machine, frames: Mapping[str, Frame], taken: Callable[[], int]) -> bool:
    """Whether all frames are dropped, if no other frame can be expected to arrive. `taken` returns the number of frames
    that the switch received from the sender: the capture lasts until it received all, and a moment longer.
    """
    run = f"<{secrets.token_hex(4)}".encode()
    before, deadline = taken(), Deadline(10.0)
    with FrameCapture(receiver) as capture:
        send(sender, *(frame(run + f" {name}>".encode()) for name, frame in frames.items()))
        while taken() < before + len(frames):
            assert not deadline.has_passed(), "the switch does not receive the frames"
        return not capture.receives(run, 0.2)


def arriving(
    sender: Machine,
    receiver: Machine,
    frames: Mapping[str, Frame],
    control: Frame,
    control_sender: Machine | None = None,
    timeout: float = 10.0,
) -> set[str]:
    """The names of the frames that are delivered. They are sent in order, followed by a control frame that must arrive:
    once it has, so have all earlier frames that are forwarded. Missing ones are sent twice more, as a busy switch may
    lose a frame.
    """
    found: set[str] = set()
    with FrameCapture(receiver) as capture:
        for _ in range(3):
            missing = {name: frame for name, frame in frames.items() if name not in found}
            run = secrets.token_hex(4)
            send(sender, *(frame(_mark(run, name)) for name, frame in missing.items()))
            _wait_for_control(control_sender or sender, capture, control, _mark(run, ""), timeout)
            found |= {name for name in missing if capture.received(_mark(run, name))}
            if found == frames.keys():
                break
    return found


def _mark(run: str, name: str) -> bytes:
    return f"<{run} {name}>".encode()


def _wait_for_control(witness: Machine, capture: FrameCapture, control: Frame, mark: bytes, timeout: float) -> None:
    """Send it repeatedly until it arrives: the path may not be wired yet."""
    deadline = Deadline(timeout)
    send(witness, control(mark))
    while not capture.receives(mark, 0.3):
        assert not deadline.has_passed(), "the control frame does not arrive"
        send(witness, control(mark))
