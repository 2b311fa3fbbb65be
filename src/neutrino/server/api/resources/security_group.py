"""Security groups and their rules."""

import contextlib

from neutrino.model.addresses import parse_interface
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, PROJECT, PROTOCOLS, standard


def parse_name(value: object) -> str:
    name = t.Name().parse(value)
    if name.lower() == "default":  # each project has one, created by the server
        raise errors.SecurityGroupDefaultAlreadyExists()
    return name


def parse_protocol(value: object) -> str | None:
    """A protocol by name or number, as given but in lower case; `any` means all protocols."""
    name = value.lower() if isinstance(value, str) else None
    if value is None or name == "any":
        return None
    if name in PROTOCOLS:
        return name
    with contextlib.suppress(t.Invalid, t.Unconvertible):
        return str(t.Integer(0, 255).parse(value))
    raise errors.SecurityGroupRuleInvalidProtocol(protocol=value, values=sorted(PROTOCOLS))


def parse_ethertype(value: object) -> str:
    for known in ("IPv4", "IPv6"):
        if isinstance(value, str) and value.lower() == known.lower():
            return known
    raise errors.SecurityGroupRuleInvalidEtherType(ethertype=value, values=["IPv4", "IPv6"])


def parse_port(value: object) -> int | None:
    try:
        return None if value is None else t.Integer(0, 65535).parse(value)
    except (t.Invalid, t.Unconvertible):
        raise errors.SecurityGroupInvalidPortValue(port=value) from None


def parse_prefix(value: object) -> str | None:
    """A CIDR with its host bits; an address becomes a /32 or /128, a netmask a prefix length."""
    if not value and not isinstance(value, int | bool | float):
        return None
    try:
        if not isinstance(value, str):
            raise ValueError
        return str(parse_interface(value))
    except ValueError:
        raise errors.InvalidCIDR(input=value) from None


_PORT = t.Parsed(parse_port, t.Nullable(t.Integer(0, 65535)))
_STRING_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def _rule(
    name: str, type_: t.Type[object], default: object = None, filter_as: t.Type[object] | None = None
) -> Attribute:
    return creatable(name, type_, default=default, searchable=True, filter_as=filter_as)


SECURITY_GROUP = Resource(
    name="security_group",
    quota=True,
    tagged=True,
    not_found=errors.SecurityGroupNotFound,
    attributes=(
        ID,
        writable("name", t.Parsed(parse_name, t.Name()), default="", searchable=True, filter_as=t.Text()),
        PROJECT,
        Attribute("security_group_rules", t.ListOf(t.Anything())),
        writable("stateful", t.Bool(), filter=True),  # by default as set for the project, or for all
        Attribute("shared", t.Bool(), filter=True),
        *standard(),
    ),
)

SECURITY_GROUP_RULE = Resource(
    name="security_group_rule",
    quota=True,
    not_found=errors.SecurityGroupRuleNotFound,
    hidden=errors.HTTPNotFound,
    belongs_to="security_group_id",
    attributes=(
        ID,
        PROJECT,
        _rule("security_group_id", t.Text(36), REQUIRED),
        _rule("direction", t.OneOf(("ingress", "egress")), REQUIRED),
        _rule("ethertype", t.Parsed(parse_ethertype, {"enum": ["IPv4", "IPv6"]}), "IPv4", t.OneOf(("IPv4", "IPv6"))),
        _rule(
            "protocol",
            t.Parsed(parse_protocol, {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
            filter_as=t.OneOf(tuple(PROTOCOLS)),
        ),
        _rule("port_range_min", _PORT, filter_as=t.Integer()),
        _rule("port_range_max", _PORT, filter_as=t.Integer()),
        _rule("remote_ip_prefix", t.Parsed(parse_prefix, _STRING_OR_NULL)),
        _rule("remote_group_id", t.Nullable(t.Text())),
        _rule("remote_address_group_id", t.UUID_OR_NONE),
        Attribute("normalized_cidr", t.Nullable(t.Text(64)), filter=True, sort=True),
        Attribute("belongs_to_default_sg", t.Bool(), filter=True),
        *standard(description=t.Nullable(t.Text())),
    ),
)
