"""One look of the shadow mode, in a process of its own: what a conversion would change, and which packets it would treat
otherwise than Neutron's flows do.

The process has the lowest priority and a limited time. Open vSwitch answers traces in its main thread, so the process waits
four times as long as a trace took before it asks for the next one.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from neutrino.agent.runtime.role import Drift
from neutrino.agent.takeover.verdicts import Comparison
from neutrino.model.takeover import Line, line

SHARE: Final = 0.2  # of the time of the switch's main thread
MAX_DIFFERENCES: Final = 2000  # that are kept


class Look(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    ports: int = 0
    of_ports: int = 0
    packets: int = 0
    differences: tuple[Line, ...] = ()  # the first ones
    differing: int = 0
    changes: int = 0
    problems: int = 0

    def text(self) -> str:
        some = f" of {self.of_ports}" if self.ports < self.of_ports else ""
        return (
            f"{self.packets} packets of {self.ports}{some} ports compared, {self.differing} differ; "
            f"a conversion would make {self.changes} changes"
        )


class Pace:
    """Leaves the switch most of its time, and ends after some seconds."""

    def __init__(
        self, seconds: float, timer: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._timer, self._sleep = timer, sleep
        self._ends = timer() + seconds
        self._last: float | None = None

    def __call__(self) -> bool:
        """Wait before the next packet; False: the time is over."""
        now = self._timer()
        if self._last is not None:
            self._sleep(min((now - self._last) * (1 / SHARE - 1), max(self._ends - now, 0.0)))
        self._last = self._timer()
        return self._last < self._ends


def look_of(comparison: Comparison, drifts: Sequence[Drift]) -> Look:
    texts = (difference.text() for difference in comparison.differences[:MAX_DIFFERENCES])
    return Look(
        ports=comparison.ports,
        of_ports=comparison.of_ports,
        packets=comparison.packets,
        differences=tuple(map(line, texts)),
        differing=len(comparison.differences),
        changes=sum(len(drift.plan.splitlines()) for drift in drifts),
        problems=sum(len(drift.problems) for drift in drifts),
    )
