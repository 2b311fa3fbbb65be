"""Attributes that most resources have in the same form."""

from __future__ import annotations

from neutrino.server.api.definition import REQUIRED, Attribute
from neutrino.server.api.types import NAME, Anything, Bool, ListOf, Nullable, OneOf, Text, Type, Uuid

ID = Attribute("id", Uuid(), filter=True, sort=True)
NAME_ATTRIBUTE = Attribute("name", NAME, post=True, put=True, default="", filter=True, sort=True)
PROJECT = Attribute("project_id", Text(255), post=True, filter=True, sort=True, extension="project-id")
ADMIN_STATE_UP = Attribute("admin_state_up", Bool(), post=True, put=True, default=True, filter=True, sort=True)
STATUSES = OneOf(("ACTIVE", "BUILD", "DOWN", "ERROR", "N/A"))
STATUS = Attribute("status", Text(16), filter=True, filter_as=STATUSES, sort=True)
IP_VERSION = Attribute("ip_version", OneOf((4, 6)), post=True, default=REQUIRED, filter=True, sort=True)


def shared(*, put: bool) -> Attribute:
    return Attribute("shared", Bool(), post=True, put=put, default=False, filter=True, sort=True, guarded=True)


def description(type_: Type = NAME, default: str | None = "") -> Attribute:
    return Attribute(
        "description",
        type_,
        post=True,
        put=True,
        default=default,
        filter=True,
        sort=True,
        extension="standard-attr-description",
    )


TIMESTAMPS = (
    Attribute("created_at", Text(20), extension="standard-attr-timestamp", sort=True),
    Attribute("updated_at", Text(20), extension="standard-attr-timestamp", sort=True),
)
REVISION = (Attribute("revision_number", Anything(), filter=True, sort=True, extension="standard-attr-revisions"),)
TAGS = (Attribute("tags", ListOf(Text(255)), extension="standard-attr-tag"),)
STANDARD_BUT_TAGS = (description(), *TIMESTAMPS, *REVISION)
STANDARD = (*STANDARD_BUT_TAGS, *TAGS)
STANDARD_BUT_DESCRIPTION = (*TIMESTAMPS, *REVISION, *TAGS)

MOST_TAGS = 50
MOST_ZONE_HINTS = 32
MOST_DHCP_OPTIONS = 100
MOST_FIXED_IPS = 100
TAG_FILTERS = ("tags", "tags-any", "not-tags", "not-tags-any")
UUID_OR_NONE = Nullable(Uuid())
