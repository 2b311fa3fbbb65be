"""A free number in ranges: addresses of allocation pools, VLAN ids, tunnel ids. There are no tables of free numbers.

A number is taken if its row exists, and the row's key makes it unique, so choosing one may be a guess. Two writers that
choose the same number collide on the key, and the loser chooses again (`Database.retrying`).
"""

import random
from collections.abc import Callable, Sequence
from itertools import islice

Range = tuple[int, int]  # the first and the last number
# Ranges of this size are seldom so full that a lookup pays: a blind guess saves a query of creating a port or network.
LARGE = 16_384
GUESSES = (4, 60)  # looked up with one query each: 4 suffice unless the ranges are nearly full
MAX_GAPS = 64  # writers that search nearly full ranges at the same time seldom choose the same of so many


def size(ranges: Sequence[Range]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def random_number(ranges: Sequence[Range]) -> int:
    n = random.randrange(size(ranges))
    for first, last in ranges:
        if n <= last - first:
            return first + n
        n -= last - first + 1
    raise AssertionError("n is less than the size of the ranges")


def pick_free(
    ranges: Sequence[Range], taken_among: Callable[[Sequence[int]], set[int]], all_taken: Callable[[], set[int]]
) -> int | None:
    """A free number: the first free one of a few random guesses; only if all are taken, all taken numbers are read."""
    if not size(ranges):
        return None
    for count in GUESSES:
        guesses = list(dict.fromkeys(random_number(ranges) for _ in range(count)))
        taken = taken_among(guesses)
        for guess in guesses:
            if guess not in taken:
                return guess
    taken = all_taken()
    # Not a set difference: an IPv6 pool has 2**64 addresses.
    gaps = (n for first, last in ranges for n in range(first, last + 1) if n not in taken)
    some = list(islice(gaps, MAX_GAPS))
    return random.choice(some) if some else None
