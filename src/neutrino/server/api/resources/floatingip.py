"""Floating IPs, port forwardings and floating IP pools."""

from typing import Any

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import CHILD_IDENTITY, ID, PROJECT, STATUS, standard
from neutrino.server.api.resources.router import PROTOCOL, PROTOCOL_WORDS

_PORT = t.Integer(1, 65535)


def parse_range(value: Any) -> str | None:
    """A port range, given as "80" or "80:90", in the second form."""
    if value is None:
        return None
    parts = [_PORT.parse(part) for part in str(value).split(":")] if isinstance(value, str | int) else []
    if not 1 <= len(parts) <= 2 or parts[0] > parts[-1] or isinstance(value, bool):
        raise t.Invalid(f"'{value}' is not a port or a range such as 80:90")
    return f"{parts[0]}:{parts[-1]}"


_RANGE = t.Parsed(parse_range, {"anyOf": [{"type": "string", "pattern": "^[0-9]+(:[0-9]+)?$"}, {"type": "null"}]})


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
