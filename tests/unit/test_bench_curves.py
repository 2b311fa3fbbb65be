"""Growth curves: the feed's cost does not depend on hosts out of scope, and the tables."""

from __future__ import annotations

from pathlib import Path

from qa.bench import curves, curves_feed


def test_the_fan_out_is_measured() -> None:
    found = curves_feed.measure(10)
    assert len(found) == 5
    assert all(millis >= 0 for millis in found.values())


def test_tables_and_charts(tmp_path: Path) -> None:
    figures: curves.Curves = {"floating IPs": {"create": [(10, 2.0), (100, 2.5)], "show": [(10, 0.5), (100, 0.5)]}}
    assert "| floating IPs | 10 | 100 |" in curves.markdown(figures)
    assert "| create | 2.00 ms | 2.50 ms |" in curves.markdown(figures)
    curves.write_images(figures, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["growth-floating-ips.svg"]
