"""Security groups and their rules."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any

from neutrino.server import errors
from neutrino.server.api.definition import REQUIRED, Attribute, Resource
from neutrino.server.api.resources.common import (
    ID,
    PROJECT,
    STANDARD,
    STANDARD_BUT_DESCRIPTION,
    TAG_FILTERS,
    UUID_OR_NONE,
    description,
)
from neutrino.server.api.types import Anything, Bool, ListOf, Nullable, OneOf, Parsed, Text

PROTOCOLS = {
    "ah": 51,
    "dccp": 33,
    "egp": 8,
    "esp": 50,
    "gre": 47,
    "hopopt": 0,
    "icmp": 1,
    "igmp": 2,
    "ip": 0,
    "ipip": 4,
    "ipv6-encap": 41,
    "ipv6-frag": 44,
    "ipv6-icmp": 58,
    "icmpv6": 58,
    "ipv6-nonxt": 59,
    "ipv6-opts": 60,
    "ipv6-route": 43,
    "ospf": 89,
    "pgm": 113,
    "rsvp": 46,
    "sctp": 132,
    "tcp": 6,
    "udp": 17,
    "udplite": 136,
    "vrrp": 112,
}


def parse_name(value: Any) -> str:
    name = Text(255).parse(value)
    if name.lower() == "default":
        raise errors.SecurityGroupDefaultAlreadyExists()
    return name


def parse_protocol(value: Any) -> str | None:
    """A protocol by name or number, as written but for the case; `any` means all of them."""
    if value is None or (isinstance(value, str) and value.lower() == "any"):
        return None
    try:
        if isinstance(value, bool | float):
            raise ValueError
        number = int(value)
        if 0 <= number <= 255:
            return str(number)
    except (ValueError, TypeError):
        if isinstance(value, str) and value.lower() in PROTOCOLS:
            return value.lower()
    raise errors.SecurityGroupRuleInvalidProtocol(protocol=value, values=sorted(PROTOCOLS))


def parse_ethertype(value: Any) -> str:
    for known in ("IPv4", "IPv6"):
        if isinstance(value, str) and value.lower() == known.lower():
            return known
    raise errors.SecurityGroupRuleInvalidEtherType(ethertype=value, values=["IPv4", "IPv6"])


def parse_port(value: Any) -> int | None:
    if value is None:
        return None
    try:
        if isinstance(value, bool | float):
            raise ValueError
        number = int(value)
    except (ValueError, TypeError):
        raise errors.SecurityGroupInvalidPortValue(port=value) from None
    if not 0 <= number <= 65535:
        raise errors.SecurityGroupInvalidPortValue(port=value)
    return number


def parse_prefix(value: Any) -> str | None:
    """A CIDR with the host bits as written; a bare address is its own /32 or /128, a netmask becomes its length."""
    if not value and not isinstance(value, int | bool | float):
        return None
    try:
        if not isinstance(value, str) or "%" in value:  # a zone means nothing beyond the host it was written on
            raise ValueError
        return str(ipaddress.ip_interface(value))
    except ValueError:
        raise errors.InvalidCIDR(input=value) from None


_PORT_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0, "maximum": 65535}, {"type": "null"}]}
_STRING_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def _rule(
    name: str, type_: Any, default: Any = None, extension: str = "security-group", words: Iterable[str] = ()
) -> Attribute:
    filter_as = OneOf(tuple(words)) if words else None
    return Attribute(
        name, type_, post=True, default=default, filter=True, filter_as=filter_as, sort=True, extension=extension
    )


SECURITY_GROUP = Resource(
    name="security_group",
    collection="security_groups",
    quota=True,
    tagged=True,
    not_found=errors.SecurityGroupNotFound,
    extension="security-group",
    extra_filters=TAG_FILTERS,
    attributes=(
        ID,
        Attribute(
            "name",
            Parsed(parse_name, {"type": "string", "maxLength": 255}),
            post=True,
            put=True,
            default="",
            filter=True,
            sort=True,
        ),
        PROJECT,
        Attribute("security_group_rules", ListOf(Anything())),
        Attribute(
            "stateful", Bool(), post=True, put=True, default=True, filter=True, extension="stateful-security-group"
        ),
        Attribute("shared", Bool(), filter=True, extension="security-groups-shared-filtering"),
        *STANDARD,
    ),
)

SECURITY_GROUP_RULE = Resource(
    name="security_group_rule",
    collection="security_group_rules",
    quota=True,
    not_found=errors.SecurityGroupRuleNotFound,
    hidden=errors.HTTPNotFound,
    belongs_to="security_group_id",
    verbs=frozenset({"index", "show", "create", "update", "delete"}),
    extension="security-group",
    attributes=(
        ID,
        PROJECT,
        _rule("security_group_id", Text(36), REQUIRED),
        _rule("direction", OneOf(("ingress", "egress")), REQUIRED),
        _rule("ethertype", Parsed(parse_ethertype, {"enum": ["IPv4", "IPv6"]}), "IPv4", words=("IPv4", "IPv6")),
        _rule(
            "protocol",
            Parsed(parse_protocol, {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}),
            words=PROTOCOLS,
        ),
        _rule("port_range_min", Parsed(parse_port, _PORT_SCHEMA)),
        _rule("port_range_max", Parsed(parse_port, _PORT_SCHEMA)),
        _rule("remote_ip_prefix", Parsed(parse_prefix, _STRING_OR_NULL)),
        _rule("remote_group_id", Nullable(Text(255))),
        _rule("remote_address_group_id", UUID_OR_NONE, extension="security-groups-remote-address-group"),
        Attribute(
            "normalized_cidr",
            Nullable(Text(64)),
            filter=True,
            sort=True,
            extension="security-groups-normalized-cidr",
        ),
        Attribute(
            "belongs_to_default_sg", Bool(), filter=True, extension="security-groups-rules-belongs-to-default-sg"
        ),
        description(Nullable(Text(255))),
        *STANDARD_BUT_DESCRIPTION,
    ),
)
