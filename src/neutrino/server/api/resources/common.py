"""Attributes and types that several resources share."""

from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, creatable, writable

MAX_TAGS = 50
MAX_ZONE_HINTS = 32

_TEXT = t.Text()
# --- types ------------------------------------------------------------------------------------------------------------

ROUTE = t.Record({"destination": t.Cidr(), "nexthop": t.IpAddress()})
STATUSES = t.OneOf(("ACTIVE", "BUILD", "DOWN", "ERROR", "N/A"))
# Protocol numbers by the names that the API takes.
PROTOCOLS = {
    "ah": 51, "dccp": 33, "egp": 8, "esp": 50, "gre": 47, "hopopt": 0, "icmp": 1, "igmp": 2, "ip": 0, "ipip": 4,
    "ipv6-encap": 41, "ipv6-frag": 44, "ipv6-icmp": 58, "icmpv6": 58, "ipv6-nonxt": 59, "ipv6-opts": 60,
    "ipv6-route": 43, "ospf": 89, "pgm": 113, "rsvp": 46, "sctp": 132, "tcp": 6, "udp": 17, "udplite": 136, "vrrp": 112,
}  # fmt: skip


def protocol_number(protocol: str) -> int:
    """The number of a valid protocol, which is a name or a number."""
    return PROTOCOLS[protocol] if protocol in PROTOCOLS else int(protocol)


# --- attributes -------------------------------------------------------------------------------------------------------

ID = Attribute("id", t.Uuid(), filter=True, sort=True)
NAME = writable("name", t.Name(), default="", searchable=True, filter_as=t.Text())
PROJECT = creatable("project_id", t.Text(), searchable=True)
# A child resource accepts a project and ignores it: its project is that of the parent.
CHILD_IDENTITY = (ID, creatable("project_id", t.Text(), visible=False))
IDENTITY = (ID, NAME, PROJECT)
ADMIN_STATE_UP = writable("admin_state_up", t.Bool(), default=True, searchable=True)
STATUS = Attribute("status", t.Text(16), filter=True, filter_as=STATUSES, sort=True)
IP_VERSION = creatable("ip_version", t.OneOf((4, 6)), default=REQUIRED, searchable=True)
TAGS = Attribute("tags", t.ListOf(t.Text()))


def shared(*, put: bool) -> Attribute:
    return Attribute("shared", t.Bool(), post=True, put=put, default=False, filter=True, sort=True, guarded=True)


def zone_hints(*, sort: bool = False) -> Attribute:
    """The availability zones that a network or router should be served in; the scheduler follows them."""
    return creatable("availability_zone_hints", t.ListOf(t.Text(), max_items=MAX_ZONE_HINTS), default=[], sort=sort)


def standard(*, description: t.Type[object] = _TEXT, tags: Attribute | None = TAGS) -> tuple[Attribute, ...]:
    """Neutron's standard attributes, which nearly every resource has."""
    return (
        writable("description", description, default="", searchable=True),
        Attribute("created_at", t.Text(20), sort=True),
        Attribute("updated_at", t.Text(20), sort=True),
        Attribute("revision_number", t.Anything(), filter=True, filter_as=t.Integer(), sort=True),
        *((tags,) if tags else ()),
    )
