"""The tables of the benchmark with a large security group."""

from __future__ import annotations

from typing import Any

from qa.bench.groups_report import markdown, missed


def _raw(slowest: float) -> dict[str, Any]:
    def found(p95: float) -> dict[str, Any]:
        times = {"p50_ms": 90.0, "p95_ms": p95, "max_ms": 400.0}
        each = {"messages": 199.0, "bytes": 40_000.0, "flows": 5.0, "feed_s": 0.01, "agent_s": 0.2, "switch_s": 0.02}
        return {"known": times, "applied": times, "everywhere": times, "each": each}

    results = {"fill_s": 60.0, "flows": 12_345, "added": found(150.0), "removed": found(slowest)}
    return {"members": 10_000, "hosts": 200, "of_host": 50, "rules": 5, "results": results}


def test_both_changes_have_a_target() -> None:
    assert missed(_raw(300.0)) == []
    assert missed(_raw(301.0)) == ["one member removed: 301 ms, wanted 300 ms"]


def test_the_tables_have_times_messages_and_flows() -> None:
    text = markdown(_raw(301.0))
    assert "| one member added: known and applied everywhere | 90 ms | 150 ms | 400 ms | 300 ms | 2.0 × | yes |" in text
    assert "| 301 ms | 400 ms | 300 ms | 1.0 × | **no** |" in text
    assert "| one member removed | 199.0 | 40,000 | 5.0 | 10.0 ms | 200.0 ms | 20.0 ms |" in text
    assert "12,345 flows" in text
