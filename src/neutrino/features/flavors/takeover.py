"""Flavors and service profiles in Neutron's database."""

from neutrino.features.flavors.tables import flavor_service_profiles, flavors, service_profiles
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs


def _profiles(chunk: Chunk) -> None:
    for row in chunk.rows:
        values = paired(row, (*pairs("id", "description"), *pairs("driver", "metainfo", default="")))
        chunk.add(service_profiles, {**values, "enabled": bool(row["enabled"])})


def _flavors(chunk: Chunk) -> None:
    bound = chunk.children("flavorserviceprofilebindings", "flavor_id")
    for row in chunk.rows:
        own = sorted(one["service_profile_id"] for one in bound.get(row["id"], ()))
        values = paired(row, (*pairs("id", "description", "service_type"), *pairs("name", default="")))
        chunk.add(flavors, {**values, "enabled": bool(row["enabled"]), "service_profiles": own})
        for profile in own:
            chunk.add(flavor_service_profiles, {"flavor_id": row["id"], "service_profile_id": profile})


FAMILIES = (
    Family(
        name="service profiles",
        source="serviceprofiles",
        tables=(Owned(service_profiles),),
        shown=(Shown("service_profiles"),),
        compose=_profiles,
    ),
    Family(
        name="flavors",
        source="flavors",
        tables=(Owned(flavors), Owned(flavor_service_profiles, "flavor_id")),
        shown=(Shown("flavors"),),
        compose=_flavors,
        reads=("flavorserviceprofilebindings",),
        after=("service profiles",),
    ),
)
