"""The time-outs of a lab: longer by a factor in an emulated machine, and by the time that the hypervisor takes away."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

VARIABLE = "NEUTRINO_LAB_TIME_FACTOR"
FACTOR = float(os.environ.get(VARIABLE, "1"))
PAUSES_PER_POLL = 4  # a poll uses a fifth of a processor at most
LONGEST_PAUSE = 0.4
LEAST_SHARE = 0.2  # a time-out takes five times as long at most
_STATISTICS = Path("/proc/stat")
_STEAL = 7  # the field of its first line, after "cpu": user nice system idle iowait irq softirq steal


def scaled(seconds: float) -> float:
    return seconds * FACTOR


def pause_after(seconds: float, least: float) -> float:
    """The pause of a poll whose condition took so long to find out: it shall not keep the awaited process from its work."""
    return max(least, min(PAUSES_PER_POLL * seconds, LONGEST_PAUSE))


@dataclass(frozen=True)
class CpuTime:
    """Of all processors since the boot, in ticks. Stolen: they had work to do, and the hypervisor ran something else."""

    total: int
    stolen: int

    @classmethod
    def read(cls) -> "CpuTime":
        with _STATISTICS.open() as file:
            fields = [int(each) for each in file.readline().split()[1 : _STEAL + 2]]
        return cls(sum(fields), fields[_STEAL])


@dataclass(frozen=True)
class Deadline:
    """The end of a time-out. Stolen time does not count: the awaited process could not run in it."""

    seconds: float  # scaled already
    started: float = field(default_factory=time.monotonic)
    cpu: CpuTime = field(default_factory=CpuTime.read)

    def has_passed(self) -> bool:
        elapsed = time.monotonic() - self.started
        return elapsed > self.seconds and elapsed * share_of_time(self.cpu, CpuTime.read()) > self.seconds


def share_of_time(before: CpuTime, after: CpuTime) -> float:
    """The share of the time between both that this machine had."""
    total = after.total - before.total
    return max(LEAST_SHARE, 1 - (after.stolen - before.stolen) / total) if total > 0 else 1.0
