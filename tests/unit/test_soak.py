"""The judgement of the soak test: what counts as growth."""

from __future__ import annotations

from qa.faults.soak import Sample, grown, percentiles, quarters


def samples(name: str, *values: float) -> list[Sample]:
    return [{name: value} for value in values]


def test_the_warm_up_does_not_count() -> None:
    assert quarters([1, 1, 5, 5, 5, 5, 6, 6]) == (5, 6)
    assert grown(samples("memory feed (MB)", 10, 20, 50, 50, 50, 51, 52, 50)) == []


def test_growth_is_found() -> None:
    (text,) = grown(samples("memory feed (MB)", 50, 50, 50, 50, 55, 60, 65, 70))
    assert text.startswith("memory feed (MB): 50.0 in the second quarter")
    assert grown(samples("switch flows of h1", 100, 100, 100, 100, 100, 104, 104, 104)) == []
    assert grown(samples("switch flows of h1", 100, 100, 100, 100, 100, 120, 120, 120))
    assert grown(samples("threads feed", 8, 8, 8, 8, 9, 10, 11, 12))
    assert grown(samples("rows changes", 1, 10, 100, 1000)) == []


def test_one_outlier_is_not_growth() -> None:
    assert grown(samples("files server", *[30] * 10, 90, 30)) == []


def test_percentiles_over_time() -> None:
    found = percentiles([(minute / 10, float(minute % 10)) for minute in range(100)], 10)
    assert len(found["p50"]) == 30
    assert all(low <= high for (_, low), (_, high) in zip(found["p50"], found["p99"], strict=True))
