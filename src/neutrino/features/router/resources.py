"""Routers with their conntrack helpers, floating IPs with their port forwardings, floating IP pools, and NDP proxies."""

from neutrino.features.router import errors
from neutrino.model.objects import Object
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, ActionEvent, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import (
    ADMIN_STATE_UP,
    CHILD_IDENTITY,
    ID,
    IDENTITY,
    PROJECT,
    PROTOCOLS,
    ROUTE,
    STATUS,
    standard,
    zone_hints,
)
from neutrino.server.api.resources.port import FIXED_IPS

# The limit of one request; the limit of a router is the quota router_route.
ROUTES = t.ListOf(ROUTE, nullable=True, max_items=1000)
_GATEWAY = t.Record(
    {"network_id": t.Uuid()},
    {"enable_snat": t.Bool(), "external_fixed_ips": FIXED_IPS, "qos_policy_id": t.UUID_OR_NONE},
)
MAX_GATEWAYS = 16  # of one router: each is a port, a device and a routing table on its hosts
# Of two names of one number, `ip` and `ipv6-icmp` are stored.
_BY_NUMBER = {str(number): name for name, number in PROTOCOLS.items() if name not in ("hopopt", "icmpv6")}


def parse_gateway(value: object) -> Object | None:
    """A gateway; null or an empty object for none."""
    return None if value is None or value == {} else _GATEWAY.parse(value)


def parse_protocol(value: object) -> str:
    """A protocol by name; a number is converted to the name."""
    text = str(value).lower() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    name = _BY_NUMBER.get(text, text)
    if name not in PROTOCOLS:
        raise t.Invalid(f"'{value}' is not one of {sorted(PROTOCOLS)}")
    return name


def parse_gateways(value: object) -> list[Object]:
    """Gateways of one router. Equal ones are no mistake: a router may have several ports on one network."""
    if value == {}:  # `openstack router unset` sends this to remove_external_gateways, and expects that nothing happens
        return []
    if not isinstance(value, list):
        raise t.Invalid(f"'{value}' is not a list")
    t.check_length(value, MAX_GATEWAYS)
    return [_GATEWAY.parse(item) for item in value]


_GATEWAY_OR_NONE = t.Parsed(parse_gateway, t.Nullable(_GATEWAY))
GATEWAYS = t.Parsed(parse_gateways, t.ListOf(_GATEWAY, max_items=MAX_GATEWAYS))
PROTOCOL = t.Parsed(parse_protocol, {"enum": sorted(PROTOCOLS)})
PROTOCOL_WORDS = t.OneOf(tuple(sorted(PROTOCOLS)))

_INTERFACE_ACTIONS = ("add_router_interface", "remove_router_interface")
_INTERFACE: t.Schema = {
    "type": "object",
    "properties": {"subnet_id": t.Uuid().schema(), "port_id": t.Uuid().schema()},
    "minProperties": 1,
}


def _of_router(**properties: t.Schema) -> t.Schema:
    return t.object_schema(router=t.object_schema(**properties))


_PORT = t.Integer(1, 65535)


def parse_range(value: object) -> str | None:
    """A port range, given as "80" or "80:90", in the second form."""
    if value is None:
        return None
    parts = [_PORT.parse(part) for part in str(value).split(":")] if isinstance(value, str | int) else []
    if not 1 <= len(parts) <= 2 or parts[0] > parts[-1] or isinstance(value, bool):
        raise t.Invalid(f"'{value}' is not a port or a range such as 80:90")
    return f"{parts[0]}:{parts[-1]}"


_RANGE = t.Parsed(parse_range, {"anyOf": [{"type": "string", "pattern": "^[0-9]+(:[0-9]+)?$"}, {"type": "null"}]})

ROUTER = Resource(
    name="router",
    quota=True,
    tagged=True,
    not_found=errors.RouterNotFound,
    actions=(
        *_INTERFACE_ACTIONS,
        "add_extraroutes",
        "remove_extraroutes",
        "add_external_gateways",
        "update_external_gateways",
        "remove_external_gateways",
    ),
    action_events={
        "add_router_interface": ActionEvent("router.interface.create", "router_interface"),
        "remove_router_interface": ActionEvent("router.interface.delete", "router_interface"),
    },
    bodies={
        **dict.fromkeys(_INTERFACE_ACTIONS, _INTERFACE),
        **dict.fromkeys(("add_extraroutes", "remove_extraroutes"), _of_router(routes=ROUTES.schema())),
        **{
            f"{verb}_external_gateways": _of_router(external_gateways=GATEWAYS.schema())
            for verb in ("add", "update", "remove")
        },
    },
    answers=dict.fromkeys(
        _INTERFACE_ACTIONS,
        t.object_schema(
            **dict.fromkeys(("id", "project_id", "tenant_id", "port_id", "network_id"), t.STRING),
            subnet_id={"type": ["string", "null"]},
            subnet_ids=t.array_schema(t.STRING),
        ),
    ),
    attributes=(
        *IDENTITY,
        ADMIN_STATE_UP,
        Attribute("status", t.Text(16), sort=True),
        writable("external_gateway_info", _GATEWAY_OR_NONE, default=None, shown_null=True, guarded=True),
        Attribute("external_gateways", GATEWAYS),
        writable("enable_default_route_bfd", t.Nullable(t.Bool()), default=None, guarded=True),
        writable("enable_default_route_ecmp", t.Nullable(t.Bool()), default=None, guarded=True),
        Attribute("enable_snat", t.Bool(), filter=True, sort=True),
        Attribute("routes", ROUTES, put=True),
        writable("distributed", t.Nullable(t.Bool()), guarded=True),
        writable("ha", t.Nullable(t.Bool()), guarded=True),
        Attribute("availability_zones", t.ListOf(t.Text())),
        zone_hints(),
        creatable("flavor_id", t.Nullable(t.Text(36)), sort=True),
        creatable("service_type_id", t.UUID_OR_NONE, default=None),
        Attribute("conntrack_helpers", t.ListOf(t.AnyObject())),
        writable("enable_ndp_proxy", t.Nullable(t.Bool()), filter=True),
        *standard(),
    ),
)

CONNTRACK_HELPER = Resource(
    name="conntrack_helper",
    path="conntrack_helpers",
    parent=ROUTER,
    not_found=errors.ConntrackHelperNotFound,
    attributes=(
        *CHILD_IDENTITY,
        writable("protocol", PROTOCOL, default=REQUIRED, searchable=True, filter_as=PROTOCOL_WORDS),
        writable("port", t.Integer(1, 65535), default=REQUIRED, searchable=True),
        writable("helper", t.Text(64), default=REQUIRED, searchable=True),
    ),
)

FLOATINGIP = Resource(
    name="floatingip",
    quota=True,
    tagged=True,
    not_found=errors.FloatingIPNotFound,
    attributes=(
        ID,
        PROJECT,
        creatable("floating_network_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("floating_ip_address", t.Nullable(t.IpAddress()), default=None, searchable=True, guarded=True),
        creatable("subnet_id", t.UUID_OR_NONE, default=None, visible=False),
        writable("router_id", t.UUID_OR_NONE, default=None, searchable=True, guarded=True),
        writable("port_id", t.UUID_OR_NONE, default=None, filter=True),
        writable("fixed_ip_address", t.Nullable(t.IpAddress()), default=None, searchable=True),
        STATUS,
        Attribute("port_details", t.Nullable(t.AnyObject()), shown_null=True),
        creatable("dns_name", t.DnsName(), default=""),
        creatable("dns_domain", t.DnsName(domain=True), default=""),
        writable("qos_policy_id", t.UUID_OR_NONE, default=None),
        Attribute("qos_network_policy_id", t.UUID_OR_NONE),
        Attribute("port_forwardings", t.ListOf(t.AnyObject())),
        *standard(),
    ),
)

PORT_FORWARDING = Resource(
    name="port_forwarding",
    path="port_forwardings",
    parent=FLOATINGIP,
    not_found=errors.PortForwardingNotFound,
    attributes=(
        *CHILD_IDENTITY,
        writable("external_port", t.Nullable(_PORT), default=None, searchable=True),
        writable("internal_port", t.Nullable(_PORT), default=None),
        writable("external_port_range", _RANGE, default=None, searchable=True),
        writable("internal_port_range", _RANGE, default=None),
        writable("internal_ip_address", t.IpAddress(), default=REQUIRED),
        writable("protocol", PROTOCOL, default=REQUIRED, searchable=True, filter_as=PROTOCOL_WORDS),
        writable("internal_port_id", t.Uuid(), default=REQUIRED, searchable=True),
        writable("description", t.Text(), default="", filter=True),
    ),
)

FLOATINGIP_POOL = Resource(
    name="floatingip_pool",
    path="floatingip_pools",
    key="subnet_id",
    verbs=frozenset({"index"}),
    attributes=(
        Attribute("subnet_id", t.Uuid()),
        Attribute("subnet_name", t.Text()),
        Attribute("network_id", t.Uuid()),
        Attribute("cidr", t.Cidr()),
        Attribute("project_id", t.Text(), shown_null=True),
    ),
)

ROUTER_PLACEMENT = Resource(
    name="router_placement",
    path="router-placements",
    verbs=frozenset({"index", "show"}),
    not_found=errors.RouterNotFound,
    attributes=(
        Attribute("id", t.Uuid(), filter=True, sort=True),
        Attribute("name", t.Text(), filter=True, sort=True),
        Attribute("project_id", t.Text(), filter=True, sort=True),
        Attribute("status", t.Text()),
        Attribute("ha", t.Bool(), filter=True),
        Attribute("distributed", t.Bool(), filter=True),
        Attribute("active", t.Integer(min=0, max=2**31)),
        Attribute("standby", t.Integer(min=0, max=2**31)),
        Attribute("hosts", t.ListOf(t.Text()), filter=True, filter_as=t.Text()),
        Attribute("instances", t.ListOf(t.AnyObject())),
    ),
)

NDP_PROXY = Resource(
    name="ndp_proxy",
    collection="ndp_proxies",
    path="ndp_proxies",
    not_found=errors.NDPProxyNotFound,
    attributes=(
        *IDENTITY,
        creatable("router_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("port_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("ip_address", t.Nullable(t.IpAddress()), default=None, searchable=True),
        *standard(tags=None),
    ),
)
