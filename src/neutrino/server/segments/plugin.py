"""The service plugins `segments` and `network_segment_range`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.segment import NETWORK_SEGMENT_RANGE, SEGMENT
from neutrino.server.segments.collection import VIEW, SegmentCollection
from neutrino.server.segments.ranges import SegmentRanges
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.view_collection import RowUpdates

_EXTENSIONS = (
    ("segment", "Segment", "Segments of networks as objects, and subnets of segments."),
    ("standard-attr-segment", "Standard Attribute Segment Extension", "Segments have times and revisions."),
    (
        "segments-peer-subnet-host-routes",
        "Segments peer-subnet host routes",
        "Subnets of a routed network have host routes to the subnets of its other segments.",
    ),
    ("subnet-segmentid-writable", "Subnet SegmentID (writable)", "The segment of a subnet can be set later."),
    ("subnet-segmentid-enforce", "Subnet SegmentID (policy enforced)", "A policy rule guards the segment of a subnet."),
)
EXTENSIONS = tuple(Extension(*words) for words in _EXTENSIONS)
_RANGE = ("network-segment-range", "Neutron Network Segment Range", "Ranges of segmentation ids at run time.")


@dataclass(frozen=True)
class RangesPlugin:
    collections: Sequence[tuple[Any, ...]]
    begin: Callable[[], None]  # called by each process of a server when it starts
    extensions: Sequence[Extension] = (Extension(*_RANGE),)


def build(services: Services) -> ResourcePlugin:
    core = services.core
    collection = SegmentCollection(services.db, core.operations, core.networks, core.networks.segments)
    return ResourcePlugin(EXTENSIONS, ((SEGMENT, collection, RowUpdates(services.db, VIEW)),))


def build_ranges(services: Services) -> RangesPlugin:
    ranges = SegmentRanges(services.db, services.core.networks.segments.drivers)
    return RangesPlugin(((NETWORK_SEGMENT_RANGE, ranges),), ranges.store_configured)
