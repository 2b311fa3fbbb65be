"""The service plugins `taas`, with tap services and flows, and `tapmirror`, with tap mirrors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neutrino.server.api.definition import Extension
from neutrino.server.api.resources.taas import TAP_FLOW, TAP_MIRROR, TAP_SERVICE
from neutrino.server.services import Services
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


@dataclass(frozen=True)
class TapPlugin:
    collections: Sequence[tuple[Any, ...]]
    extensions: Sequence[Extension]


def build(services: Services) -> TapPlugin:
    db, quotas = services.db, services.quotas
    services.core.ports.transaction_hooks.append(taps.port_changes)
    services.core.ports.delete_reads.append(taps.TAPPED)
    return TapPlugin(((TAP_SERVICE, TapServices(db, quotas)), (TAP_FLOW, TapFlows(db, quotas))), TAPS)


def build_mirrors(services: Services) -> TapPlugin:
    services.core.ports.transaction_hooks.append(mirrors.port_changes)
    services.core.ports.delete_reads.append(mirrors.MIRRORED)
    return TapPlugin(((TAP_MIRROR, TapMirrors(services.db, services.quotas)),), MIRRORS)
