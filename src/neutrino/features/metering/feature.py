"""Metering: labels that count the traffic of routers, their rules, and notifications of what hosts have counted."""

from neutrino.features.metering import takeover
from neutrino.features.metering.feed import FEED
from neutrino.features.metering.labels import LABELS, RULES, MeteringLabelRules, MeteringLabels
from neutrino.features.metering.resources import METERING_LABEL, METERING_LABEL_RULE
from neutrino.features.metering.traffic import TrafficReports
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, HostReports
from neutrino.server.policy.rules import ADMIN, READER, any_of
from neutrino.server.services import ResourcePlugin, Services


def build(services: Services) -> ResourcePlugin:
    labels, rules = MeteringLabels(services.db, LABELS), MeteringLabelRules(services.db, RULES)
    return ResourcePlugin(collections=((METERING_LABEL, labels), (METERING_LABEL_RULE, rules)))


def host_reports(services: Services) -> HostReports:
    return HostReports(traffic=TrafficReports(services.db, services.publish).take)


FEATURES = (
    Feature(
        name="metering",
        neutron_plugin="neutron.services.metering.metering_plugin.MeteringPlugin",
        requires=("router",),
        extensions=(
            Extension("metering", "Neutron Metering", "Labels that count the traffic of routers."),
            Extension(
                "metering_source_and_destination_fields",
                "Neutron Metering with source and destination filtering",
                "Metering label rules have a source and a destination prefix.",
            ),
        ),
        takeover=takeover.FAMILIES,
        build=build,
        policy={
            "create_metering_label": ADMIN,
            # A shared label counts the traffic of all routers, so all projects see it.
            "get_metering_label": any_of(ADMIN, READER, "role:reader and field:metering_labels:shared=True"),
            "delete_metering_label": ADMIN,
            "create_metering_label_rule": ADMIN,
            "get_metering_label_rule": ADMIN,
            "delete_metering_label_rule": ADMIN,
        },
        feed=FEED,
        host_reports=host_reports,
    ),
)
