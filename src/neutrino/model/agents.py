"""Agents: types, keys of `configurations`, and the state that an agent reports.

Decoding validates: it is lenient where releases may differ (unknown keys are ignored, all but the first four fields may be
missing) and strict in types.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from neutrino.model.objects import Object

OVS: Final = "Open vSwitch agent"
DHCP: Final = "DHCP agent"
L3: Final = "L3 agent"
METADATA: Final = "Metadata agent"
NIC_SWITCH: Final = "NIC Switch agent"
BGP: Final = "BGP dynamic routing agent"
BARE_METAL: Final = "Baremetal Node"  # a node of Ironic's: no agent of ours reports it
AGENT_TYPES: Final = (OVS, DHCP, L3, METADATA, NIC_SWITCH, BGP)

# --- keys of `configurations` that agents write and the server or other agents read -----------------------------------

BRIDGE_MAPPINGS: Final = "bridge_mappings"
TUNNEL_TYPES: Final = "tunnel_types"
TUNNELING_IP: Final = "tunneling_ip"
L2_POPULATION: Final = "l2_population"
ENABLE_DISTRIBUTED_ROUTING: Final = "enable_distributed_routing"
DEVICE_MAPPINGS: Final = "device_mappings"
EXTENSIONS: Final = "extensions"
# What the host guarantees, for Placement: Neutron's keys, and the name of the device of tunnels.
PROVIDED_BANDWIDTHS: Final = "resource_provider_bandwidths"
PROVIDED_DEFAULTS: Final = "resource_provider_inventory_defaults"
PROVIDED_PACKETS: Final = "resource_provider_packet_processing_without_direction"
PROVIDED_PACKETS_BY_DIRECTION: Final = "resource_provider_packet_processing_with_direction"
PROVIDED_PACKET_DEFAULTS: Final = "resource_provider_packet_processing_inventory_defaults"
PROVIDER_HYPERVISORS: Final = "resource_provider_hypervisors"
TUNNELLED_PROVIDER: Final = "tunnelled_network_rp_name"
INTEGRATION_BRIDGE: Final = "integration_bridge"
OVS_CAPABILITIES: Final = "ovs_capabilities"
NETWORKS: Final = "networks"
LOG_AGENT_HEARTBEATS: Final = "log_agent_heartbeats"
AGENT_MODE: Final = "agent_mode"
HANDLE_INTERNAL_ONLY_ROUTERS: Final = "handle_internal_only_routers"
GATEWAY_EXTERNAL_NETWORK_ID: Final = "gateway_external_network_id"
HA_CONNTRACKD: Final = "ha_conntrackd"  # address and port by which HA routers' connections are handed over; empty: not
HA_VRRP_ADVERT_INT: Final = "ha_vrrp_advert_int"  # seconds between VRRP advertisements of new HA routers
DHCP_PORT_BY_SERVER: Final = "dhcp_port_by_server"  # the server creates the DHCP agent's ports
DHCP_DISTRIBUTED: Final = "dhcp_distributed"  # the DHCP agent serves its host's ports on any scheduled network
USE_GATEWAY_IPS: Final = "use_gateway_ips"  # the DHCP agent uses the gateways' addresses: its port needs none
DATAPLANE: Final = "dataplane"  # "up", or "down: " and the reason
PROBLEMS: Final = "problems"  # objects that could not be applied, each with the reason
# Start of keys in `problems`, and the reason in `dataplane`: the guards of the agent's start keep it from all changes.
HELD: Final = "the agent is held"
TAKEOVER: Final = "takeover"  # of a held agent: what it has compared with Neutron's flows (model/takeover.py, Compared)
NEUTRON_AGENT: Final = "a Neutron agent runs on this host"
FOREIGN: Final = "foreign "  # start of keys in `problems`: flows or rules of others that may cut traffic
SRIOV_CARD: Final = "SR-IOV card "  # start of keys in `problems`: the device of a card follows
SRIOV_PORT: Final = "SR-IOV port "  # start of keys in `problems`: the id of a port with a virtual function follows
BGP_SESSION: Final = "BGP session "  # start of keys in `problems`: the address of a peer follows
LOCAL_IP: Final = "local_ip"  # key in `problems`: another host has the same tunnel address
FEED_BEHIND: Final = "feed_behind"  # set by the server: positions of the change log not applied yet
RESPAWNED: Final = "respawned"  # daemons that exited by themselves within the last hour, each with the reason
LAST_REPAIR: Final = "last_repair"  # the last drift that the agent repaired, with its time as "at"
LINKS: Final = "links"  # devices by which packets leave the host, each with "use" and "state": "up" or what is wrong

# --- values of `agent_mode` -------------------------------------------------------------------------------------------

LEGACY, DVR, DVR_SNAT, DVR_NO_EXTERNAL = "legacy", "dvr", "dvr_snat", "dvr_no_external"
DVR_MODES: Final = (DVR, DVR_SNAT, DVR_NO_EXTERNAL)
EXTERNAL_MODES: Final = frozenset({DVR, DVR_SNAT})  # of hosts that reach external networks themselves

# By type of agent the keys that the feed reads, as other hosts, or the scope of the agent's own, depend on them.
FEED_KEYS: Final = {OVS: (TUNNELING_IP, TUNNEL_TYPES), DHCP: (DHCP_DISTRIBUTED,), L3: (AGENT_MODE,)}

RESOURCE_VERSIONS: Final = {
    "Port": "1.8",
    "Network": "1.1",
    "Subnet": "1.1",
    "SecurityGroup": "1.5",
    "SecurityGroupRule": "1.2",
    "AddressGroup": "1.2",
    "QosPolicy": "1.10",
}
"""`resource_versions` of L2 agents: the objects of Neutron that they apply, at the versions of Neutron 29.

Neutron's L2 agents report them, its other agents do not. Nothing here depends on them, as the feed has versions of its own;
tools read them to see what an agent supports.
"""

MAX_REASON: Final = 1000  # characters of an error in a report: a program may have printed megabytes


def shortened(text: str) -> str:
    """An error text as it is reported. The server refuses more than it can store, and a heartbeat must not be refused."""
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"


# --- the report -------------------------------------------------------------------------------------------------------

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+$")]


class AgentStatus(StrEnum):
    """What a report is to the server: the first one, the first after the agent was down, or any other."""

    NEW = "new"
    REVIVED = "revived"
    ALIVE = "alive"


@dataclass(frozen=True, slots=True)
class AgentState:
    """One report of one agent. `start_flag` is set in the first one after the agent's start."""

    agent_type: Name
    binary: Name
    host: Name
    topic: Name
    availability_zone: Name | None = None  # None: unchanged; so are resource_versions if empty
    configurations: Object = field(default_factory=dict)
    resource_versions: Object = field(default_factory=dict)
    start_flag: bool = False
