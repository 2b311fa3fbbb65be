"""Ranges of segmentation ids that operators add at run time, and what they make of the configured ones.

    a project's own ranges                                         tried first
    shared ranges and the configured ones, without what belongs
    to other projects                                              tried next

Without added ranges of a type its networks get ids of the configuration, as they do without the plugin.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from neutrino.server.db import tables as t
from neutrino.server.db.reads import Lookup
from neutrino.server.ipam.ranges import Range

Ranges = Mapping[str | None, Sequence[Range]]  # by physical network; None: of tunnels


@dataclass(frozen=True, slots=True)
class AddedRange:
    network_type: str
    physical_network: str | None
    first: int
    last: int
    project_id: str | None = None  # None: shared


ADDED = Lookup(
    sa.select(
        t.network_segment_ranges.c.network_type,
        t.network_segment_ranges.c.physical_network,
        t.network_segment_ranges.c.minimum,
        t.network_segment_ranges.c.maximum,
        t.network_segment_ranges.c.project_id,
    ).where(sa.not_(t.network_segment_ranges.c.default)),
    lambda rows: [AddedRange(*row) for row in rows],
)


def known(configured: Ranges, added: Sequence[AddedRange], network_type: str) -> Ranges:
    """All ranges of a type, of whichever project: administrators may ask for any segment on their physical networks."""
    return _merged(configured, [one for one in added if one.network_type == network_type])


def in_order(
    configured: Ranges, added: Sequence[AddedRange], network_type: str, project_id: str | None
) -> Iterator[Ranges]:
    """The ranges from which a network of the project gets its segment; the next ones are for when all ids are used."""
    of_type = [one for one in added if one.network_type == network_type]
    own = [one for one in of_type if project_id and one.project_id == project_id]
    if own:
        yield _merged({}, own)
    shared = _merged(configured, [one for one in of_type if one.project_id is None])
    others = _merged({}, [one for one in of_type if one.project_id is not None and one.project_id != project_id])
    yield {name: without(ranges, others.get(name, ())) for name, ranges in shared.items()}


def _merged(configured: Ranges, added: Sequence[AddedRange]) -> dict[str | None, tuple[Range, ...]]:
    """Disjoint ranges by physical network: an id that is in two of them must not be twice as likely."""
    out: dict[str | None, list[Range]] = {name: list(ranges) for name, ranges in configured.items()}
    for one in added:
        out.setdefault(one.physical_network, []).append((one.first, one.last))
    return {name: _disjoint(ranges) for name, ranges in out.items()}


def _disjoint(ranges: Sequence[Range]) -> tuple[Range, ...]:
    out: list[Range] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = out[-1][0], max(out[-1][1], last)
        else:
            out.append((first, last))
    return tuple(out)


def without(ranges: Sequence[Range], excluded: Sequence[Range]) -> tuple[Range, ...]:
    """The numbers of the ranges that are in none of the excluded ones."""
    left = list(ranges)
    for low, high in excluded:
        cut = [((first, min(last, low - 1)), (max(first, high + 1), last)) for first, last in left]
        left = [(first, last) for pair in cut for first, last in pair if first <= last]
    return tuple(left)
