"""A physical network's bridge: local VLANs to the segments of the world outside.

What comes over the patch from the integration bridge carries a local VLAN, which means nothing outside: VLAN_TRANSLATION
puts the segment's tag in its place, or takes it off on a flat network, and drops what has no translation. What comes from
outside is left to NORMAL, and translated on the integration bridge.
"""

from __future__ import annotations

from neutrino.agent.l2 import pipeline
from neutrino.agent.l2.desired import LocalNetwork, Uplink
from neutrino.agent.l2.flows.integration import tag
from neutrino.agent.l2.pipeline import Bridge
from neutrino.dataplane.openflow.api import Flow


def render_base(uplink: Uplink) -> tuple[Flow, ...]:
    from_integration = f"in_port={uplink.physical_ofport}"
    return (
        *pipeline.miss_flows(Bridge.PHYSICAL),
        pipeline.PHYSICAL_ENTRY.flow(2, from_integration, then=pipeline.VLAN_TRANSLATION),
    )


def render_provisioning(network: LocalNetwork, uplink: Uplink) -> tuple[Flow, ...]:
    actions = tag(network.key.segmentation_id) if network.key.network_type == "vlan" else "pop_vlan"
    match = f"in_port={uplink.physical_ofport},dl_vlan={network.vlan}"
    return (pipeline.VLAN_TRANSLATION.flow(4, match, actions, "NORMAL"),)
