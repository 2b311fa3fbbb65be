"""Flavors and service profiles."""

from neutrino.server.db.columns import flags, json, owner, primary_id, reference, table, text

flavors = table(
    "flavors",
    primary_id(),
    text(255, "name", default=""),
    text(1024, "description", nullable=True),
    text(36, "service_type"),
    flags("enabled", default=True),
    json("service_profiles"),
)

service_profiles = table(
    "service_profiles",
    primary_id(),
    text(1024, "description", nullable=True),
    text(1024, "driver", default=""),
    text(4096, "metainfo", default=""),
    flags("enabled", default=True),
)

flavor_service_profiles = table(
    "flavor_service_profiles",
    owner("flavor_id", "flavors"),
    reference("service_profile_id", "service_profiles", primary_key=True),
)
