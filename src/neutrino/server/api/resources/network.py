"""Networks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from neutrino.model.sentinel import UNSET
from neutrino.server import errors
from neutrino.server.api.definition import Attribute, Resource
from neutrino.server.api.resources.common import (
    ADMIN_STATE_UP,
    ID,
    MOST_DHCP_OPTIONS,
    MOST_ZONE_HINTS,
    NAME_ATTRIBUTE,
    PROJECT,
    STANDARD,
    STATUS,
    TAG_FILTERS,
    shared,
)
from neutrino.server.api.resources.dhcp_options import EXTRA_DHCP_OPTS
from neutrino.server.api.types import (
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
    """Several segments of one network; each is what the provider attributes say of a single one."""
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
    return Attribute(
        f"provider:{name}",
        type_,
        post=True,
        put=True,
        filter=True,
        filter_as=filter_as,
        guarded=True,
        extension="provider",
    )


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
        Attribute(
            "router:external",
            Bool(),
            post=True,
            put=True,
            default=False,
            filter=True,
            guarded=True,
            extension="external-net",
        ),
        Attribute("is_default", Bool(), post=True, put=True, default=False, filter=True, sort=True, guarded=True),
        Attribute(
            "mtu",
            Integer(min=0),
            post=True,
            put=True,
            default=0,
            filter=True,
            sort=True,
            guarded=True,
            extension="net-mtu-writable",
        ),
        Attribute(
            "port_security_enabled",
            Bool(),
            post=True,
            put=True,
            default=True,
            guarded=True,
            extension="port-security",
        ),
        Attribute("dns_domain", DnsName(domain=True), post=True, put=True, default="", extension="dns-integration"),
        Attribute("qos_policy_id", Nullable(Uuid())),
        Attribute("availability_zones", ListOf(Text()), extension="network_availability_zone"),
        Attribute(
            "availability_zone_hints",
            ListOf(Text(255), most=MOST_ZONE_HINTS),
            post=True,
            default=[],
            sort=True,
            extension="network_availability_zone",
        ),
        Attribute("ipv4_address_scope", Nullable(Uuid()), extension="address-scope"),
        Attribute("ipv6_address_scope", Nullable(Uuid()), extension="address-scope"),
        Attribute("l2_adjacency", Bool(), extension="l2_adjacency"),
        Attribute(
            "extra_dhcp_opts", replace(EXTRA_DHCP_OPTS, most=MOST_DHCP_OPTIONS), post=True, put=True, default=None
        ),
        Attribute("ha", Bool(), post=True, default=False, visible=False, guarded=True, extension="network_ha"),
        _provider("network_type", Text(32), _NETWORK_TYPES),
        _provider("physical_network", Nullable(Text(64))),
        _provider("segmentation_id", Nullable(Integer())),
        Attribute(
            "segments",
            Parsed(parse_segments, {"type": "array", "minItems": 1, "items": _SEGMENT.schema()}, most=100),
            post=True,
            put=True,
            guarded=True,
            extension="multi-provider",
        ),
        *STANDARD,
    ),
)
