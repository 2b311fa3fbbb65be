"""Segments of networks, and the ranges from which segmentation ids of new networks are chosen."""

from typing import Final

from neutrino.features.segments.errors import NetworkSegmentRangeNotFound
from neutrino.server import errors
from neutrino.server.api import types as t
from neutrino.server.api.definition import REQUIRED, Attribute, Resource, creatable, writable
from neutrino.server.api.resources.common import ID, NAME, TAGS, standard

# Types of networks with numbered segments.
RANGED_TYPES: Final = ("vlan", "vxlan", "gre", "geneve")

SEGMENT = Resource(
    name="segment",
    not_found=errors.SegmentNotFound,
    attributes=(
        ID,
        # Accepted and ignored: a segment belongs to its network.
        creatable("project_id", t.Text(), visible=False),
        creatable("network_id", t.Uuid(), default=REQUIRED, searchable=True),
        creatable("physical_network", t.Text(64), searchable=True, shown_null=True),
        creatable("network_type", t.Text(32), default=REQUIRED, searchable=True),
        creatable("segmentation_id", t.Integer(), sort=True, shown_null=True),
        writable("name", t.Nullable(t.Name()), searchable=True, filter_as=t.Nullable(t.Text())),
        *standard(description=t.Nullable(t.Text()), tags=None),
    ),
)

_NUMBER = t.Integer(1, t.DB_INTEGER_MAX)
NETWORK_SEGMENT_RANGE = Resource(
    name="network_segment_range",
    tagged=True,
    not_found=NetworkSegmentRangeNotFound,
    attributes=(
        ID,
        NAME,
        Attribute("default", t.Bool()),
        creatable("shared", t.Bool(), default=True),
        creatable("project_id", t.Text(), searchable=True, shown_null=True),
        creatable("network_type", t.OneOf(RANGED_TYPES), filter=True),
        creatable("physical_network", t.Text(64), filter=True, shown_null=True),
        writable("minimum", _NUMBER, default=REQUIRED),
        writable("maximum", _NUMBER, default=REQUIRED),
        Attribute("used", t.AnyObject()),
        Attribute("available", t.ListOf(t.Integer())),
        *standard(tags=TAGS),
    ),
)
