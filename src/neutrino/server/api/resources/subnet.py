"""Subnets."""

import re

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import IDENTITY, IP_VERSION, ROUTE, standard

IPV6_MODES = ("dhcpv6-stateful", "dhcpv6-stateless", "slaac", None)
# Limits of one request; the limits of a subnet are the options max_dns_nameservers and max_subnet_host_routes.
MAX_NAMESERVERS, MAX_HOST_ROUTES = 100, 1000
# A device_owner such as "compute:nova". Those of other services are not known here, so only the form is checked.
SERVICE_TYPE = re.compile(r"\S+:|[Oo]ctavia")


def parse_pools(value: object) -> list[dict[str, str]]:
    """Allocation pools with addresses in canonical form."""
    if not isinstance(value, list):
        raise t.Unconvertible(f"'{value}' is not a list of allocation pools")
    pools = []
    for pool in value:
        if not isinstance(pool, dict):
            raise t.Unconvertible(f"'{pool}' is not an allocation pool")
        if set(pool) != {"start", "end"}:
            raise t.Invalid(f"allocation pool '{pool}' must have start and end, and nothing else")
        try:
            pools.append({"start": str(t.ip(pool["start"])), "end": str(t.ip(pool["end"]))})
        except ValueError:
            raise t.Invalid(f"allocation pool '{pool}' has an invalid address") from None
    return pools


def parse_service_types(value: object) -> list[str]:
    if not isinstance(value, list):
        raise t.Invalid(f"'{value}' is not a list")
    for item in value:
        if not isinstance(item, str):
            raise errors.InvalidInputSubnetServiceType(service_type=item)
        if not SERVICE_TYPE.match(item) or len(item) > 255:
            raise errors.InvalidSubnetServiceType(service_type=item)
    if len(set(value)) != len(value):
        raise t.Invalid("a service type is given twice")
    return value


def parse_pool_id(value: object) -> str | None:
    """A subnet pool's id, null, or "prefix_delegation" for a prefix delegated to the router."""
    return value if value in (None, "prefix_delegation") else t.Uuid().parse(value)


_POOL = t.Record({"start": t.Text(None), "end": t.Text(None)})

SUBNET = Resource(
    name="subnet",
    quota=True,
    tagged=True,
    not_found=errors.SubnetNotFound,
    belongs_to="network_id",
    attributes=(
        *IDENTITY,
        creatable("network_id", t.Uuid(), default=REQUIRED, searchable=True),
        IP_VERSION,
        creatable("subnetpool_id", t.Parsed(parse_pool_id, t.UUID_OR_NONE), searchable=True),
        creatable("prefixlen", t.Integer(min=0, max=128), visible=False),
        creatable("cidr", t.Nullable(t.Cidr(t.Unconvertible)), searchable=True),
        writable("gateway_ip", t.Nullable(t.IpAddress()), searchable=True),
        writable("allocation_pools", t.Parsed(parse_pools, t.ListOf(_POOL, max_items=100))),
        # 0.0.0.0 or :: alone means that DHCP sends no name server.
        writable("dns_nameservers", t.ListOf(t.IpAddress(), nullable=True, max_items=MAX_NAMESERVERS)),
        writable("host_routes", t.ListOf(ROUTE, nullable=True, max_items=MAX_HOST_ROUTES)),
        writable("enable_dhcp", t.Bool(), default=True, searchable=True),
        creatable("ipv6_ra_mode", t.OneOf(IPV6_MODES), searchable=True),
        creatable("ipv6_address_mode", t.OneOf(IPV6_MODES), searchable=True),
        Attribute("shared", t.Bool(), visible=False, filter=True),
        creatable("use_default_subnetpool", t.Bool(), default=False, visible=False),
        writable("service_types", t.Parsed(parse_service_types, t.ListOf(t.Text(), max_items=64)), guarded=True),
        writable("dns_publish_fixed_ip", t.Bool(), default=False),
        Attribute("router:external", t.Bool(), filter=True),
        writable("segment_id", t.UUID_OR_NONE, default=None, searchable=True, guarded=True),
        *standard(),
    ),
)
