"""Attributes and types that several resources share."""

from neutrino.server.api.definition import REQUIRED, Attribute, creatable, writable
from neutrino.server.api.types import (
    NAME,
    Anything,
    Bool,
    Cidr,
    IpAddress,
    Key,
    ListOf,
    Nullable,
    OneOf,
    Record,
    Text,
    Type,
    Uuid,
)

ID = Attribute("id", Uuid(), filter=True, sort=True)
NAME_ATTRIBUTE = writable("name", NAME, default="", searchable=True)
PROJECT = creatable("project_id", Text(255), searchable=True)
ADMIN_STATE_UP = writable("admin_state_up", Bool(), default=True, searchable=True)
STATUSES = OneOf(("ACTIVE", "BUILD", "DOWN", "ERROR", "N/A"))
STATUS = Attribute("status", Text(16), filter=True, filter_as=STATUSES, sort=True)
IP_VERSION = creatable("ip_version", OneOf((4, 6)), default=REQUIRED, searchable=True)


def shared(*, put: bool) -> Attribute:
    return Attribute("shared", Bool(), post=True, put=put, default=False, filter=True, sort=True, guarded=True)


def description(type_: Type = NAME, default: str | None = "") -> Attribute:
    return writable("description", type_, default=default, searchable=True)


TIMESTAMPS = (
    Attribute("created_at", Text(20), sort=True),
    Attribute("updated_at", Text(20), sort=True),
)
REVISION = (Attribute("revision_number", Anything(), filter=True, sort=True),)
TAGS = (Attribute("tags", ListOf(Text(255))),)
STANDARD_BUT_TAGS = (description(), *TIMESTAMPS, *REVISION)
STANDARD = (*STANDARD_BUT_TAGS, *TAGS)
STANDARD_BUT_DESCRIPTION = (*TIMESTAMPS, *REVISION, *TAGS)

# Protocol numbers by the names that the API takes.
PROTOCOLS = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "hopopt": 0, "icmp": 1, "igmp": 2, "ip": 0, "ipip": 4,
    "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60,
    "ipv6-route": 43, "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112,
}  # fmt: skip
ROUTE = Record({"destination": Key(Cidr()), "nexthop": Key(IpAddress())})
MAX_TAGS = 50
MAX_ZONE_HINTS = 32
MAX_FIXED_IPS = 100
TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
UUID_OR_NONE = Nullable(Uuid())
