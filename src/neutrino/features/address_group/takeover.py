"""Address groups in Neutron's database."""

from neutrino.features.address_group.tables import address_groups
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Shown, standard


def _compose(chunk: Chunk) -> None:
    addresses = chunk.children("address_associations", "address_group_id")
    for row in chunk.rows:
        values = {
            **standard(row, chunk.deviations, chunk.kind),
            "addresses": sorted(one["address"] for one in addresses.get(row["id"], ())),
            "tags": [],
        }
        chunk.add(address_groups, values)


FAMILIES = (
    Family(
        name="address groups",
        source="address_groups",
        tables=(Owned(address_groups), TAGS),
        shown=(Shown("address-groups", "address_groups"),),
        compose=_compose,
        reads=("address_associations",),
    ),
)
