"""CPU time, for tests of what work costs: on a busy machine it is the same, and the time on the clock is not."""

from __future__ import annotations

import resource


def cpu_seconds() -> float:
    """Of this process and of the child processes that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)
