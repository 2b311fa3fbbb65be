"""Ranges of segmentation ids in Neutron's database."""

from neutrino.server.db.tables import network_segment_ranges
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Shown, paired, pairs, standard, unpaired
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_RANGE = pairs("project_id", "default", "shared", "network_type", "minimum", "maximum")


def _compose(chunk: Chunk) -> None:
    tags = chunk.tags()
    for row in chunk.rows:
        if row["default"]:
            continue  # of the configuration, as ours are
        labels = tags.get(row.get("standard_attr_id"), [])
        values = standard(row, chunk.deviations, chunk.kind) | paired(row, _RANGE)
        chunk.add(
            network_segment_ranges, {**values, "physical_network": row["physical_network"] or None, "tags": labels}
        )
        chunk.add_tags(row["id"], labels)


def _decompose(parts: Parts) -> None:
    for row in parts.rows[network_segment_ranges]:
        physical = {"physical_network": row["physical_network"] or ""}
        parts.add("network_segment_ranges", {**standard_columns(row), **unpaired(row, _RANGE), **physical})


FAMILIES = (
    Family(
        name="segment ranges",
        source="network_segment_ranges",
        tables=(Owned(network_segment_ranges), TAGS),
        ours=network_segment_ranges.c.default,
        shown=(Shown("network_segment_ranges"),),
        compose=_compose,
        theirs=(Theirs("network_segment_ranges"),),
        decompose=_decompose,
    ),
)
