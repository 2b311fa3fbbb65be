"""Logs of security groups: which accepted connections and dropped packets hosts write to their network logs."""

from typing import Final

from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import IDENTITY, standard

ACCEPT, DROP, ALL = "ACCEPT", "DROP", "ALL"
SECURITY_GROUP: Final = "security_group"  # the only type of resource whose packets hosts log

LOG = Resource(
    name="log",
    path="log/logs",
    not_found=errors.LogResourceNotFound,
    hidden=errors.HTTPNotFound,
    attributes=(
        *IDENTITY,
        creatable("resource_type", t.Text(255), default=REQUIRED, searchable=True),
        creatable("resource_id", t.UUID_OR_NONE, default=None, searchable=True),
        creatable("target_id", t.UUID_OR_NONE, default=None, searchable=True),
        creatable("event", t.OneOf((ACCEPT, DROP, ALL)), default=ALL, filter=True),
        writable("enabled", t.Bool(), default=True, searchable=True),
        *standard(tags=None),
    ),
)

LOGGABLE_RESOURCE = Resource(
    name="loggable_resource",
    path="log/loggable-resources",
    key="type",
    verbs=frozenset({"index"}),
    attributes=(Attribute("type", t.Text()),),
)
