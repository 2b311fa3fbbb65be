"""How often to read the change log: single changes at once, and under load several together. Pure.

Reading one change costs nearly what reading twenty does, and takes the processor from those who make them.
"""

from __future__ import annotations

SHARE = 0.2  # of the time: no more than this is spent on reading, for long
BURST = 0.06  # seconds of reading that may be had in advance, some ten changes one after the other


class Pace:
    def __init__(self, share: float = SHARE, burst: float = BURST) -> None:
        self._share = share
        self._burst = burst
        self._left = burst
        self._until = 0.0

    def rest(self, began: float, ended: float) -> float:
        """How many seconds to wait after work that took so long."""
        regained = (ended - self._until) * self._share
        self._left = min(self._burst, self._left + regained) - (ended - began)
        self._until = ended
        return max(0.0, -self._left / self._share)
