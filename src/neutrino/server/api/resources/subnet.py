"""Subnets."""

import re
from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import (
    ID,
    IP_VERSION,
    NAME_ATTRIBUTE,
    PROJECT,
    ROUTE,
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
# Limits of one request; the limits of a subnet are the options max_dns_nameservers and max_subnet_host_routes.
MAX_NAMESERVERS, MAX_HOST_ROUTES = 100, 1000
# A device_owner such as "compute:nova". Those of other services are not known here, so only the form is checked.
SERVICE_TYPE = re.compile(r"\S+:|[Oo]ctavia")


def parse_pools(value: Any) -> list[dict[str, str]]:
    """Allocation pools with addresses in canonical form."""
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
            raise Invalid(f"allocation pool '{pool}' has an invalid address") from None
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
    """A subnet pool's id, null, or "prefix_delegation" for a prefix delegated to the router."""
    return value if value in (None, "prefix_delegation") else Uuid().parse(value)


_POOL = Record({"start": Key(Text(None)), "end": Key(Text(None))})

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
        creatable("network_id", Uuid(), default=REQUIRED, searchable=True),
        IP_VERSION,
        creatable("subnetpool_id", Parsed(parse_pool_id, UUID_OR_NONE.schema()), searchable=True),
        creatable("prefixlen", Integer(min=0, max=128), visible=False),
        creatable("cidr", Nullable(Cidr(Unconvertible)), searchable=True),
        writable("gateway_ip", Nullable(IpAddress()), searchable=True),
        writable("allocation_pools", Parsed(parse_pools, ListOf(_POOL).schema(), max_items=100)),
        # 0.0.0.0 or :: alone means that DHCP sends no name server.
        writable("dns_nameservers", ListOf(IpAddress(), nullable=True, max_items=MAX_NAMESERVERS)),
        writable("host_routes", ListOf(ROUTE, nullable=True, max_items=MAX_HOST_ROUTES)),
        writable("enable_dhcp", Bool(), default=True, searchable=True),
        creatable("ipv6_ra_mode", OneOf(IPV6_MODES), searchable=True),
        creatable("ipv6_address_mode", OneOf(IPV6_MODES), searchable=True),
        Attribute("shared", Bool(), visible=False, filter=True),
        creatable("use_default_subnetpool", Bool(), default=False, visible=False),
        writable(
            "service_types",
            Parsed(parse_service_types, {"type": "array", "items": {"type": "string", "maxLength": 255}}, max_items=64),
            guarded=True,
        ),
        Attribute("dns_publish_fixed_ip", Bool()),
        Attribute("router:external", Bool(), filter=True),
        Attribute("segment_id", Nullable(Text(36))),
        *STANDARD,
    ),
)
