"""Routers and their conntrack helpers."""

from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Action, Attribute, Parent, Resource, creatable, writable
from neutrino.server.api.resources.common import (
    ADMIN_STATE_UP,
    ID,
    MAX_ZONE_HINTS,
    NAME_ATTRIBUTE,
    PROJECT,
    PROTOCOLS,
    ROUTE,
    STANDARD,
    TAG_FILTERS,
)
from neutrino.server.api.resources.port import FIXED_IPS
from neutrino.server.api.types import (
    AnyObject,
    Bool,
    Integer,
    Invalid,
    Key,
    ListOf,
    Nullable,
    OneOf,
    Parsed,
    Record,
    Text,
    Uuid,
)

# The limit of one request; the limit of a router is the quota router_route.
ROUTES = ListOf(ROUTE, nullable=True, max_items=1000)
_GATEWAY = Record(
    {
        "network_id": Key(Uuid()),
        "enable_snat": Key(Bool(), required=False),
        "external_fixed_ips": Key(FIXED_IPS, required=False),
    }
)
_BY_NUMBER = {str(number): name for name, number in PROTOCOLS.items() if name not in ("hopopt", "icmpv6")}


def parse_gateway(value: Any) -> dict[str, Any] | None:
    """A gateway; null or an empty object for none."""
    return None if value is None or value == {} else _GATEWAY.parse(value)


def parse_protocol(value: Any) -> str:
    """A protocol by name; a number is converted to the name."""
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
        writable(
            "external_gateway_info",
            Parsed(parse_gateway, {"anyOf": [{"type": "null"}, _GATEWAY.schema()]}),
            default=None,
            guarded=True,
        ),
        Attribute("enable_snat", Bool(), filter=True, sort=True),
        Attribute("routes", ROUTES, put=True),
        writable("distributed", Nullable(Bool()), guarded=True),
        writable("ha", Nullable(Bool()), guarded=True),
        Attribute("availability_zones", ListOf(Text())),
        creatable("availability_zone_hints", ListOf(Text(255), max_items=MAX_ZONE_HINTS), default=[]),
        creatable("flavor_id", Nullable(Text(36)), sort=True),
        Attribute("conntrack_helpers", ListOf(AnyObject())),
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
    attributes=(
        ID,
        creatable("project_id", Text(255), visible=False),
        writable("protocol", PROTOCOL, default=REQUIRED, searchable=True, filter_as=PROTOCOL_WORDS),
        writable("port", Integer(1, 65535), default=REQUIRED, searchable=True),
        writable("helper", Text(64), default=REQUIRED, searchable=True),
    ),
)
