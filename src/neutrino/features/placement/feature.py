"""Guaranteed bandwidths and packet rates: what hosts report is in Placement, where Nova allocates it for instances."""

from oslo_config import cfg

from neutrino.features.placement.facts import NOT_IN_PLACEMENT, add_facts
from neutrino.features.placement.reporter import start
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature
from neutrino.server.placement import REPORTS, SECTION, guarantees
from neutrino.server.services import ResourcePlugin, Services

_EXTENSIONS = (
    Extension("port-resource-request", "Port Resource Request", "What a port's minimum rates need of Placement."),
    Extension(
        "port-resource-request-groups", "Port Resource Request Groups", "One group for bandwidth and one for packets."
    ),
)


def build(services: Services) -> ResourcePlugin:
    """Without Placement, Nova must not wait for allocations that nobody can make."""
    return ResourcePlugin(extensions=_EXTENSIONS if guarantees(services.conf) else ())


FEATURES = (
    Feature(
        name=REPORTS,
        neutron_plugin="neutron.services.placement_report.plugin.PlacementReportPlugin",
        extensions=(
            Extension(
                "agent-resources-synced",
                "Agent's Resource View Synced to Placement",
                "Whether Placement has what an agent guarantees.",
            ),
        ),
        build=build,
        options={
            SECTION: [  # keystoneauth registers its own options in this group
                cfg.StrOpt("region_name", help="The region of Placement's endpoint."),
                cfg.StrOpt(
                    "endpoint_type",
                    default="public",
                    choices=["public", "internal", "admin"],
                    help="Which of Placement's endpoints in the catalogue to use.",
                ),
            ]
        },
        start=start,
        facts=add_facts,
        problems=(NOT_IN_PLACEMENT,),
    ),
)
