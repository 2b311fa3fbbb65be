"""The service plugins `taas`, with tap services and flows, and `tapmirror`, with tap mirrors."""

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.taas import TAP_FLOW, TAP_MIRROR, TAP_SERVICE
from neutrino.server.db import tables as t
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.services import ResourcePlugin, Services
from neutrino.server.taas import mirrors, taps
from neutrino.server.taas.mirrors import TapMirrors
from neutrino.server.taas.taps import TapFlows, TapServices

TAPS = (
    Extension("taas", "Neutron Tap as a Service", "Copies of a port's packets to another port."),
    Extension("taas-vlan-filter", "VLAN filtering for Neutron Tap as a Service", "Copies of chosen VLANs alone."),
)
MIRRORS = (
    Extension("tap-mirror", "Tap as a Service GRE or ERSPAN mirror", "Copies of a port's packets to a collector."),
    Extension(
        "tap-mirror-both-direction",
        "Tap as a Service mirror with BOTH direction support",
        "A mirror with the same tunnel id for packets in both directions.",
    ),
)


def build(services: Services) -> ResourcePlugin:
    db, quotas = services.db, services.quotas
    columns = (t.tap_services.c.port_id, t.tap_flows.c.source_port)
    services.core.ports.uses.append(PortUse(columns, changes=taps.port_changes))
    return ResourcePlugin(TAPS, ((TAP_SERVICE, TapServices(db, quotas)), (TAP_FLOW, TapFlows(db, quotas))))


def build_mirrors(services: Services) -> ResourcePlugin:
    services.core.ports.uses.append(PortUse((t.tap_mirrors.c.port_id,), changes=mirrors.port_changes))
    return ResourcePlugin(MIRRORS, ((TAP_MIRROR, TapMirrors(services.db, services.quotas)),))
