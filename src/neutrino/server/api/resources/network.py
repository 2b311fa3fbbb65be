"""Networks, and how many of their addresses are in use."""

from typing import Any

from msgspec import UNSET

from neutrino.server import errors
from neutrino.server.api.definition import Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import (
    ADMIN_STATE_UP,
    ID,
    MAX_ZONE_HINTS,
    NAME_ATTRIBUTE,
    PROJECT,
    STANDARD,
    STATUS,
    TAG_FILTERS,
    shared,
)
from neutrino.server.api.resources.dhcp_options import EXTRA_DHCP_OPTS
from neutrino.server.api.types import (
    AnyObject,
    Bool,
    DnsName,
    Integer,
    Invalid,
    Key,
    ListOf,
    Nullable,
    OneOf,
    Parsed,
    Record,
    Text,
    Type,
    Uuid,
    first_duplicate,
)

_SEGMENT = Record(
    {
        "provider:network_type": Key(Text(32), required=False),
        "provider:physical_network": Key(Nullable(Text(64)), required=False),
        "provider:segmentation_id": Key(Nullable(Integer()), required=False),
    }
)


def parse_segments(value: Any) -> Any:
    """The segments of a network that has several; each has the provider attributes of a single one."""
    if not isinstance(value, list) or not value:
        raise Invalid(f"'{value}' is not a list of segments")
    segments = [_SEGMENT.parse(segment) for segment in value]
    full = [
        {
            "provider:network_type": s.get("provider:network_type", UNSET),
            "provider:physical_network": s.get("provider:physical_network"),
            "provider:segmentation_id": s.get("provider:segmentation_id"),
        }
        for s in segments
    ]
    if first_duplicate(full) is not None:
        raise errors.SegmentsContainDuplicateEntry()
    return full


def _provider(name: str, type_: Any, filter_as: Type | None = None) -> Attribute:
    return writable(f"provider:{name}", type_, filter=True, filter_as=filter_as, guarded=True)


_NETWORK_TYPES = OneOf(("local", "flat", "vlan", "vxlan", "gre", "geneve"))


NETWORK = Resource(
    name="network",
    collection="networks",
    quota=True,
    tagged=True,
    not_found=errors.NetworkNotFound,
    extra_filters=TAG_FILTERS,
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        Attribute("subnets", ListOf(Uuid()), default=[]),
        ADMIN_STATE_UP,
        STATUS,
        PROJECT,
        shared(put=True),
        writable("router:external", Bool(), default=False, filter=True, guarded=True),
        writable("is_default", Bool(), default=False, searchable=True, guarded=True),
        writable("mtu", Integer(min=0), default=0, searchable=True, guarded=True),
        writable("port_security_enabled", Bool(), default=True, guarded=True),
        writable("dns_domain", DnsName(domain=True), default=""),
        Attribute("qos_policy_id", Nullable(Uuid())),
        Attribute("availability_zones", ListOf(Text())),
        creatable("availability_zone_hints", ListOf(Text(255), max_items=MAX_ZONE_HINTS), default=[], sort=True),
        Attribute("ipv4_address_scope", Nullable(Uuid())),
        Attribute("ipv6_address_scope", Nullable(Uuid())),
        Attribute("l2_adjacency", Bool()),
        writable("extra_dhcp_opts", EXTRA_DHCP_OPTS, default=None),
        creatable("ha", Bool(), default=False, visible=False, guarded=True),
        _provider("network_type", Text(32), _NETWORK_TYPES),
        _provider("physical_network", Nullable(Text(64))),
        _provider("segmentation_id", Nullable(Integer())),
        writable(
            "segments",
            Parsed(parse_segments, {"type": "array", "minItems": 1, "items": _SEGMENT.schema()}, max_items=100),
            guarded=True,
        ),
        *STANDARD,
    ),
)

NETWORK_IP_AVAILABILITY = Resource(
    name="network_ip_availability",
    collection="network_ip_availabilities",
    key="network_id",
    bulk=False,
    verbs=frozenset({"index", "show"}),
    not_found=errors.NetworkNotFound,
    hidden=errors.HTTPNotFound,
    attributes=(
        Attribute("network_id", Uuid(), filter=True, sort=True),
        Attribute("network_name", Text(), filter=True),
        Attribute("project_id", Text(), filter=True),
        Attribute("total_ips", Integer(min=0, max=2**129)),
        Attribute("used_ips", Integer(min=0, max=2**129)),
        Attribute("subnet_ip_availability", ListOf(AnyObject())),
        Attribute("ip_availability_details", AnyObject()),
        Attribute("ip_version", OneOf((4, 6)), visible=False, filter=True),
    ),
)
