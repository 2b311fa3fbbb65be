"""VLAN tags of frames: sending tagged frames between machines, and which tags they have when they arrive.

The kernel takes the outer tag out of a frame that it gives to a socket, so the tag is read from the frame's auxiliary data.
"""

from __future__ import annotations

import dataclasses
import secrets
import socket
import struct
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from neutrino.lab.timing import Deadline
from tests.support.lab_frames import Frame, Machine, send

DOT1Q, DOT1AD = 0x8100, 0x88A8
Tags = tuple[tuple[int, int], ...]
"""The tags of a frame, the outer one first: Ethernet type and VLAN."""

_EVERY_PROTOCOL = 0x0003
_SOL_PACKET, _AUXDATA = 263, 8
_VLAN_VALID = 1 << 4
_AUXILIARY = struct.Struct("=IIIHHHH")


def with_tags(frame: bytes, tags: Tags) -> bytes:
    header = b"".join(struct.pack("!HH", kind, vlan) for kind, vlan in tags)
    return frame[:12] + header + frame[12:]


def tagged(frame: Frame, tags: Tags) -> Frame:
    def made(mark: bytes) -> bytes:
        plain = frame(mark)
        assert isinstance(plain, bytes)
        return with_tags(plain, tags)

    return made


def tags_of(frame: bytes) -> Tags:
    found: list[tuple[int, int]] = []
    while True:
        kind, tci = struct.unpack_from("!HH", frame, 12 + 4 * len(found))
        if kind not in (DOT1Q, DOT1AD):
            return tuple(found)
        found.append((kind, tci & 0xFFF))


@dataclasses.dataclass
class TagCapture:
    """All frames that a machine receives, with their tags."""

    machine: Machine
    frames: list[bytes] = dataclasses.field(default_factory=list)

    def __enter__(self) -> Self:
        self._socket = self.machine.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
        self._socket.setsockopt(_SOL_PACKET, _AUXDATA, 1)
        self._socket.bind((self.machine.device, 0))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._socket.close()

    def receive(self, seconds: float) -> bool:
        """Wait for one frame."""
        self._socket.settimeout(max(seconds, 0.001))
        try:
            frame, ancillary, _, sender = self._socket.recvmsg(65536, 256)
        except TimeoutError:
            return False
        if sender[2] != socket.PACKET_OUTGOING:
            self.frames.append(_whole(frame, ancillary))
        return True

    def tags(self, mark: bytes) -> list[Tags]:
        """The tags of every frame with the mark."""
        return [tags_of(frame) for frame in self.frames if mark in frame]


def _whole(frame: bytes, ancillary: Sequence[tuple[int, int, bytes]]) -> bytes:
    for level, kind, data in ancillary:
        if (level, kind) == (_SOL_PACKET, _AUXDATA):
            status, *_, tci, protocol = _AUXILIARY.unpack(data[: _AUXILIARY.size])
            if status & _VLAN_VALID:
                return with_tags(frame, ((protocol or DOT1Q, tci),))
    return frame


def arriving_tags(
    sender: Machine, receiver: Machine, frame: Frame, sent: Mapping[str, Tags], timeout: float = 10.0
) -> dict[str, list[Tags]]:
    """The frame is sent with each of these tags: those with which it arrives, by name; none if it does not.

    `sent` ends with one that must arrive: once it has, so have all earlier frames that are forwarded. All are sent twice
    more if some are missing, as a busy switch may lose a frame.
    """
    found: dict[str, list[Tags]] = {name: [] for name in sent}
    control = list(sent)[-1]
    with TagCapture(receiver) as capture:
        for _ in range(3):
            marks = {name: f"<{secrets.token_hex(4)} {name}>".encode() for name in sent}
            send(sender, *(tagged(frame, tags)(marks[name]) for name, tags in sent.items()))
            deadline = Deadline(timeout)
            while not capture.tags(marks[control]):
                if not capture.receive(0.3):
                    assert not deadline.has_passed(), "the control frame does not arrive"
                    send(sender, tagged(frame, sent[control])(marks[control]))
            for name, mark in marks.items():
                found[name] = found[name] or capture.tags(mark)
            if all(found.values()):
                break
    return found
