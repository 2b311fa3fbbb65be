"""Metering labels and their rules, below `/v2.0/metering/`."""

from neutrino.model.addresses import parse_interface
from neutrino.server.api import types
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable
from neutrino.server.api.resources.common import ID, PROJECT
from neutrino.server.errors import NotFound

DIRECTIONS = ("ingress", "egress")
PREFIXES = ("remote_ip_prefix", "source_ip_prefix", "destination_ip_prefix")
MAX_PREFIX = 64  # characters
_VERBS = frozenset({"index", "show", "create", "delete"})  # as in Neutron, neither can be changed


class MeteringLabelNotFound(NotFound):
    template = "Metering label '{id}' does not exist."


class MeteringLabelRuleNotFound(NotFound):
    template = "Metering label rule '{id}' does not exist."


def parse_prefix(value: object) -> str | None:
    """A prefix, which may have host bits; an address is a prefix of its full length."""
    if value is None:
        return None
    try:
        if not isinstance(value, str) or len(value) > MAX_PREFIX:
            raise ValueError
        return parse_interface(value).with_prefixlen
    except ValueError:
        raise types.Invalid(f"'{value}' is neither a valid IP address, nor is it a valid IP subnet") from None


_PREFIX = types.Parsed(parse_prefix, {"anyOf": [{"type": "string", "maxLength": MAX_PREFIX}, {"type": "null"}]})

METERING_LABEL = Resource(
    name="metering_label",
    path="metering/metering-labels",
    verbs=_VERBS,
    not_found=MeteringLabelNotFound,
    attributes=(
        ID,
        creatable("name", types.Name(), default="", searchable=True, filter_as=types.Text()),
        creatable("description", types.Text(1024), default="", searchable=True),
        PROJECT,
        creatable("shared", types.Bool(), default=False, searchable=True),
    ),
)

METERING_LABEL_RULE = Resource(
    name="metering_label_rule",
    path="metering/metering-label-rules",
    verbs=_VERBS,
    not_found=MeteringLabelRuleNotFound,
    attributes=(
        ID,
        # Accepted and ignored: a rule belongs to the project of its label.
        Attribute("project_id", types.Text(), post=True, visible=False),
        creatable("metering_label_id", types.Uuid(), default=REQUIRED, searchable=True),
        creatable("direction", types.OneOf(DIRECTIONS), default=REQUIRED, searchable=True),
        creatable("excluded", types.Bool(), default=False, searchable=True),
        *(creatable(name, _PREFIX, default=None, searchable=True) for name in PREFIXES),
    ),
)
