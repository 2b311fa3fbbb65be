"""Progress of long commands."""

from __future__ import annotations

import io

from neutrino.cli.takeover.progress import EVERY, bar, lines, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_the_step_that_runs() -> None:
    stream = Terminal()
    show = progress(stream)
    show("check: ports", 500, 1000)
    show("recount quotas", 0, 1)
    show("", 0, 0)
    first, second, end = stream.getvalue().removeprefix("\r").split("\r")
    assert "[###############               ] check: ports 500/1000" in first
    assert "recount quotas 0/1" in second
    assert end == "\x1b[K"  # nothing is left of it


def test_lines_are_of_steps_that_are_complete() -> None:
    stream = io.StringIO()
    show = progress(stream)
    show("check: trunks", 0, 0)
    show("check: ports", 500, 1000)
    show("check: ports", 1000, 1000)
    show("", 0, 0)
    assert stream.getvalue() == "check: ports: 1000\n"


def test_lines_show_that_a_long_step_goes_on() -> None:
    stream, now = io.StringIO(), [0.0]
    show = lines(stream, lambda: now[0])
    for done in range(100, 1000, 100):
        now[0] += EVERY / 4
        show("write: ports", done, 1000)
    assert stream.getvalue() == "write: ports: 400 of 1000\nwrite: ports: 800 of 1000\n"


def test_more_than_expected_fits_the_bar() -> None:
    stream = Terminal()
    bar(stream)("check: ports", 1001, 1000)
    assert f"[{'#' * 30}]" in stream.getvalue()
