"""Routers, and the conntrack helpers that they use."""

from __future__ import annotations

from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Action, Attribute, Parent, Resource
from neutrino.server.api.resources.common import (
    ADMIN_STATE_UP,
    ID,
    MOST_ZONE_HINTS,
    NAME_ATTRIBUTE,
    PROJECT,
    STANDARD,
    TAG_FILTERS,
)
from neutrino.server.api.resources.port import FIXED_IPS
from neutrino.server.api.types import (
    AnyObject,
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
    Uuid,
)

ROUTE = Record({"destination": Key(Cidr()), "nexthop": Key(IpAddress())})
# The most in one request; how many a router may have is a quota, router_route.
ROUTES = ListOf(ROUTE, nullable=True, most=1000)
_GATEWAY = Record(
    {
        "network_id": Key(Uuid()),
        "enable_snat": Key(Bool(), required=False),
        "external_fixed_ips": Key(FIXED_IPS, required=False),
    }
)
PROTOCOLS = {
    "ah": "51", "dccp": "33", "egp": "8", "esp": "50", "gre": "47", "hopopt": "0", "icmp": "1", "igmp": "2",
    "ip": "0", "ipip": "4", "ipv6-encap": "41", "ipv6-frag": "44", "ipv6-icmp": "58", "icmpv6": "58",
    "ipv6-nonxt": "59", "ipv6-opts": "60", "ipv6-route": "43", "ospf": "89", "pgm": "113", "rsvp": "46",
    "sctp": "132", "tcp": "6", "udp": "17", "udplite": "136", "vrrp": "112",
}  # fmt: skip
_BY_NUMBER = {number: name for name, number in PROTOCOLS.items() if name not in ("hopopt", "icmpv6")}


def parse_gateway(value: Any) -> dict[str, Any] | None:
    """A gateway, or null or an empty object for none."""
    return None if value is None or value == {} else _GATEWAY.parse(value)


def parse_protocol(value: Any) -> str:
    """A protocol by its name; a number becomes the name."""
    text = str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    name = _BY_NUMBER.get(text, text)
    if name not in PROTOCOLS:
        raise Invalid(f"'{value}' is not one of {sorted(PROTOCOLS)}")
    return name


PROTOCOL = Parsed(parse_protocol, {"enum": sorted(PROTOCOLS)})
PROTOCOL_WORDS = OneOf(tuple(sorted(PROTOCOLS)))

ROUTER = Resource(
    name="router",
    collection="routers",
    quota=True,
    tagged=True,
    not_found=errors.RouterNotFound,
    extra_filters=TAG_FILTERS,
    extension="router",
    actions=tuple(
        Action(name)
        for name in ("add_router_interface", "remove_router_interface", "add_extraroutes", "remove_extraroutes")
    ),
    attributes=(
        ID,
        NAME_ATTRIBUTE,
        ADMIN_STATE_UP,
        Attribute("status", Text(16), sort=True),
        PROJECT,
        Attribute(
            "external_gateway_info",
            Parsed(parse_gateway, {"anyOf": [{"type": "null"}, _GATEWAY.schema()]}),
            post=True,
            put=True,
            default=None,
            guarded=True,
            extension="ext-gw-mode",
        ),
        Attribute("enable_snat", Bool(), filter=True, sort=True, extension="router-enable-snat"),
        Attribute("routes", ROUTES, put=True, extension="extraroute"),
        Attribute("distributed", Nullable(Bool()), post=True, put=True, guarded=True, extension="dvr"),
        Attribute("ha", Nullable(Bool()), post=True, put=True, guarded=True, extension="l3-ha"),
        Attribute("availability_zones", ListOf(Text()), extension="router_availability_zone"),
        Attribute(
            "availability_zone_hints",
            ListOf(Text(255), most=MOST_ZONE_HINTS),
            post=True,
            default=[],
            extension="router_availability_zone",
        ),
        Attribute("flavor_id", Nullable(Text(36)), post=True, sort=True, extension="l3-flavors"),
        Attribute("conntrack_helpers", ListOf(AnyObject()), extension="expose-l3-conntrack-helper"),
        Attribute("enable_ndp_proxy", Bool()),
        *STANDARD,
    ),
)

CONNTRACK_HELPER = Resource(
    name="conntrack_helper",
    collection="conntrack_helpers",
    path="conntrack_helpers",
    parent=Parent("router", "routers"),
    owned=False,
    bulk=False,
    not_found=errors.ConntrackHelperNotFound,
    extension="l3-conntrack-helper",
    attributes=(
        ID,
        Attribute("project_id", Text(255), post=True, visible=False),
        Attribute(
            "protocol",
            PROTOCOL,
            post=True,
            put=True,
            default=REQUIRED,
            filter=True,
            filter_as=PROTOCOL_WORDS,
            sort=True,
        ),
        Attribute("port", Integer(1, 65535), post=True, put=True, default=REQUIRED, filter=True, sort=True),
        Attribute("helper", Text(64), post=True, put=True, default=REQUIRED, filter=True, sort=True),
    ),
)

__all__ = ["CONNTRACK_HELPER", "PROTOCOL", "ROUTER", "ROUTES"]
