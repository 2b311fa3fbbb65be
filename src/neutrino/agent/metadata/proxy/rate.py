"""How often each source has asked lately, in little memory. Pure: the time is given.

A window that slides is reckoned from two that do not: all of the present one, and of the one before the part that still
counts. Those who ask on while they are refused stay refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from neutrino.agent.metadata.messages import RateLimit

MOST_SOURCES: Final = 10_000  # those who have not asked for longest are forgotten


class _Window:
    __slots__ = ("before", "count", "start")

    def __init__(self, now: float) -> None:
        self.start, self.count, self.before = now, 0, 0

    def add(self, now: float, seconds: float) -> float:
        """One more; how many that makes in the last so many seconds."""
        passed = now - self.start
        if passed >= seconds:
            self.before = self.count if passed < 2 * seconds else 0
            self.start, self.count = now - passed % seconds, 0
            passed %= seconds
        self.count += 1
        return self.count + self.before * (1 - passed / seconds)


class RateLimiter:
    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._sources: OrderedDict[tuple[str, str], tuple[_Window, _Window]] = OrderedDict()

    def allows(self, key: str, source: str, now: float) -> bool:
        """Count a request of a source at the listener of that key."""
        if (6 if ":" in source else 4) not in self._limit.versions:
            return True
        windows = self._sources.get((key, source))
        if windows is None:
            windows = self._sources[key, source] = _Window(now), _Window(now)
            if len(self._sources) > MOST_SOURCES:
                self._sources.popitem(last=False)
        else:
            self._sources.move_to_end((key, source))
        limits = (self._limit.base, self._limit.burst)
        counts = [window.add(now, seconds) for window, (_, seconds) in zip(windows, limits, strict=True)]
        return all(count <= most for count, (most, _) in zip(counts, limits, strict=True))
