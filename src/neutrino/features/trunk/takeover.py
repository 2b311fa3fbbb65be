"""Trunks and their subports in Neutron's database."""

from neutrino.features.trunk.tables import trunk_subports, trunks
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Shown, paired, pairs, tagged


def _compose(chunk: Chunk) -> None:
    tagged(chunk, trunks, (*pairs("port_id"), *pairs("admin_state_up", default=True)))
    for rows in chunk.children("subports", "trunk_id").values():
        for row in rows:
            chunk.add(trunk_subports, paired(row, pairs("port_id", "trunk_id", "segmentation_type", "segmentation_id")))


FAMILIES = (
    Family(
        name="trunks",
        source="trunks",
        tables=(Owned(trunks), Owned(trunk_subports, "trunk_id"), TAGS),
        shown=(Shown("trunks"),),
        compose=_compose,
        reads=("subports",),
        after=("ports",),
    ),
)
