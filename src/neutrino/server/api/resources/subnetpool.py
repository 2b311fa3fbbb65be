"""Subnet pools and address scopes."""

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, writable
from neutrino.server.api.resources.common import ID, IP_VERSION, NAME, PROJECT, shared, standard

MAX_PREFIXES = 1000
PREFIXES = t.ListOf(t.Cidr(), max_items=MAX_PREFIXES)


def _prefixlen(name: str) -> Attribute:
    # Not limited to 32 or 128 here: a length that does not fit the pool has an error of its own.
    return writable(name, t.Integer(min=0, max=2**31 - 1, as_text=True), searchable=True)


SUBNETPOOL = Resource(
    name="subnetpool",
    quota=True,
    tagged=True,
    not_found=errors.SubnetPoolNotFound,
    actions=("add_prefixes", "remove_prefixes", "onboard_network_subnets"),
    bodies={
        **dict.fromkeys(("add_prefixes", "remove_prefixes"), t.object_schema(prefixes=t.CIDRS)),
        "onboard_network_subnets": t.object_schema(network_id=t.Uuid().schema()),
    },
    answers={"onboard_network_subnets": t.array_schema(t.object_schema(id=t.STRING, cidr=t.STRING))},
    attributes=(
        ID,
        writable("name", t.Text(255, min=1, blank=False), default=REQUIRED, searchable=True),
        PROJECT,
        writable("prefixes", PREFIXES, default=REQUIRED),
        writable("default_quota", t.Integer(min=0), searchable=True, shown_null=True),
        Attribute("ip_version", t.Integer(), filter=True, sort=True),
        _prefixlen("default_prefixlen"),
        _prefixlen("min_prefixlen"),
        _prefixlen("max_prefixlen"),
        writable("is_default", t.Bool(), default=False, searchable=True, guarded=True),
        shared(put=False),
        writable("address_scope_id", t.UUID_OR_NONE, searchable=True),
        *standard(),
    ),
)

ADDRESS_SCOPE = Resource(
    name="address_scope",
    not_found=errors.AddressScopeNotFound,
    attributes=(ID, NAME, PROJECT, shared(put=True), IP_VERSION),
)
