"""Messages of a snapshot that many hosts get, composed once for all of them. Pure.

After an outage thousands of hosts may need the thousands of objects of the same networks. Looking up and joining each of
these objects for each host would be most of the feed's work, so a store keeps the messages of a topic in parts of about a
frame until one of its objects changes, and leaves out of a part what a host must not get.

A part with nothing to be left out is compressed once for all hosts that accept it: of a large network that is nearly all of
a snapshot, and copying it into thousands of connections would be most of the work that is left.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from neutrino.feed.messages import compressed, frame

FRAME_BYTES: Final = 64 * 1024  # a frame is closed at this size, so that one host does not hold up the others


LEAST_COMPRESSED: Final = 4096  # bytes; less goes with other messages in one frame


@dataclass(slots=True, eq=False)
class Part:
    """Messages of consecutive objects."""

    data: bytes  # joined by commas
    end: int  # index of the first object after it
    _owners: tuple[str, ...]  # by object: the host that does not get it; empty: all get it
    _ends: array[int]  # by object: where its message ends
    _hosts: frozenset[str]  # the owners: a look at each of them would be most of the work
    _compressed: bytes = b""  # made on first use

    def compressed_for(self, host: str) -> bytes | None:
        """A compressed frame with all messages; None if the host must not get one of them, or if it is not worth it."""
        if host in self._hosts or len(self.data) < LEAST_COMPRESSED:
            return None
        if not self._compressed:
            self._compressed = compressed(frame([self.data]))
        return self._compressed

    def without(self, host: str) -> bytes:
        """The messages of all objects but the host's own."""
        if host not in self._hosts:
            return self.data
        kept, start = list[bytes](), 0
        for index in _places(self._owners, host):
            begin = self._ends[index - 1] + 1 if index else 0  # after the comma
            if begin > start:
                kept.append(self.data[start : begin - 1])
            start = self._ends[index] + 1
        if start < len(self.data):
            kept.append(self.data[start:])
        return b",".join(kept)


def _places(owners: tuple[str, ...], host: str) -> Iterator[int]:
    place = -1
    with suppress(ValueError):  # there is no further one
        while True:
            place = owners.index(host, place + 1)
            yield place


class Composed:
    """The messages of a topic's objects, as of its last change: a store drops it with the next one."""

    __slots__ = ("_message", "_parts", "ids")

    def __init__(self, ids: Sequence[str], message: Callable[[str], tuple[bytes, str]]) -> None:
        """`message`: of an object's id, with the host that does not get it, or an empty text."""
        self.ids = ids
        self._message = message
        self._parts: dict[int, Part] = {}  # by the index of the first object

    def part(self, start: int) -> Part | None:
        """The part that begins with this object; None if none does. Made on first use."""
        known = self._parts.get(start)
        if known is None and self._is_next(start):
            known = self._parts[start] = self._compose(start)
        return known

    def _is_next(self, start: int) -> bool:
        """Whether the part before it is known, so that all hosts get the same parts."""
        return start == (next(reversed(self._parts.values())).end if self._parts else 0)

    def _compose(self, start: int) -> Part:
        messages, owners, ends = list[bytes](), list[str](), array("L")
        size = 0
        for key in self.ids[start:]:
            message, owner = self._message(key)
            messages.append(message)
            owners.append(owner)
            size += len(message)
            ends.append(size)
            if size >= FRAME_BYTES:
                break
            size += 1  # the comma
        return Part(b",".join(messages), start + len(messages), tuple(owners), ends, frozenset(owners))
