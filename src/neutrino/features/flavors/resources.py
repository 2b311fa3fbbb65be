"""Resources: flavors, their service profiles, and service providers."""

from neutrino.features.flavors import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, NAME

L3_ROUTER_NAT = "L3_ROUTER_NAT"
VPN = "VPN"
SERVICE_TYPES = (L3_ROUTER_NAT, "FLAVORS", VPN)  # Neutron's names
_DESCRIPTION = writable("description", t.Nullable(t.Text(1024)), default="", searchable=True)
_ENABLED = writable("enabled", t.Bool(), default=True, searchable=True)

FLAVOR = Resource(
    name="flavor",
    not_found=errors.FlavorNotFound,
    attributes=(
        ID,
        NAME,
        _DESCRIPTION,
        creatable("service_type", t.OneOf(SERVICE_TYPES), default=REQUIRED, searchable=True),
        writable("service_profiles", t.ListOf(t.Uuid(), max_items=100), default=[]),
        _ENABLED,
    ),
)

SERVICE_PROFILE = Resource(
    name="service_profile",
    path="service_profiles",
    not_found=errors.ServiceProfileNotFound,
    attributes=(
        ID,
        _DESCRIPTION,
        writable("driver", t.Text(1024), default="", searchable=True),
        writable("metainfo", t.Text(4096), default="", sort=True),
        _ENABLED,
    ),
)

FLAVOR_SERVICE_PROFILE = Resource(
    name="service_profile",
    path="service_profiles",
    parent=FLAVOR,
    verbs=frozenset({"create", "delete"}),
    not_found=errors.ServiceProfileNotFound,
    attributes=(creatable("id", t.Uuid(), default=REQUIRED),),
)

SERVICE_PROVIDER = Resource(
    name="service_provider",
    key="name",
    verbs=frozenset({"index"}),
    attributes=(Attribute("service_type", t.Text(36)), Attribute("name", t.Text()), Attribute("default", t.Bool())),
)
