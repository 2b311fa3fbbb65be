"""Tap as a service: the features `taas`, with tap services and flows, and `tapmirror`, with tap mirrors."""

from neutrino.features.taas import mirrors, takeover, taps
from neutrino.features.taas.feed import FEED
from neutrino.features.taas.mirrors import MIRRORS, TapMirrors
from neutrino.features.taas.resources import TAP_FLOW, TAP_MIRROR, TAP_SERVICE
from neutrino.features.taas.status import FLOWS, SERVICES, TapStatus
from neutrino.features.taas.tables import tap_flows, tap_mirrors, tap_services
from neutrino.features.taas.taps import TapFlows, TapServices
from neutrino.server.api.definition import Extension
from neutrino.server.features import Feature, HostReports
from neutrino.server.ml2.ports.uses import PortUse
from neutrino.server.policy.rules import ADMIN_OR_MEMBER, ADMIN_OR_READER, crud
from neutrino.server.services import ResourcePlugin, Services


def build_taps(services: Services) -> ResourcePlugin:
    db, quotas = services.db, services.quotas
    return ResourcePlugin(
        collections=((TAP_SERVICE, TapServices(db, SERVICES, quotas)), (TAP_FLOW, TapFlows(db, FLOWS, quotas))),
    )


def build_mirrors(services: Services) -> ResourcePlugin:
    return ResourcePlugin(collections=((TAP_MIRROR, TapMirrors(services.db, MIRRORS, services.quotas)),))


def host_reports(services: Services) -> HostReports:
    return HostReports(statuses=dict.fromkeys(("tap_service", "tap_flow"), TapStatus(services.db).take))


FEATURES = (
    Feature(
        name="taas",
        neutron_plugin="neutron_taas.services.taas.taas_plugin.TaasPlugin",
        extensions=(
            Extension("taas", "Neutron Tap as a Service", "Copies of a port's packets to another port."),
            Extension(
                "taas-vlan-filter", "VLAN filtering for Neutron Tap as a Service", "Copies of chosen VLANs alone."
            ),
        ),
        takeover=takeover.FAMILIES,
        build=build_taps,
        policy={
            **crud("tap_service", ADMIN_OR_MEMBER, ADMIN_OR_MEMBER),
            **crud("tap_flow", ADMIN_OR_MEMBER, ADMIN_OR_MEMBER),
        },
        deprecated_policy={
            "rule:admin_or_owner": """
                create_tap_service get_tap_service update_tap_service delete_tap_service
                create_tap_flow get_tap_flow update_tap_flow delete_tap_flow
            """,
        },
        quotas={"tap_service": -1, "tap_flow": -1},
        ports=(PortUse(columns=(tap_services.c.port_id, tap_flows.c.source_port), changes=taps.port_changes),),
        feed=FEED,
        host_reports=host_reports,
    ),
    Feature(
        name="tapmirror",
        neutron_plugin="neutron_taas.services.taas.tap_mirror_plugin.TapMirrorPlugin",
        extensions=(
            Extension(
                "tap-mirror", "Tap as a Service GRE or ERSPAN mirror", "Copies of a port's packets to a collector."
            ),
            Extension(
                "tap-mirror-both-direction",
                "Tap as a Service mirror with BOTH direction support",
                "A mirror with the same tunnel id for packets in both directions.",
            ),
        ),
        build=build_mirrors,
        policy=crud("tap_mirror", ADMIN_OR_MEMBER, ADMIN_OR_READER),
        quotas={"tap_mirror": -1},
        ports=(PortUse(columns=(tap_mirrors.c.port_id,), changes=mirrors.port_changes),),
    ),
)
