"""Address groups in Neutron's database."""

from neutrino.features.address_group.tables import address_groups
from neutrino.takeover.family import TAGS, Chunk, Family, Owned, Shown, standard
from neutrino.takeover.inverse import Parts, Theirs, standard_columns


def _compose(chunk: Chunk) -> None:
    addresses = chunk.children("address_associations", "address_group_id")
    for row in chunk.rows:
        values = {
            **standard(row, chunk.deviations, chunk.kind),
            "addresses": sorted(one["address"] for one in addresses.get(row["id"], ())),
            "tags": [],
        }
        chunk.add(address_groups, values)


def _decompose(parts: Parts) -> None:
    for row in parts.rows[address_groups]:
        parts.add("address_groups", standard_columns(row))
        for address in row["addresses"]:
            parts.add("address_associations", {"address_group_id": row["id"], "address": address})


FAMILIES = (
    Family(
        name="address groups",
        source="address_groups",
        tables=(Owned(address_groups), TAGS),
        shown=(Shown("address-groups", "address_groups"),),
        compose=_compose,
        theirs=(Theirs("address_groups"), Theirs("address_associations", "address_group_id")),
        decompose=_decompose,
        reads=("address_associations",),
    ),
)
