"""The feed's pace: at once when little happens, a share of the time when much does."""

from __future__ import annotations

import pytest

from neutrino.server.feed.change_log import Pace


def spend(pace: Pace, steps: int, cost: float, gap: float = 0.0) -> tuple[list[float], float]:
    """The rests after so many steps, each at once after the last one's rest and a gap; and the time that all took."""
    now, rests = 100.0, []
    for _ in range(steps):
        rests.append(pace.pause(now, now + cost))
        now += cost + rests[-1] + gap
    return rests, now - 100.0


def test_a_few_changes_are_read_at_once() -> None:
    rests, _ = spend(Pace(share=0.2, burst=0.06), 10, 0.005)
    assert rests == [0.0] * 10


def test_under_load_reading_takes_its_share_and_no_more() -> None:
    rests, took = spend(Pace(share=0.2, burst=0.06), 1000, 0.005)
    assert 1000 * 0.005 / took == pytest.approx(0.2, abs=0.01)
    assert max(rests) == pytest.approx(0.02)


def test_single_changes_are_read_without_a_pause() -> None:
    rests, _ = spend(Pace(share=0.2, burst=0.06), 1000, 0.005, gap=0.03)
    assert set(rests) == {0.0}


def test_a_long_reading_delays_the_next_once() -> None:
    pace = Pace(share=0.2, burst=0.06, longest=0.1)
    assert pace.pause(10.0, 15.0) == pytest.approx(0.1)
    assert pace.pause(15.1, 15.105) == pytest.approx(0.02)
    assert pace.pause(16.0, 16.005) == 0.0
