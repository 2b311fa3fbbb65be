"""The processor time of processes and their descendants, as accounted by the kernel."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.support import memory

_TICKS = os.sysconf("SC_CLK_TCK")
_QUIET_SECONDS = 0.1  # of processor time within an interval
_INTERVAL = 1.0


def seconds(roots: Iterable[int]) -> float:
    """User and system time of the processes that run now, since each started."""
    return sum(of_process(pid)[0] for root in roots for pid in memory.tree(root))


def settle(roots: list[int], at_most: float) -> None:
    """Wait until these processes do next to nothing: workers still start when the first one responds."""
    give_up = time.monotonic() + at_most
    quiet, before = 0, seconds(roots)
    while quiet < 2 and time.monotonic() < give_up:
        time.sleep(_INTERVAL)
        now = seconds(roots)
        quiet = quiet + 1 if now - before <= _QUIET_SECONDS else 0
        before = now


def prefer(pids: Iterable[int], priority: int = -15) -> None:
    """Let processes run before those of others: on a busy machine, a latency would be that of the scheduler."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), priority)


def of_process(pid: int) -> tuple[float, float]:
    """Seconds of a process itself, and of those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0, 0.0  # it ended meanwhile
    return (int(fields[11]) + int(fields[12])) / _TICKS, (int(fields[13]) + int(fields[14])) / _TICKS
