"""Positions of the change log as members see them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neutrino.server.change_cursors import FIRST, Cursors, resting

CURSORS = Cursors("d4f5", "red")


@given(st.integers(0, FIRST - 1))
def test_a_cursor_leads_to_its_position(position: int) -> None:
    cursor = CURSORS.cursor(position)
    assert FIRST <= cursor < 2**53
    assert CURSORS.position(cursor) == position


def test_cursors_of_neighbours_have_nothing_in_common() -> None:
    cursors = [CURSORS.cursor(position) for position in range(1000)]
    assert len(set(cursors)) == 1000
    rising = sum(one < other for one, other in pairwise(cursors))
    assert 400 < rising < 600
    assert min(abs(one - other) for one, other in pairwise(cursors)) > 2**30


def test_others_have_other_cursors() -> None:
    assert Cursors("d4f5", "green").cursor(1) != CURSORS.cursor(1) != Cursors("a1", "red").cursor(1)


def test_a_position_is_no_cursor() -> None:
    assert [CURSORS.position(number) for number in (0, 1, FIRST - 1, 2 * FIRST)] == [None] * 4


@pytest.mark.parametrize("kept", [10, 1000, 30_000])  # rows, in the time that they are kept
def test_a_project_without_changes_moves_seldom_and_does_not_fall_behind(kept: int) -> None:
    position, moves = 0, 0
    for head in range(1, 5 * kept):
        removed = max(0, head - kept)
        before, position = position, resting(position, removed, head)
        assert position == resting(0, removed, head)  # a new client gets no more information
        assert removed <= (removed + head) // 2 <= position <= head
        moves += head > kept and position != before
    assert moves <= 4 * 5
