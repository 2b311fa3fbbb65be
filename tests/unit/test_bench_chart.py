"""SVG charts: valid XML, ticks, and the places of points."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from qa.bench.chart import HEIGHT, WIDTH, Axis, chart

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("log", [False, True])
def test_a_chart_is_valid_and_its_points_are_inside(log: bool) -> None:
    series = {"create <port>": [(1000.0, 2.0), (10_000.0, 2.2), (100_000.0, 3.1)], "show": [(1000.0, 0.0)], "none": []}
    root = ElementTree.fromstring(chart("a & b", "ports", "ms", series, log_x=log, log_y=log))
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == 4
    assert all(0 <= float(each.get("cx", "")) <= WIDTH and 0 <= float(each.get("cy", "")) <= HEIGHT for each in circles)
    assert "create <port>" in [each.text for each in root.iter(f"{SVG}text")]


def test_ticks_are_round_and_cover_the_values() -> None:
    assert Axis.of([0, 7.3], is_log=False).ticks() == [0, 2, 4, 6, 8]
    assert Axis.of([1000, 90_000], is_log=True).ticks()[0] == 1000
    assert Axis.of([1000, 90_000], is_log=True).ticks()[-1] == 100_000
    assert Axis.of([], is_log=False).ticks()[-1] >= 1
