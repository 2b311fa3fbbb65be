"""Subnets."""

from __future__ import annotations

import re
from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Resource
from neutrino.server.api.resources.common import (
    ID,
    IP_VERSION,
    NAME_ATTRIBUTE,
    PROJECT,
    STANDARD,
    TAG_FILTERS,
    UUID_OR_NONE,
)
from neutrino.server.api.types import (
    Bool,
    Cidr,
    Integer,
    Invalid,
    IpAddress,
    Key,
    ListOf,
    Nullable,
    OneOf,
    Parsed,
    Record,
    Text,
    Unconvertible,
    Uuid,
    ip,
)

IPV6_MODES = ("dhcpv6-stateful", "dhcpv6-stateless", "slaac", None)
# In one request; how many a subnet may have are the options max_dns_nameservers and max_subnet_host_routes.
MOST_NAMESERVERS, MOST_HOST_ROUTES = 100, 1000
# A device_owner, as "compute:nova": what other services call theirs is not known here.
SERVICE_TYPE = re.compile(r"\S+:|[Oo]ctavia")


def parse_pools(value: Any) -> list[dict[str, str]]:
    """Allocation pools, their addresses in canonical text."""
    if not isinstance(value, list):
        raise Unconvertible(f"'{value}' is not a list of allocation pools")
    pools = []
    for pool in value:
        if not isinstance(pool, dict):
            raise Unconvertible(f"'{pool}' is not an allocation pool")
        if set(pool) != {"start", "end"}:
            raise Invalid(f"allocation pool '{pool}' must have start and end, and nothing else")
        try:
            pools.append({"start": str(ip(pool["start"])), "end": str(ip(pool["end"]))})
        except ValueError:
            raise Invalid(f"allocation pool '{pool}' has an address that is none") from None
    return pools


def parse_service_types(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise Invalid(f"'{value}' is not a list")
    for item in value:
        if not isinstance(item, str):
            raise errors.InvalidInputSubnetServiceType(service_type=item)
        if not SERVICE_TYPE.match(item) or len(item) > 255:
            raise errors.InvalidSubnetServiceType(service_type=item)
    if len(set(value)) != len(value):
        raise Invalid("a service type is given twice")
    return value


def parse_pool_id(value: Any) -> str | None:
    """A subnet pool's id, none, or the word for a prefix that is delegated to the router."""
    return value if value in (None, "prefix_delegation") else Uuid().parse(value)


def parse_nameservers(value: Any) -> list[str]:
    """Each an address; 0.0.0.0 or :: alone says: tell the client none."""
    return ListOf(IpAddress(), nullable=True).parse(value)


_ROUTE = Record({"destination": Key(Cidr()), "nexthop": Key(IpAddress())})
_POOLS_SCHEMA = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"start": {"type": "string"}, "end": {"type": "string"}},
        "required": ["start", "end"],
        "additionalProperties": False,
    },
}

SUBNET = Resource(
    name="subnet",
    collection="subnets",
    quota=True,
    tagged=True,
    not_found=errors.SubnetNotFound,
    belongs_to="network_id",
    extra_filters=TAG_FILTERS,
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        PROJECT,
        Attribute("network_id", Uuid(), post=True, default=REQUIRED, filter=True, sort=True),
        IP_VERSION,
        Attribute(
            "subnetpool_id",
            Parsed(parse_pool_id, UUID_OR_NONE.schema()),
            post=True,
            filter=True,
            sort=True,
            extension="subnet_allocation",
        ),
        Attribute("prefixlen", Integer(min=0, max=128), post=True, visible=False),
        Attribute("cidr", Nullable(Cidr(Unconvertible)), post=True, filter=True, sort=True),
        Attribute("gateway_ip", Nullable(IpAddress()), post=True, put=True, filter=True, sort=True),
        Attribute("allocation_pools", Parsed(parse_pools, _POOLS_SCHEMA, most=100), post=True, put=True),
        Attribute(
            "dns_nameservers",
            Parsed(parse_nameservers, ListOf(IpAddress(), nullable=True).schema(), most=MOST_NAMESERVERS),
            post=True,
            put=True,
        ),
        Attribute("host_routes", ListOf(_ROUTE, nullable=True, most=MOST_HOST_ROUTES), post=True, put=True),
        Attribute("enable_dhcp", Bool(), post=True, put=True, default=True, filter=True, sort=True),
        Attribute("ipv6_ra_mode", OneOf(IPV6_MODES), post=True, filter=True, sort=True),
        Attribute("ipv6_address_mode", OneOf(IPV6_MODES), post=True, filter=True, sort=True),
        Attribute("shared", Bool(), visible=False, filter=True),
        Attribute(
            "use_default_subnetpool",
            Bool(),
            post=True,
            default=False,
            visible=False,
            extension="default-subnetpools",
        ),
        Attribute(
            "service_types",
            Parsed(parse_service_types, {"type": "array", "items": {"type": "string", "maxLength": 255}}, most=64),
            post=True,
            put=True,
            guarded=True,
            extension="subnet-service-types",
        ),
        Attribute("dns_publish_fixed_ip", Bool()),
        Attribute("router:external", Bool(), filter=True, extension="subnet-external-network"),
        Attribute("segment_id", Nullable(Text(36))),
        *STANDARD,
    ),
)
