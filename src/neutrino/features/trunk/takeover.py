"""Trunks and their subports in Neutron's database."""

from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.takeover.family import (
    TAGS,
    Chunk,
    Family,
    Owned,
    Shown,
    paired,
    pairs,
    tagged,
    unpaired,
    unpaired_rows,
)
from neutrino.takeover.inverse import Parts, Theirs, standard_columns

_TRUNK = (*pairs("port_id"), *pairs("admin_state_up", default=True))
_SUBPORT = pairs("port_id", "trunk_id", "segmentation_type", "segmentation_id")


def _compose(chunk: Chunk) -> None:
    tagged(chunk, trunks, _TRUNK)
    for rows in chunk.children("subports", "trunk_id").values():
        for row in rows:
            chunk.add(trunk_subports, paired(row, _SUBPORT))


def _decompose(parts: Parts) -> None:
    for row in parts.rows[trunks]:
        parts.add("trunks", {**standard_columns(row), **unpaired(row, _TRUNK), "status": "DOWN"})
    unpaired_rows(parts, trunk_subports, "subports", _SUBPORT)


FAMILIES = (
    Family(
        name="trunks",
        source="trunks",
        tables=(Owned(trunks), Owned(trunk_subports, "trunk_id"), TAGS),
        shown=(Shown("trunks"),),
        compose=_compose,
        # The status follows from the ports here, and from reports in Neutron.
        theirs=(Theirs("trunks", once=frozenset({"status"})), Theirs("subports", "trunk_id")),
        decompose=_decompose,
        reads=("subports",),
        after=("ports",),
    ),
)
