"""The tables of the dataplane's benchmark, and how it reads the switch's counters."""

from __future__ import annotations

from typing import Any

import pytest

from qa.bench.dataplane.report import markdown, missed, rows
from qa.bench.dataplane.switch import parse
from qa.bench.dataplane.traffic import METRICS

SHOWN = """main thread:
  packets received: 1000
  packet recirculations: 1500
  avg. datapath passes per packet: 2.50
  phwol hits: 0
  emc hits: 900
  smc hits: 0
  megaflow hits: 1590
  avg. subtable lookups per megaflow hit: 2.10
  miss with success upcall: 10
  miss with failed upcall: 0
  avg. packets per output batch: 1.02
pmd thread numa_id 0 core_id 1:
  packets received: 5
  packet recirculations: 0
  megaflow hits: 10
  avg. subtable lookups per megaflow hit: 1.00
"""


def test_counters_of_all_threads_are_added() -> None:
    found = parse(SHOWN)
    assert found == {
        "packets": 1005,
        "recirculations": 1500,
        "emc": 900,
        "megaflow": 1600,
        "upcalls": 10,
        "lookups": 3349,
    }


def _measured(value: float, switch_s: float = 1.0) -> dict[str, float]:
    return {"value": value, "units": 1000.0, "switch_s": switch_s, "packets": 7000, "megaflows": 12}


def _raw(theirs: dict[str, list[float]], ours: dict[str, list[float]]) -> dict[str, Any]:
    metrics = {
        metric.name: {
            "neutron": [_measured(value, 2.0) for value in theirs.get(metric.name, [100.0, 100.0])],
            "ours": [_measured(value) for value in ours.get(metric.name, [150.0, 150.0])],
        }
        for metric in METRICS
    }
    return {"figures": {"same host": metrics}}


LATENCY = "round trip, 99th percentile"


def test_ratios_say_how_much_better_ours_is() -> None:
    raw = _raw({LATENCY: [90.0, 110.0]}, {LATENCY: [50.0, 50.0], "packets": [90.0, 120.0, 130.0]})
    found = {row.metric.name: row for row in rows(raw)}
    assert found[LATENCY].ratio == pytest.approx(2.0)
    assert (found[LATENCY].least, found[LATENCY].most) == pytest.approx((1.8, 2.2))
    assert found["packets"].ratio == pytest.approx(1.2)
    assert (found["packets"].least, found["packets"].most) == pytest.approx((0.9, 1.3))
    assert found["packets"].processor == pytest.approx(2.0)
    assert missed(raw) == []
    assert "**no**" not in markdown(raw)


def test_what_is_behind_is_missed() -> None:
    raw = _raw({}, {"new connections": [110.0], LATENCY: [111.0], "throughput": [99.0]})
    assert [line.partition(":")[0] for line in missed(raw)] == ["same host, new connections", f"same host, {LATENCY}"]
    assert markdown(raw).count("**no**") == 2


def test_the_work_of_one_connection_is_shown() -> None:
    assert "| same host | ours | 1000 µs | 7.0 | 0.0 | 0.0 | 0.0 | 12 |" in markdown(_raw({}, {}))
