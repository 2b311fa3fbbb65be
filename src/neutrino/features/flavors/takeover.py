"""Flavors and service profiles in Neutron's database."""

from neutrino.features.flavors.tables import flavor_service_profiles, flavors, service_profiles
from neutrino.takeover.family import Chunk, Family, Owned, Shown, paired, pairs, unpaired, unpaired_rows
from neutrino.takeover.inverse import Parts, Theirs

_PROFILE = (*pairs("id", "description"), *pairs("driver", "metainfo", default=""))
_FLAVOR = (*pairs("id", "description", "service_type"), *pairs("name", default=""))


def _profiles(chunk: Chunk) -> None:
    for row in chunk.rows:
        values = paired(row, _PROFILE)
        chunk.add(service_profiles, {**values, "enabled": bool(row["enabled"])})


def _flavors(chunk: Chunk) -> None:
    bound = chunk.children("flavorserviceprofilebindings", "flavor_id")
    for row in chunk.rows:
        own = sorted(one["service_profile_id"] for one in bound.get(row["id"], ()))
        values = paired(row, _FLAVOR)
        chunk.add(flavors, {**values, "enabled": bool(row["enabled"]), "service_profiles": own})
        for profile in own:
            chunk.add(flavor_service_profiles, {"flavor_id": row["id"], "service_profile_id": profile})


def _their_profiles(parts: Parts) -> None:
    unpaired_rows(parts, service_profiles, "serviceprofiles", (*_PROFILE, *pairs("enabled")))


def _their_flavors(parts: Parts) -> None:
    for row in parts.rows[flavors]:
        parts.add("flavors", unpaired(row, (*_FLAVOR, *pairs("enabled"))))
    columns = pairs("flavor_id", "service_profile_id")
    unpaired_rows(parts, flavor_service_profiles, "flavorserviceprofilebindings", columns)


FAMILIES = (
    Family(
        name="service profiles",
        source="serviceprofiles",
        tables=(Owned(service_profiles),),
        shown=(Shown("service_profiles"),),
        compose=_profiles,
        theirs=(Theirs("serviceprofiles"),),
        decompose=_their_profiles,
    ),
    Family(
        name="flavors",
        source="flavors",
        tables=(Owned(flavors), Owned(flavor_service_profiles, "flavor_id")),
        shown=(Shown("flavors"),),
        compose=_flavors,
        theirs=(Theirs("flavors"), Theirs("flavorserviceprofilebindings", "flavor_id")),
        decompose=_their_flavors,
        reads=("flavorserviceprofilebindings",),
        after=("service profiles",),
    ),
)
