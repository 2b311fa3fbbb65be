"""Mechanism driver for SR-IOV: binds ports to virtual functions, by the device mappings of the host's NIC agent."""

from typing import Any

from oslo_config import cfg

from neutrino.model.agents import NIC_SWITCH
from neutrino.server.ml2.driver_api import VIF_HW, Bound, PortToBind, Segment
from neutrino.server.ml2.mechanism_drivers.agent_binding import (
    Agent,
    first_segment,
    reaches_physical_network,
    usable_agents,
)

VIF_TYPES = {"direct": VIF_HW, "macvtap": VIF_HW, "direct-physical": "hostdev_physical"}


class SriovNicSwitch:
    name = "sriovnicswitch"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass

    def bind_port(self, port: PortToBind) -> Bound | None:
        vif_type = VIF_TYPES.get(port.vnic_type)
        if vif_type is None or "switchdev" in port.profile.get("capabilities", ()):
            return None
        for agent in usable_agents(port, NIC_SWITCH):
            segment = first_segment(port, agent, _can_wire)
            if segment is not None:
                return Bound(segment, vif_type, _details(segment), agent_wires=vif_type == VIF_HW)
        return None


def _can_wire(segment: Segment, agent: Agent) -> bool:
    return segment.network_type in ("flat", "vlan") and reaches_physical_network(
        segment, agent["configurations"].get("device_mappings")
    )


def _details(segment: Segment) -> dict[str, Any]:
    """The VLAN is in the details, because the NIC tags the traffic of a virtual function."""
    vlan = str(segment.segmentation_id) if segment.network_type == "vlan" else "0"
    return {"port_filter": False, "connectivity": "l2", "vlan": vlan, "bound_drivers": {"0": "sriovnicswitch"}}
