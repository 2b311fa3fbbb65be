"""Subnet pools."""

from __future__ import annotations

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Action, Attribute, Resource
from neutrino.server.api.resources.common import (
    ID,
    PROJECT,
    STANDARD,
    TAG_FILTERS,
    UUID_OR_NONE,
    shared,
)
from neutrino.server.api.types import Bool, Cidr, Integer, ListOf, Text

MOST_PREFIXES = 1000


def _prefixlen(name: str) -> Attribute:
    return Attribute(name, Integer(min=0, max=2**31 - 1, as_text=True), post=True, put=True, filter=True, sort=True)


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
        Attribute("name", Text(255, min=1, blank=False), post=True, put=True, default=REQUIRED, filter=True, sort=True),
        PROJECT,
        Attribute("prefixes", ListOf(Cidr(), most=MOST_PREFIXES), post=True, put=True, default=REQUIRED),
        Attribute("default_quota", Integer(min=0), post=True, put=True, filter=True, sort=True, shown_null=True),
        Attribute("ip_version", Integer(), filter=True, sort=True),
        _prefixlen("default_prefixlen"),
        _prefixlen("min_prefixlen"),
        _prefixlen("max_prefixlen"),
        Attribute("is_default", Bool(), post=True, put=True, default=False, filter=True, sort=True, guarded=True),
        shared(put=False),
        Attribute(
            "address_scope_id",
            UUID_OR_NONE,
            post=True,
            put=True,
            filter=True,
            sort=True,
            extension="address-scope",
        ),
        *STANDARD,
    ),
)
