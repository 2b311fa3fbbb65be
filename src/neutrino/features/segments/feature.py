"""Segments of networks, and ranges of segmentation ids that operators add: two plugins, as in Neutron."""

from neutrino.features.segments import takeover
from neutrino.features.segments.placement import start_reports
from neutrino.features.segments.ranges import SegmentRanges
from neutrino.features.segments.resources import NETWORK_SEGMENT_RANGE, SEGMENT
from neutrino.features.segments.segments import SegmentCollection
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature
from neutrino.server.policy.deprecated import tag_rules
from neutrino.server.policy.rules import ADMIN, crud, tags
from neutrino.server.services import ResourcePlugin, Services


def build(services: Services) -> ResourcePlugin:
    core = services.core
    segments = SegmentCollection(services.db, core.operations, core.networks, core.networks.segments)
    return ResourcePlugin(collections=((SEGMENT, segments),))


def build_ranges(services: Services) -> ResourcePlugin:
    ranges = SegmentRanges(services.db, services.core.networks.segments.drivers)
    return ResourcePlugin(collections=((NETWORK_SEGMENT_RANGE, ranges),), begin=ranges.store_configured)


FEATURES = (
    Feature(
        name="segments",
        neutron_plugin="neutron.services.segments.plugin.Plugin",
        extensions=(
            Extension("segment", "Segment", "Segments of networks as objects, and subnets of segments."),
            Extension(
                "standard-attr-segment", "Standard Attribute Segment Extension", "Segments have times and revisions."
            ),
            Extension(
                "segments-peer-subnet-host-routes",
                "Segments peer-subnet host routes",
                "Subnets of a routed network have host routes to the subnets of its other segments.",
            ),
            Extension(
                "subnet-segmentid-writable", "Subnet SegmentID (writable)", "The segment of a subnet can be set later."
            ),
            Extension(
                "subnet-segmentid-enforce",
                "Subnet SegmentID (policy enforced)",
                "A policy rule guards the segment of a subnet.",
            ),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy=crud("segment", ADMIN, ADMIN),
        start=start_reports,
    ),
    Feature(
        name="network_segment_range",
        neutron_plugin="neutron.services.network_segment_range.plugin.NetworkSegmentRangePlugin",
        extensions=(
            Extension(
                "network-segment-range", "Neutron Network Segment Range", "Ranges of segmentation ids at run time."
            ),
        ),
        build=build_ranges,
        adds_segment_ranges=True,
        policy=crud("network_segment_range", ADMIN, ADMIN) | tags("network_segment_range", ADMIN, ADMIN),
        earlier_policy_names=tag_rules("network_segment_range", "network_segment_ranges"),
    ),
)
