"""Subnet pools and address scopes."""

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Action, Attribute, Resource, writable
from neutrino.server.api.resources.common import (
    ID,
    IP_VERSION,
    NAME_ATTRIBUTE,
    PROJECT,
    STANDARD,
    TAG_FILTERS,
    UUID_OR_NONE,
    shared,
)
from neutrino.server.api.types import Bool, Cidr, Integer, ListOf, Text

MAX_PREFIXES = 1000


def _prefixlen(name: str) -> Attribute:
    return writable(name, Integer(min=0, max=2**31 - 1, as_text=True), searchable=True)


SUBNETPOOL = Resource(
    name="subnetpool",
    collection="subnetpools",
    quota=True,
    tagged=True,
    not_found=errors.SubnetPoolNotFound,
    extra_filters=TAG_FILTERS,
    actions=(Action("add_prefixes"), Action("remove_prefixes")),
    attributes=(
        ID,
        writable("name", Text(255, min=1, blank=False), default=REQUIRED, searchable=True),
        PROJECT,
        writable("prefixes", ListOf(Cidr(), max_items=MAX_PREFIXES), default=REQUIRED),
        writable("default_quota", Integer(min=0), searchable=True, shown_null=True),
        Attribute("ip_version", Integer(), filter=True, sort=True),
        _prefixlen("default_prefixlen"),
        _prefixlen("min_prefixlen"),
        _prefixlen("max_prefixlen"),
        writable("is_default", Bool(), default=False, searchable=True, guarded=True),
        shared(put=False),
        writable("address_scope_id", UUID_OR_NONE, searchable=True),
        *STANDARD,
    ),
)

ADDRESS_SCOPE = Resource(
    name="address_scope",
    collection="address_scopes",
    not_found=errors.AddressScopeNotFound,
    attributes=(ID, NAME_ATTRIBUTE, PROJECT, shared(put=True), IP_VERSION),
)
