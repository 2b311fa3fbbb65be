"""What sorts packets into the queues of a device, as values: filters, and the lengths of queues.

Open vSwitch creates the device's htb discipline, with a class for each queue (`Qos` of a port). Of a packet that it sends
through a socket, as the userspace datapath does, the kernel does not know the queue: a filter finds it from the content.
"""

from collections.abc import Collection
from typing import NamedTuple, Protocol


class TcError(Exception):
    """The filters and queues of a device cannot be read or changed."""


class Word(NamedTuple):
    """32 bits of a packet; the offset counts from the network header, to which negative ones precede."""

    value: int
    mask: int
    offset: int


class Filter(NamedTuple):
    """Packets with all of these words go to a queue, by its number in Open vSwitch."""

    queue: int
    words: tuple[Word, ...]

    def text(self) -> str:
        found = " ".join(f"{word.value:08x}/{word.mask:08x} at {word.offset}" for word in self.words)
        return f"filter {found} to queue {self.queue}"


class QueueLength(NamedTuple):
    """How many packets may wait in a queue."""

    queue: int
    packets: int

    def text(self) -> str:
        return f"queue {self.queue} of {self.packets} packets"


Item = Filter | QueueLength


def match_mac(mac: str, offset: int, queue: int) -> Filter:
    """A filter for a MAC at this offset, which is even."""
    address, (start, inside) = int(mac.replace(":", ""), 16), divmod(offset, 4)
    value, mask = (number << (16 - 8 * inside) for number in (address, (1 << 48) - 1))
    high, low = Word(value >> 32, mask >> 32, start * 4), Word(value & 0xFFFFFFFF, mask & 0xFFFFFFFF, start * 4 + 4)
    return Filter(queue, (high, low))


class Tc(Protocol):
    def read(self, device: str) -> frozenset[Item]:
        """Our filters and queue lengths of a device; none if it has no htb discipline."""
        ...

    def replace(self, device: str, items: Collection[Item]) -> None:
        """Ours become these; those of others stay."""
        ...
