"""The service plugin `metering`: labels that count the traffic of routers, and their rules."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.metering import METERING_LABEL, METERING_LABEL_RULE
from neutrino.server.metering.labels import MeteringLabelRules, MeteringLabels
from neutrino.server.services import ResourcePlugin, Services

EXTENSIONS = (
    Extension("metering", "Neutron Metering", "Labels that count the traffic of routers."),
    Extension(
        "metering_source_and_destination_fields",
        "Neutron Metering with source and destination filtering",
        "Metering label rules have a source and a destination prefix.",
    ),
)


def build(services: Services) -> ResourcePlugin:
    db = services.db
    return ResourcePlugin(
        EXTENSIONS, ((METERING_LABEL, MeteringLabels(db)), (METERING_LABEL_RULE, MeteringLabelRules(db)))
    )
