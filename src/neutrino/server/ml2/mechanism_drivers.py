"""The included mechanism drivers: Open vSwitch, L2 population and SR-IOV.

Open vSwitch and SR-IOV bind a port if a live agent on its host can wire one of the segments.
"""

import uuid
from collections.abc import Callable, Collection, Mapping

from oslo_config import cfg

from neutrino.model.agents import (
    BRIDGE_MAPPINGS,
    DEVICE_MAPPINGS,
    INTEGRATION_BRIDGE,
    NIC_SWITCH,
    OVS,
    OVS_CAPABILITIES,
)
from neutrino.model.objects import Object
from neutrino.model.qos import ANY, DSCP_MARKS, EGRESS, INGRESS
from neutrino.model.trunks import SUBPORT_OWNER, trunk_bridge
from neutrino.server.api.types import DB_INTEGER_MAX
from neutrino.server.ml2.driver_api import (
    VIF_HOSTDEV_PHYSICAL,
    VIF_HW,
    VIF_OVS,
    VIF_VHOSTUSER,
    Bound,
    PortToBind,
    QosSupport,
    ResourceProviders,
    Segment,
)

OVS_VNIC_TYPES = ("normal", "direct", "smart-nic", "vdpa")
VHOSTUSER_CLIENT, VHOSTUSER_SERVER = "dpdkvhostuser", "dpdkvhostuserclient"
SRIOV_VIF_TYPES = {
    **dict.fromkeys(("direct", "macvtap", "accelerator-direct"), VIF_HW),
    "direct-physical": VIF_HOSTDEV_PHYSICAL,
}
SRIOV_NETWORK_TYPES = ("flat", "vlan")

# Neutron's: a takeover keeps the providers, and what is allocated on them.
_OVS_PROVIDERS = uuid.UUID("87ee7d5c-73bb-11e8-9008-c4d987b2a692")
_NIC_PROVIDERS = uuid.UUID("87f1895c-73bb-11e8-9008-c4d987b2a692")
_AMOUNT, _DIRECTIONS = range(DB_INTEGER_MAX + 1), (INGRESS, EGRESS)


def _first_match(
    port: PortToBind, agent_type: str, can_wire: Callable[[Segment, Object], bool]
) -> tuple[Segment, Object] | None:
    """The first segment that a live agent of this type can wire, with the agent's configurations."""
    for agent in port.agents:
        if agent["agent_type"] == agent_type and agent["alive"] and agent["admin_state_up"]:
            for segment in port.segments:
                if can_wire(segment, agent["configurations"]):
                    return segment, agent["configurations"]
    return None


def _vnic_types(conf: cfg.ConfigOpts, group: str, supported: Collection[str]) -> frozenset[str]:
    """The VNIC types that a driver binds: those that it supports, without the operator's prohibited ones."""
    prohibited = frozenset(conf[group].vnic_type_prohibit_list)
    unknown = sorted(prohibited - set(supported))
    if unknown:
        raise ValueError(f"[{group}] vnic_type_prohibit_list: {unknown[0]!r} is none of {', '.join(supported)}")
    if prohibited == set(supported):
        raise ValueError(f"[{group}] vnic_type_prohibit_list has all types: remove the driver from mechanism_drivers")
    return frozenset(supported) - prohibited


def _reaches_physical_network(segment: Segment, mappings: object) -> bool:
    """Whether the host has a bridge (or devices) on the segment's physical network."""
    return isinstance(mappings, Mapping) and segment.physical_network in mappings


# --- Open vSwitch -----------------------------------------------------------------------------------------------------


class OpenVSwitch:
    name = "openvswitch"
    # Not flat networks: a tag of an instance would be that of a VLAN of the physical network.
    vlan_transparent_types = frozenset({"local", "vlan", "vxlan", "gre", "geneve"})
    qinq_types = frozenset({"vlan"})
    qos = QosSupport(
        frozenset(OVS_VNIC_TYPES),
        frozenset({VIF_OVS, VIF_VHOSTUSER}),
        {
            "bandwidth_limit": {"max_kbps": _AMOUNT, "max_burst_kbps": _AMOUNT, "direction": _DIRECTIONS},
            "packet_rate_limit": {"max_kpps": _AMOUNT, "max_burst_kpps": _AMOUNT, "direction": _DIRECTIONS},
            "dscp_marking": {"dscp_mark": DSCP_MARKS},
            "minimum_bandwidth": {"min_kbps": _AMOUNT, "direction": _DIRECTIONS},
            "minimum_packet_rate": {"min_kpps": _AMOUNT, "direction": (*_DIRECTIONS, ANY)},
        },
    )

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._vnic_types = _vnic_types(conf, "ovs_driver", OVS_VNIC_TYPES)
        self.providers = ResourceProviders(OVS, _OVS_PROVIDERS, self._vnic_types, BRIDGE_MAPPINGS)

    def bind_port(self, port: PortToBind) -> Bound | None:
        if port.vnic_type not in self._vnic_types:
            return None
        if port.vnic_type == "direct" and "switchdev" not in port.profile.get("capabilities", ()):
            return None  # a plain SR-IOV port: for the driver sriovnicswitch
        carries_tags = port.network.get("vlan_transparent") or port.network.get("qinq")
        found = _first_match(port, OVS, _ovs_can_wire_tagged if carries_tags else _ovs_can_wire)
        return None if found is None else Bound(found[0], *_vif(port, found[1]))


def _ovs_can_wire(segment: Segment, configurations: Object) -> bool:
    if segment.network_type == "local":
        return True
    if segment.network_type in ("flat", "vlan"):
        return _reaches_physical_network(segment, configurations.get("bridge_mappings"))
    return segment.network_type in configurations.get("tunnel_types", ())


def _ovs_can_wire_tagged(segment: Segment, configurations: Object) -> bool:
    """Whether a network that carries VLAN tags can be wired.

    Not with the iptables firewall, which does not look into tagged frames.
    """
    return not configurations.get("ovs_hybrid_plug", False) and _ovs_can_wire(segment, configurations)


def _vif(port: PortToBind, configurations: Object) -> tuple[str, Object]:
    """VIF type and details for Nova: a tap device on the bridge, or a vhost-user socket with the DPDK datapath."""
    datapath = configurations.get("datapath_type", "system")
    trunk_id = port.port.get("trunk_id")
    # A subport has no device that a bridge for iptables could be in front of: the switch itself filters it.
    hybrid = bool(configurations.get("ovs_hybrid_plug", False)) and port.port["device_owner"] != SUBPORT_OWNER
    details: Object = {
        "port_filter": True,  # Nova adds no filter of its own
        "connectivity": "l2",
        "bridge_name": trunk_bridge(trunk_id) if trunk_id else configurations.get(INTEGRATION_BRIDGE, "br-int"),
        "datapath_type": datapath,
        "ovs_hybrid_plug": hybrid,
        # os-vif creates the tap device when it plugs the port, and not libvirt when the instance starts: so the port is
        # wired before a live migration moves the instance. os-vif refuses it for a port behind a hybrid bridge.
        "ovs_create_tap": not hybrid,
        "bound_drivers": {"0": "openvswitch"},
    }
    interface_types = configurations.get(OVS_CAPABILITIES, {}).get("iface_types", ())
    if datapath != "netdev" or not {VHOSTUSER_CLIENT, VHOSTUSER_SERVER} & set(interface_types):
        return VIF_OVS, details
    if port.vnic_type == "direct":  # a virtual function: its representor is plugged, and the instance has no socket
        return VIF_OVS, details
    directory = configurations.get("vhostuser_socket_dir", "/var/run/openvswitch")
    return (
        VIF_VHOSTUSER,
        details
        | {
            "port_filter": False,  # as in Neutron; the switch filters these ports like others
            "ovs_hybrid_plug": False,
            "ovs_create_tap": False,
            "vhostuser_ovs_plug": True,
            # The mode of Nova's end: Open vSwitch with the type dpdkvhostuserclient connects to QEMU's socket.
            "vhostuser_mode": "server" if VHOSTUSER_SERVER in interface_types else "client",
            "vhostuser_socket": f"{directory}/{('vhu' + port.port['id'])[:14]}",  # Nova's NIC_NAME_LEN
        },
    )


# --- L2 population ----------------------------------------------------------------------------------------------------


class L2Population:
    """Hosts get forwarding entries for each other's ports instead of flooding.

    The feed derives the entries from the ports and sends them to all hosts of their network, so this driver does nothing.
    It exists because operators have it in `mechanism_drivers`.
    """

    name = "l2population"
    vlan_transparent_types = OpenVSwitch.vlan_transparent_types
    qinq_types = OpenVSwitch.qinq_types

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        pass


# --- SR-IOV -----------------------------------------------------------------------------------------------------------


class SriovNicSwitch:
    """Binds ports to virtual functions, by the device mappings of the host's NIC agent."""

    name = "sriovnicswitch"
    vlan_transparent_types = OpenVSwitch.vlan_transparent_types  # its NICs tag the frames of VFs, tagged ones too
    qos = QosSupport(
        frozenset(SRIOV_VIF_TYPES),
        frozenset(SRIOV_VIF_TYPES.values()),
        {
            "bandwidth_limit": {"max_kbps": _AMOUNT, "max_burst_kbps": _AMOUNT, "direction": (EGRESS,)},
            "minimum_bandwidth": {"min_kbps": _AMOUNT, "direction": _DIRECTIONS},  # ingress: by Placement alone
        },
    )

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._vnic_types = _vnic_types(conf, "sriov_driver", tuple(SRIOV_VIF_TYPES))
        self.providers = ResourceProviders(NIC_SWITCH, _NIC_PROVIDERS, self._vnic_types, DEVICE_MAPPINGS)

    def bind_port(self, port: PortToBind) -> Bound | None:
        if port.vnic_type not in self._vnic_types:
            return None
        if port.vnic_type == "direct" and "switchdev" in port.profile.get("capabilities", ()):
            return None  # Open vSwitch wires it
        vif_type = SRIOV_VIF_TYPES[port.vnic_type]
        if vif_type == VIF_HOSTDEV_PHYSICAL:
            # The instance has the whole card, and no agent sees it: as in Neutron it needs none, and is ACTIVE at once.
            segment = next((each for each in port.segments if each.network_type in SRIOV_NETWORK_TYPES), None)
            return None if segment is None else Bound(segment, vif_type, self._details(segment), is_active=True)
        found = _first_match(port, NIC_SWITCH, _nic_can_wire)
        return None if found is None else Bound(found[0], vif_type, self._details(found[0]))

    def _details(self, segment: Segment) -> Object:
        # libvirt sets the VLAN when it starts the instance, and the agent restores it.
        vlan = str(segment.segmentation_id) if segment.network_type == "vlan" else "0"
        return {"port_filter": False, "connectivity": "l2", "vlan": vlan, "bound_drivers": {"0": self.name}}


def _nic_can_wire(segment: Segment, configurations: Object) -> bool:
    mappings = configurations.get(DEVICE_MAPPINGS)
    return segment.network_type in SRIOV_NETWORK_TYPES and _reaches_physical_network(segment, mappings)
