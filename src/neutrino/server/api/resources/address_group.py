"""Address groups: lists of CIDRs that security-group rules refer to."""

from __future__ import annotations

from neutrino.server import errors
from neutrino.server.api.definition import Action, Attribute, Resource
from neutrino.server.api.resources.common import ID, NAME_ATTRIBUTE, PROJECT, REVISION, TIMESTAMPS, description
from neutrino.server.api.types import Bool, Cidr, ListOf, Text

MOST_ADDRESSES = 1000  # in one request

ADDRESS_GROUP = Resource(
    name="address_group",
    collection="address_groups",
    not_found=errors.AddressGroupNotFound,
    extension="address-group",
    quota=True,
    foreign_is_hidden=True,
    actions=(Action("add_addresses"), Action("remove_addresses")),
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        description(Text(255)),
        PROJECT,
        Attribute("addresses", ListOf(Cidr(), nullable=True, most=MOST_ADDRESSES), post=True),
        Attribute("shared", Bool()),
        *TIMESTAMPS,
        *REVISION,
    ),
)
