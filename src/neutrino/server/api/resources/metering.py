"""Metering labels and their rules, below `/v2.0/metering/`."""

from typing import Any

from neutrino.model.addresses import parse_interface
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable
from neutrino.server.api.resources.common import ID, PROJECT

DIRECTIONS = ("ingress", "egress")
PREFIXES = ("remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix")
MAX_PREFIX = 64  # characters
_VERBS = frozenset({"index", "show", "create", "delete"})  # as in Neutron, neither can be changed


def parse_prefix(value: Any) -> str | None:
    """A prefix, which may have host bits; an address is a prefix of its full length."""
    if value is None:
        return None
    try:
        if not isinstance(value, str) or len(value) > MAX_PREFIX:
            raise ValueError
        return parse_interface(value).with_prefixlen
    except ValueError:
        raise t.Invalid(f"'{value}' is neither a valid IP address, nor is it a valid IP subnet") from None


_PREFIX = t.Parsed(parse_prefix, {"anyOf": [{"type": "string", "maxLength": MAX_PREFIX}, {"type": "null"}]})

METERING_LABEL = Resource(
    name="metering_label",
    path="metering/metering-labels",
    verbs=_VERBS,
    not_found=errors.MeteringLabelNotFound,
    attributes=(
        ID,
        creatable("name", t.Name(), default="", searchable=True, filter_as=t.Text()),
        creatable("description", t.Text(1024), default="", searchable=True),
        PROJECT,
        creatable("shared", t.Bool(), default=False, searchable=True),
    ),
)

METERING_LABEL_RULE = Resource(
    name="metering_label_rule",
    path="metering/metering-label-rules",
    verbs=_VERBS,
    not_found=errors.MeteringLabelRuleNotFound,
    attributes=(
        ID,
        # Accepted and ignored: a rule belongs to the project of its label.
        Attribute("project_id", t.Text(), post=True, visible=False),
        creatable("metering_label_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("direction", t.OneOf(DIRECTIONS), default=REQUIRED, searchable=True),
        creatable("excluded", t.Bool(), default=False, searchable=True),
        *(creatable(name, _PREFIX, default=None, searchable=True) for name in PREFIXES),
    ),
)
