"""Token buckets: limit how often something is done."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

MAX_SHARES: Final = 1000  # beyond that, those that are full are forgotten: they begin full


@dataclass
class Bucket:
    """`take` says whether it may be done once more now."""

    clock: Callable[[], float]
    rate: float  # a second
    burst: float  # at once
    _level: float = field(init=False)
    _at: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._level = self.burst

    def take(self) -> bool:
        self._fill()
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True

    def is_full(self) -> bool:
        self._fill()
        return self._level >= self.burst

    def _fill(self) -> None:
        now = self.clock()
        passed = now - self._at if self._at is not None else 0.0
        self._level, self._at = min(self.burst, self._level + passed * self.rate), now


@dataclass
class SharedBucket:
    """A bucket that several have in common, and a share of each besides, which the others cannot use up."""

    common: Bucket
    new_share: Callable[[], Bucket]
    _shares: dict[int, Bucket] = field(default_factory=dict, init=False)

    def take(self, key: int) -> bool:
        """`key`: whose share it is."""
        if key not in self._shares:
            if len(self._shares) >= MAX_SHARES:
                self._shares = {each: share for each, share in self._shares.items() if not share.is_full()}
            self._shares[key] = self.new_share()
        return self._shares[key].take() or self.common.take()
