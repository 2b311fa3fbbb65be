"""Rate limit per source. Pure: the time is a parameter.

A sliding window is estimated from two fixed ones: the current count, and the share of the previous one that still
overlaps. Refused requests count too, so that a source that keeps asking stays refused.
"""

from collections import OrderedDict
from typing import Final

from neutrino.agent.metadata.messages import RateLimit

MAX_SOURCES: Final = 10_000  # beyond it the least recent source is forgotten: memory is bounded


class _Window:
    __slots__ = ("count", "previous", "start")

    def __init__(self, now: float) -> None:
        self.start, self.count, self.previous = now, 0, 0

    def add(self, now: float, seconds: float) -> float:
        """Count a request; the estimated number in the last `seconds`."""
        passed = now - self.start
        if passed >= seconds:
            self.previous = self.count if passed < 2 * seconds else 0
            self.start, self.count = now - passed % seconds, 0
            passed %= seconds
        self.count += 1
        return self.count + self.previous * (1 - passed / seconds)


class RateLimiter:
    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._sources: OrderedDict[tuple[str, str], tuple[_Window, _Window]] = OrderedDict()

    def allows(self, key: str, source: str, now: float) -> bool:
        """Count a request of a source in the namespace `key`."""
        limit = self._limit
        if not limit.rate_limit_enabled or (6 if ":" in source else 4) not in limit.ip_versions:
            return True
        windows = self._sources.get((key, source))
        if windows is None:
            windows = self._sources[key, source] = _Window(now), _Window(now)
            if len(self._sources) > MAX_SOURCES:
                self._sources.popitem(last=False)
        else:  # least recent first, for the bound above
            self._sources.move_to_end((key, source))
        limits = (
            (limit.base_query_rate_limit, limit.base_window_duration),
            (limit.burst_query_rate_limit, limit.burst_window_duration),
        )
        counts = [window.add(now, seconds) for window, (_, seconds) in zip(windows, limits, strict=True)]
        return all(count <= most for count, (most, _) in zip(counts, limits, strict=True))
