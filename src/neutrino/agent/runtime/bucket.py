"""A token bucket: limits how often something is done."""

from collections.abc import Callable
from dataclasses import dataclass, field


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
        now = self.clock()
        passed = now - self._at if self._at is not None else 0.0
        self._level, self._at = min(self.burst, self._level + passed * self.rate), now
        if self._level < 1.0:
            return False
        self._level -= 1.0
        return True
