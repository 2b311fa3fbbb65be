"""Mechanism driver for Open vSwitch: binds ports that the L2 agent of their host wires."""

from typing import Any

from oslo_config import cfg

from neutrino.model.agents import OVS
from neutrino.server.ml2.driver_api import VIF_OVS, VIF_VHOSTUSER, Bound, PortToBind, Segment
from neutrino.server.ml2.mechanism_drivers.agent_binding import (
    Agent,
    first_segment,
    reaches_physical_network,
    usable_agents,
)

VNIC_TYPES = ("normal", "direct", "smart-nic", "vdpa")
VHOSTUSER_CLIENT, VHOSTUSER_SERVER = "dpdkvhostuser", "dpdkvhostuserclient"


class OpenVSwitch:
    name = "openvswitch"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass

    def bind_port(self, port: PortToBind) -> Bound | None:
        if port.vnic_type not in VNIC_TYPES:
            return None
        if port.vnic_type == "direct" and "switchdev" not in port.profile.get("capabilities", ()):
            return None  # a plain SR-IOV port: for the driver sriovnicswitch
        for agent in usable_agents(port, OVS):
            segment = first_segment(port, agent, _can_wire)
            if segment is not None:
                return Bound(segment, *_vif(port, agent["configurations"]))
        return None


def _can_wire(segment: Segment, agent: Agent) -> bool:
    configurations = agent["configurations"]
    if segment.network_type == "local":
        return True
    if segment.network_type in ("flat", "vlan"):
        return reaches_physical_network(segment, configurations.get("bridge_mappings"))
    return segment.network_type in configurations.get("tunnel_types", ())


def _vif(port: PortToBind, configurations: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """VIF type and details for Nova: a tap device on the bridge, or a vhost-user socket with the DPDK datapath."""
    datapath = configurations.get("datapath_type", "system")
    details: dict[str, Any] = {
        "port_filter": True,
        "connectivity": "l2",
        "bridge_name": configurations.get("integration_bridge", "br-int"),
        "datapath_type": datapath,
        "ovs_hybrid_plug": bool(configurations.get("ovs_hybrid_plug", False)),
        "bound_drivers": {"0": "openvswitch"},
    }
    interface_types = configurations.get("ovs_capabilities", {}).get("iface_types", ())
    if datapath == "netdev" and (VHOSTUSER_CLIENT in interface_types or VHOSTUSER_SERVER in interface_types):
        directory = configurations.get("vhostuser_socket_dir", "/var/run/openvswitch")
        prefix = "vhu"
        mode = "server" if VHOSTUSER_SERVER in interface_types else "client"
        details |= {
            "ovs_hybrid_plug": False,
            "vhostuser_ovs_plug": True,
            "vhostuser_mode": mode,
            "vhostuser_socket": f"{directory}/{(prefix + port.port['id'])[:14]}",
        }
        return VIF_VHOSTUSER, details
    return VIF_OVS, details
