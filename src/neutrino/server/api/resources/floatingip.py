"""Floating IPs, port forwardings and floating IP pools."""

from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Parent, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, PROJECT, STANDARD, STATUS, TAG_FILTERS, UUID_OR_NONE
from neutrino.server.api.resources.router import PROTOCOL, PROTOCOL_WORDS
from neutrino.server.api.types import (
    AnyObject,
    Cidr,
    DnsName,
    Integer,
    Invalid,
    IpAddress,
    ListOf,
    Nullable,
    Parsed,
    Text,
    Uuid,
)

_PORT = Integer(1, 65535)


def parse_range(value: Any) -> str | None:
    """A port range, given as "80" or "80:90", in the second form."""
    if value is None:
        return None
    parts = [_PORT.parse(part) for part in str(value).split(":")] if isinstance(value, str | int) else []
    if not 1 <= len(parts) <= 2 or parts[0] > parts[-1] or isinstance(value, bool):
        raise Invalid(f"'{value}' is not a port or a range such as 80:90")
    return f"{parts[0]}:{parts[-1]}"


_RANGE = Parsed(parse_range, {"anyOf": [{"type": "string", "pattern": "^[0-9]+(:[0-9]+)?$"}, {"type": "null"}]})


FLOATINGIP = Resource(
    name="floatingip",
    collection="floatingips",
    quota=True,
    tagged=True,
    not_found=errors.FloatingIPNotFound,
    extra_filters=TAG_FILTERS,
    attributes=(
        ID,
        PROJECT,
        creatable("floating_network_id", Uuid(), default=REQUIRED, searchable=True),
        creatable("floating_ip_address", Nullable(IpAddress()), default=None, searchable=True, guarded=True),
        creatable("subnet_id", UUID_OR_NONE, default=None, visible=False),
        Attribute("router_id", UUID_OR_NONE, filter=True, sort=True),
        writable("port_id", UUID_OR_NONE, default=None, filter=True),
        writable("fixed_ip_address", Nullable(IpAddress()), default=None, searchable=True),
        STATUS,
        Attribute("port_details", Nullable(AnyObject()), shown_null=True),
        creatable("dns_name", DnsName(), default=""),
        creatable("dns_domain", DnsName(domain=True), default=""),
        Attribute("qos_policy_id", UUID_OR_NONE),
        Attribute("port_forwardings", ListOf(AnyObject())),
        *STANDARD,
    ),
)

PORT_FORWARDING = Resource(
    name="port_forwarding",
    collection="port_forwardings",
    path="port_forwardings",
    parent=Parent("floatingip", "floatingips"),
    owned=False,
    bulk=False,
    not_found=errors.PortForwardingNotFound,
    attributes=(
        ID,
        creatable("project_id", Text(255), visible=False),
        writable("external_port", Nullable(_PORT), default=None, searchable=True),
        writable("internal_port", Nullable(_PORT), default=None),
        writable("external_port_range", _RANGE, default=None, searchable=True),
        writable("internal_port_range", _RANGE, default=None),
        writable("internal_ip_address", IpAddress(), default=REQUIRED),
        writable("protocol", PROTOCOL, default=REQUIRED, searchable=True, filter_as=PROTOCOL_WORDS),
        writable("internal_port_id", Uuid(), default=REQUIRED, searchable=True),
        writable("description", Text(255), default="", filter=True),
    ),
)

FLOATINGIP_POOL = Resource(
    name="floatingip_pool",
    collection="floatingip_pools",
    path="floatingip_pools",
    key="subnet_id",
    owned=False,
    bulk=False,
    verbs=frozenset({"index"}),
    attributes=(
        Attribute("subnet_id", Uuid()),
        Attribute("subnet_name", Text(255)),
        Attribute("network_id", Uuid()),
        Attribute("cidr", Cidr()),
        Attribute("project_id", Text(255), shown_null=True),
    ),
)
