"""Positions of the change log as members see them. Pure.

A position counts the changes of all projects: by two of its own rows a member would learn how many changes others made in
between. Members get a cursor instead, a permutation of the positions that is keyed by database and project. It can be
given back as `after`; its size and the difference of two cursors mean nothing.
"""

import hashlib
from typing import Final

HALF: Final = 26  # bits
MASK: Final = (1 << HALF) - 1
FIRST: Final = 1 << 2 * HALF  # cursors are above all positions, and below 2**53: exact in JavaScript
ROUNDS: Final = 6


class Cursors:
    """`identity`: of the database; hosts know it, and members do not."""

    def __init__(self, identity: str, project_id: str) -> None:
        self._key = hashlib.sha256(f"{identity}/{project_id}".encode()).digest()

    def cursor(self, position: int) -> int:
        left, right = position >> HALF & MASK, position & MASK
        for number in range(ROUNDS):
            left, right = right, left ^ self._mix(number, right)
        return FIRST | left << HALF | right

    def position(self, cursor: int) -> int | None:
        """None for a number that is no cursor. One of another database or project leads to any position."""
        if not FIRST <= cursor < 2 * FIRST:
            return None
        left, right = cursor >> HALF & MASK, cursor & MASK
        for number in reversed(range(ROUNDS)):
            left, right = right ^ self._mix(number, left), left
        return left << HALF | right

    def _mix(self, number: int, half: int) -> int:
        data = half.to_bytes(4, "big") + bytes([number])
        return int.from_bytes(hashlib.blake2b(data, digest_size=4, key=self._key).digest(), "big") & MASK


def resting(position: int, removed: int, head: int) -> int:
    """Where a project without newer changes continues: at its own position, while that is in the newer half of the log.

    Without any move it would miss the rows that are removed. A move shows members that the log has changed, so it goes from
    one multiple of a large number to the next: two to four times in the time that rows are kept, whatever their number.
    """
    step = 1 << max(0, ((head - removed) // 2).bit_length() - 1)
    return max(position, head // step * step)
