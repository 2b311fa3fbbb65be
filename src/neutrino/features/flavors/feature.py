"""Flavors of routers and VPN services, their service profiles, and the list of service providers."""

from neutrino.features.flavors import collection, resources, takeover
from neutrino.server import features
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature
from neutrino.server.policy.rules import ADMIN, ADMIN_OR_READER, crud
from neutrino.server.services import ResourcePlugin, Services


def build(services: Services) -> ResourcePlugin:
    db = services.db
    used_by = [use.column for feature in features.installed() for use in feature.flavors]
    offered = [use for feature in features.enabled(services.conf) for use in feature.flavors]
    return ResourcePlugin(
        collections=(
            (resources.FLAVOR, collection.Flavors(db, used_by)),
            (resources.SERVICE_PROFILE, collection.ServiceProfiles(db, collection.PROFILES)),
            (resources.FLAVOR_SERVICE_PROFILE, collection.FlavorServiceProfiles(db)),
            (resources.SERVICE_PROVIDER, collection.ServiceProviders(offered)),
        ),
    )


FEATURES = (
    Feature(
        name="flavors",
        neutron_plugin="neutron.services.flavors.flavors_plugin.FlavorsPlugin",
        always=True,
        extensions=(
            Extension("flavors", "Neutron Service Flavors", "Flavors of services, and the profiles behind them."),
            Extension("service-type", "Neutron Service Type Management", "The providers of services."),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            **crud("flavor", ADMIN, "role:reader"),
            **crud("service_profile", ADMIN, ADMIN),
            "create_flavor_service_profile": ADMIN,
            "get_flavor_service_profile": ADMIN_OR_READER,
            "delete_flavor_service_profile": ADMIN,
            "get_service_provider": "role:reader",
        },
        deprecated_policy={"rule:regular_user": "get_flavor get_flavor_service_profile get_service_provider"},
    ),
)
