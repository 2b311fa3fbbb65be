"""Who may knock at the feed, and how often: bounds on connections that have not shown a credential yet. Pure.

An address may miss a few times, then once in a while; and so many of its connections, and of all together, may be on
their way in at once. A host whose credential the feed knows is never counted as a miss. Sockets of this machine have no
address and no bounds: their file's mode says who may come.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MISSES: Final = 10  # at once, of one address
MISS_SECONDS: Final = 5.0  # after which one of them is forgiven
MOST_ADDRESSES: Final = 10_000  # remembered for their misses; beyond that, those that missed longest ago are forgotten
MOST_UNKNOWN: Final = 256  # connections of one address that have not shown a credential
MOST_UNKNOWN_ALL: Final = 4096


@dataclass
class _Misses:
    count: float
    at: float


class Gate:
    """`clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float], most: int = MOST_UNKNOWN, most_all: int = MOST_UNKNOWN_ALL) -> None:
        self._clock = clock
        self._most = most
        self._most_all = most_all
        self._misses: dict[str, _Misses] = {}
        self._unknown: Counter[str] = Counter()

    # --- connections on their way in ----------------------------------------------------------------------------------

    def enter(self, address: str) -> bool:
        """A connection has come; whether it may stay. One that may not is not counted."""
        if address and (self._unknown[address] >= self._most or self._unknown.total() >= self._most_all):
            return False
        self._unknown[address] += 1
        return True

    def leave(self, address: str) -> None:
        """It has shown a credential, or is gone."""
        self._unknown[address] -= 1
        if self._unknown[address] <= 0:
            del self._unknown[address]

    # --- credentials that are wrong -----------------------------------------------------------------------------------

    def is_closed(self, address: str) -> bool:
        """Whether an address has missed too often of late: then its credential is not looked up."""
        return bool(address) and self._now(address) > MISSES - 1

    def missed(self, address: str) -> None:
        if not address:
            return
        count = self._now(address) + 1
        self._misses.pop(address, None)
        self._misses[address] = _Misses(count, self._clock())  # the last that missed is last
        if len(self._misses) > MOST_ADDRESSES:
            del self._misses[next(iter(self._misses))]

    def _now(self, address: str) -> float:
        known = self._misses.get(address)
        return max(0.0, known.count - (self._clock() - known.at) / MISS_SECONDS) if known is not None else 0.0


def source(peer: object) -> str:
    """By what an address is counted: an IPv6 one by its /64, of which one machine may have all. Empty: a local socket."""
    host = peer[0] if isinstance(peer, tuple) and peer else ""
    try:
        address = ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(address)
