"""A range of ports as values under masks, the fewest that cover it and nothing else."""

from __future__ import annotations

from functools import lru_cache

_BITS = 16


@lru_cache(maxsize=4096)
def cover(first: int, last: int) -> tuple[tuple[int, int], ...]:
    """The (value, mask) pairs of the blocks from `first` to `last`: each block as large as its start and the end allow."""
    blocks = []
    while first <= last:
        size = (first & -first) or 1 << _BITS
        while size > last - first + 1:
            size >>= 1
        blocks.append((first, (1 << _BITS) - size))
        first += size
    return tuple(blocks)
