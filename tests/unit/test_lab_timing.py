from __future__ import annotations

import time

import pytest

from neutrino.lab import timing
from neutrino.lab.timing import LONGEST_PAUSE, CpuTime, Deadline, pause_after, share_of_time


@pytest.mark.parametrize(
    ("total", "stolen", "share"),
    [
        (1000, 0, 1.0),
        (1000, 400, 0.6),
        (1000, 990, timing.LEAST_SHARE),  # so a time-out does end
        (0, 0, 1.0),  # no tick has passed
    ],
)
def test_share_of_time(total: int, stolen: int, share: float) -> None:
    before = CpuTime(5000, 70)
    assert share_of_time(before, CpuTime(5000 + total, 70 + stolen)) == pytest.approx(share)


def test_stolen_time_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the time is stolen: ten seconds end after twenty."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(CpuTime, "read", lambda: CpuTime(int(now[0] * 100), int(now[0] * 50)))
    deadline = Deadline(10, time.monotonic(), CpuTime.read())
    for seconds, passed in ((5, False), (11, False), (19, False), (21, True)):
        now[0] = 100.0 + seconds
        assert deadline.has_passed() == passed


def test_this_machine_has_a_clock() -> None:
    first = CpuTime.read()
    assert first.total > first.stolen >= 0


def test_a_poll_that_takes_long_pauses_longer() -> None:
    assert pause_after(0.001, least=0.03) == 0.03
    assert pause_after(0.05, least=0.03) == 0.2
    assert pause_after(10.0, least=0.03) == LONGEST_PAUSE
