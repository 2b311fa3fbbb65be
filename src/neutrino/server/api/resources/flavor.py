"""Flavors, their service profiles, and service providers."""

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Parent, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, NAME_ATTRIBUTE
from neutrino.server.api.types import Bool, ListOf, Nullable, OneOf, Text, Uuid

L3_ROUTER_NAT = "L3_ROUTER_NAT"
SERVICE_TYPES = (L3_ROUTER_NAT, "FLAVORS")  # Neutron's names
_DESCRIPTION = writable("description", Nullable(Text(1024)), default="", searchable=True)
_ENABLED = writable("enabled", Bool(), default=True, searchable=True)

FLAVOR = Resource(
    name="flavor",
    collection="flavors",
    owned=False,
    bulk=False,
    not_found=errors.FlavorNotFound,
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        _DESCRIPTION,
        creatable("service_type", OneOf(SERVICE_TYPES), default=REQUIRED, searchable=True),
        writable("service_profiles", ListOf(Uuid(), max_items=100), default=[]),
        _ENABLED,
    ),
)

SERVICE_PROFILE = Resource(
    name="service_profile",
    collection="service_profiles",
    path="service_profiles",
    owned=False,
    bulk=False,
    not_found=errors.ServiceProfileNotFound,
    attributes=(
        ID,
        _DESCRIPTION,
        writable("driver", Text(1024), default="", searchable=True),
        writable("metainfo", Text(4096), default="", sort=True),
        _ENABLED,
    ),
)

FLAVOR_SERVICE_PROFILE = Resource(
    name="service_profile",
    collection="service_profiles",
    path="service_profiles",
    parent=Parent("flavor", "flavors"),
    owned=False,
    bulk=False,
    verbs=frozenset({"create", "delete"}),
    not_found=errors.ServiceProfileNotFound,
    attributes=(creatable("id", Uuid(), default=REQUIRED),),
)

SERVICE_PROVIDER = Resource(
    name="service_provider",
    collection="service_providers",
    key="name",
    owned=False,
    bulk=False,
    verbs=frozenset({"index"}),
    attributes=(Attribute("service_type", Text(36)), Attribute("name", Text(255)), Attribute("default", Bool())),
)
