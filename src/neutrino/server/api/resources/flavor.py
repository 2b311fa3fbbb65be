"""Flavors, the service profiles behind them, and the providers of services."""

from __future__ import annotations

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Parent, Resource
from neutrino.server.api.resources.common import ID, NAME_ATTRIBUTE
from neutrino.server.api.types import Bool, ListOf, Nullable, OneOf, Text, Uuid

L3_ROUTER_NAT = "L3_ROUTER_NAT"
SERVICE_TYPES = (L3_ROUTER_NAT, "FLAVORS")  # what serves here, as Neutron names it
_DESCRIPTION = Attribute("description", Nullable(Text(1024)), post=True, put=True, default="", filter=True, sort=True)
_ENABLED = Attribute("enabled", Bool(), post=True, put=True, default=True, filter=True, sort=True)

FLAVOR = Resource(
    name="flavor",
    collection="flavors",
    owned=False,
    bulk=False,
    not_found=errors.FlavorNotFound,
    extension="flavors",
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        _DESCRIPTION,
        Attribute("service_type", OneOf(SERVICE_TYPES), post=True, default=REQUIRED, filter=True, sort=True),
        Attribute("service_profiles", ListOf(Uuid(), most=100), post=True, put=True, default=[]),
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
    extension="flavors",
    attributes=(
        ID,
        _DESCRIPTION,
        Attribute("driver", Text(1024), post=True, put=True, default="", filter=True, sort=True),
        Attribute("metainfo", Text(4096), post=True, put=True, default="", sort=True),
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
    extension="flavors",
    attributes=(Attribute("id", Uuid(), post=True, default=REQUIRED),),
)

SERVICE_PROVIDER = Resource(
    name="service_provider",
    collection="service_providers",
    key="name",
    owned=False,
    bulk=False,
    verbs=frozenset({"index"}),
    extension="service-type",
    attributes=(Attribute("service_type", Text(36)), Attribute("name", Text(255)), Attribute("default", Bool())),
)
