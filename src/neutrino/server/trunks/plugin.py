"""The service plugin `trunk`: trunks with VLAN subports."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.trunk import TRUNK
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.trunks.trunks import Trunks

EXTENSIONS = (
    Extension("trunk", "Trunk Extension", "Ports that carry the traffic of further ports with VLAN tags."),
    Extension("trunk-details", "Trunk port details", "A trunk's parent port shows its subports."),
)


def build(services: Services) -> ResourcePlugin:
    core = services.core
    trunks = Trunks(services.db, services.quotas, core.operations, core.ports, core.cascade, services.allows)
    return ResourcePlugin(EXTENSIONS, ((TRUNK, trunks),))
