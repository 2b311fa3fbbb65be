"""Ranges of segmentation ids from the configuration, and a free id of them without a table of free ids."""

import random
from collections.abc import Callable, Iterable, Sequence

Range = tuple[int, int]
GUESSES = 16


def parse_ranges(texts: Iterable[str], lowest: int, highest: int, option: str) -> tuple[Range, ...]:
    """`1:1000` as (1, 1000); an invalid range is an error that names the option."""
    ranges = []
    for text in texts:
        low, _, high = text.partition(":")
        try:
            pair = int(low), int(high)
        except ValueError:
            raise ValueError(f"{option}: {text!r} is not a range such as 1:1000") from None
        if not lowest <= pair[0] <= pair[1] <= highest:
            raise ValueError(f"{option}: {text!r} is not a range within {lowest}:{highest}")
        ranges.append(pair)
    return tuple(ranges)


def size(ranges: Sequence[Range]) -> int:
    return sum(high - low + 1 for low, high in ranges)


def nth(ranges: Sequence[Range], n: int) -> int:
    for low, high in ranges:
        if n <= high - low:
            return low + n
        n -= high - low + 1
    raise IndexError(n)


def pick_free(
    ranges: Sequence[Range], taken_among: Callable[[Sequence[int]], set[int]], taken: Callable[[], set[int]]
) -> int | None:
    """A free id: one of a few random guesses; only if all of them are taken, all used ids are read."""
    total = size(ranges)
    if not total:
        return None
    guesses = list(dict.fromkeys(nth(ranges, random.randrange(total)) for _ in range(GUESSES)))
    used = taken_among(guesses)
    for guess in guesses:
        if guess not in used:
            return guess
    all_used = taken()
    free = [i for low, high in ranges for i in range(low, high + 1) if i not in all_used]
    return random.choice(free) if free else None
